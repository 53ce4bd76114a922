"""Dropout between the layers of nn.LSTM, nn.GRU and nn.RNN, with sampled masks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from calmix.ensembles.masks import drop


def run_layers(function: Callable[..., Any], args: tuple[Any, ...], *, always: bool) -> Any:
    """`function(*args)` of a recurrent network, one layer after the other, with sampled dropout in between.

    args are those of torch.lstm, torch.gru, torch.rnn_tanh and torch.rnn_relu: (x, state, weights, has_biases,
    num_layers, dropout, train, bidirectional, batch_first), or for packed sequences (data, batch_sizes,
    state, weights, has_biases, num_layers, dropout, train, bidirectional).
    """
    packed = not isinstance(args[3], bool)  # has_biases, one further behind
    x, *sizes = args[: 2 if packed else 1]
    state, weights, has_biases, num_layers, dropout, train, bidirectional, *layout = args[len(sizes) + 1 :]
    if dropout == 0 or num_layers == 1 or not (train or always):
        return function(*args)
    transposed = not packed and not layout[0]
    states, directions, each = [], 2 if bidirectional else 1, len(weights) // num_layers
    for layer in range(num_layers):
        rows = slice(layer * directions, (layer + 1) * directions)
        own = state[rows] if isinstance(state, Tensor) else tuple(part[rows] for part in state)
        flat = weights[layer * each : (layer + 1) * each]
        x, *after = function(x, *sizes, own, flat, has_biases, 1, 0.0, train, bidirectional, *layout)
        states.append(after)
        if layer + 1 < num_layers:
            x = drop(x.transpose(0, 1), dropout).transpose(0, 1) if transposed else drop(x, dropout)
    return (x, *(torch.cat(parts) for parts in zip(*states, strict=True)))
