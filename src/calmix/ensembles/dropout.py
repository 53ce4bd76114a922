"""MC-dropout (Gal & Ghahramani, 2016): one network, sampled by leaving its dropout on."""

import copy
import functools
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from calmix.ensembles.functional import SampledFunctions, drops_inside, is_attention
from calmix.ensembles.graphs import is_exporting, outside_graphs
from calmix.ensembles.inputs import (
    Example,
    Inputs,
    contiguous_copy,
    example_inputs,
    member_inputs,
    positional,
)
from calmix.ensembles.masks import DRAWS, DROPOUTS, Key, SampledDropout, UnevenRows
from calmix.ensembles.members import refuse_data_parallel, require_member
from calmix.ensembles.outputs import Output, take_logits
from calmix.ensembles.swap import swap_modules
from calmix.errors import InputError

ROWS_AT_ONCE = 64


class MCDropout(nn.Module):
    """A network with dropout, sampled: logits (1, B, C) in `train()`, (samples, B, C) in `eval()`.

    In evaluation, dropout is on and everything else, batch norm above all, is in evaluation mode; every call
    draws the same masks again, so the same input has the same output. In training every call draws new masks,
    in an order fixed by `seed` or the last `reseed`; the number of calls so far is part of the `state_dict`.
    Without a `seed`, the seed is 0 and, where torch.distributed is running, the rank is part of the training
    masks' seed. Samples run together, up to 64 rows at once, so memory is bounded; the result does not depend
    on how many run together.

    The dropout that is sampled: nn.Dropout, Dropout1d, Dropout2d and Dropout3d; F.dropout and its variants;
    the attention dropout of nn.MultiheadAttention, of F.scaled_dot_product_attention, and of modules with
    "attention" in their class name that drop only in training mode (Hugging Face, timm): those stay in training
    mode. Also the dropout between the layers of nn.LSTM, nn.GRU and nn.RNN. A module without any of these, or
    with another kind of dropout layer, is refused. `example` (an input (B, ...), a tuple of inputs, or a
    dictionary by name) has two samples compared, and equal ones refused. `output` says how to take the logits
    out of what the module returns: a key or attribute ("logits"), an index, or a callable.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.1), nn.Linear(8, 3))
    >>> model = MCDropout(net, samples=20)
    >>> model(torch.rand(5, 2)).shape, model.eval()(torch.rand(5, 2)).shape
    (torch.Size([1, 5, 3]), torch.Size([20, 5, 3]))
    """

    def __init__(
        self,
        module: nn.Module,
        samples: int = 20,
        *,
        seed: int | None = None,
        output: Output = None,
        example: Example | None = None,
    ) -> None:
        super().__init__()
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        refuse_unsampled(module, example)
        self.samples = samples
        self.output = output
        self.kind = type(module).__name__
        self.reseed(0 if seed is None else seed)
        self.seed_by_rank = seed is None

        def swap(part: nn.Module) -> nn.Module | None:
            return SampledDropout(copy.deepcopy(part)) if isinstance(part, DROPOUTS) else None

        self.network = swap_modules(copy.deepcopy(module), swap)
        self.training = module.training
        self._keep_attention_on()
        if example is not None:
            self._check_samples(example_inputs(example))

    @property
    def members(self) -> int:
        return 1 if self.training else self.samples

    def reseed(self, seed: int) -> None:
        """All masks from here on follow from `seed`."""
        self.seed = seed
        self.seed_by_rank = False
        self.steps = 0

    def train(self, mode: bool = True) -> "MCDropout":
        super().train(mode)
        self._keep_attention_on()
        return self

    def _keep_attention_on(self) -> None:
        """Attention modules that drop only in training mode stay in it, they alone and not their children."""
        for part in self.network.modules():
            if is_attention(part):
                part.training = True

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.steps)

    def set_extra_state(self, state: Tensor) -> None:
        self.steps = int(state)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.setdefault(f"{prefix}_extra_state", self.get_extra_state())  # absent in older files
        super()._load_from_state_dict(state_dict, prefix, *args)

    @functools.partial(outside_graphs, recursive=False)
    def forward(self, x: Any = None, *more: Any, per_member: bool = False, **named: Any) -> Tensor:
        refuse_data_parallel(self)
        if is_exporting():
            raise InputError(
                "MCDropout draws its masks while it runs, which an exported graph cannot repeat: export "
                "model.member(0), the network with dropout off, or a DeepEnsemble or BatchEnsemble"
            )
        inputs = member_inputs(positional(x, more), named, self.members, per_member=per_member)
        if self.training:
            if torch._C._current_graph_task_id() != -1:
                raise InputError(
                    "MCDropout draws new masks at every call in training, so torch.utils.checkpoint cannot "
                    "run it again: put checkpoints around parts of the network that have no dropout"
                )
            return self._sample(inputs, DRAWS.training_keys or [self._next_training_key()])
        return self._evaluate(inputs)

    def _next_training_key(self) -> Key:
        self.steps += 1
        key: Key = (self.seed, "step", self.steps)
        rank = dist.get_rank() if self.seed_by_rank and dist.is_available() and dist.is_initialized() else 0
        return (*key, "rank", rank) if rank else key

    def _evaluate(self, inputs: Inputs) -> Tensor:
        together = max(1, ROWS_AT_ONCE // max(1, inputs.first.shape[1]))
        keys: list[Key] = [(self.seed, "sample", k) for k in range(self.samples)]
        try:
            return self._sample_blocks(inputs, keys, together)
        except UnevenRows:  # something without a batch axis is dropped: no two samples can run together
            return self._sample_blocks(inputs, keys, 1)

    def _sample_blocks(self, inputs: Inputs, keys: list[Key], together: int) -> Tensor:
        blocks = [slice(i, i + together) for i in range(0, len(keys), together)]
        return torch.cat([self._sample(inputs.map(lambda x, b=b: x[b]), keys[b]) for b in blocks])  # type: ignore[misc]

    def _sample(self, inputs: Inputs, keys: list[Key]) -> Tensor:
        """One pass of the network over inputs (samples, B, ...), with a key for each equal block of rows."""
        shape = inputs.first.shape[:2]
        DRAWS.keys, DRAWS.place = keys, 0
        try:
            folded = contiguous_copy(inputs).fold()
            with SampledFunctions(always=True):
                result = folded.call(self.network)
        finally:
            DRAWS.keys = []
        logits = take_logits(result, self.output, shape.numel(), self.kind)
        return logits.reshape(*shape, *logits.shape[1:])

    def member(self, k: int) -> nn.Module:
        """The network with plain dropout layers, a copy; all samples have the same weights."""
        require_member(k, self.samples)

        def take(part: nn.Module) -> nn.Module | None:
            return copy.deepcopy(part.plain) if isinstance(part, SampledDropout) else None

        network = copy.deepcopy(self.network)
        for part in network.modules():
            part.training = self.training if is_attention(part) else part.training
        return swap_modules(network, take)

    def describe(self) -> str:
        count = sum(p.numel() for p in self.parameters())
        return f"MCDropout of {self.samples} samples x {self.kind}: {count:,} parameters"

    @torch.no_grad()
    def _check_samples(self, example: Inputs) -> None:
        """Two samples must differ, and must not depend on each other."""
        trial = copy.deepcopy(self).eval()
        pair = example.map(lambda x: x.expand(2, *x.shape))
        keys: list[Key] = [(self.seed, "sample", k) for k in range(2)]
        alone = trial._sample_blocks(pair, keys, 1)
        if torch.equal(alone[0], alone[1]):
            raise InputError(
                f"two samples of {self.kind} are equal on the example: its dropout is off in evaluation or has "
                "p = 0. The likely cause is F.dropout, or dropout of its own, behind `if self.training`: use "
                "nn.Dropout layers, or call F.dropout without that condition"
            )
        try:
            together = trial._sample_blocks(pair, keys, 2)
        except UnevenRows:
            return
        tolerance = 3 * torch.finfo(alone.dtype).eps ** 0.5
        if not torch.allclose(together, alone, rtol=tolerance, atol=tolerance * float(alone.abs().max())):
            raise InputError(
                f"samples of {self.kind} change on the example if they run together: does it mix rows, or move "
                "them from the first axis? Every dropout must act on a tensor with the batch first"
            )


def refuse_unsampled(module: nn.Module, example: Example | None) -> None:
    """Raise InputError for dropout that cannot be sampled, and for a module that seems to have none."""
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.dropout._DropoutNd) and type(part) not in DROPOUTS:
            raise InputError(
                f"{name or 'the module'} ({type(part).__name__}) has dropout that cannot be sampled: use nn.Dropout"
            )
    layers = any(isinstance(part, DROPOUTS) and part.p > 0 for part in module.modules())
    if example is None and not layers and not any(drops_inside(part) for part in module.modules()):
        raise InputError(
            f"{type(module).__name__} has no dropout layer with p > 0: all samples would be equal. If it calls "
            "F.dropout, pass example=, an input on which two samples are compared"
        )
