"""Ensemble x data -> logits (M, N, C), every example counted."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from calmix import data
from calmix.seeds import derive


@torch.inference_mode()
def predict_logits(
    model: nn.Module,
    part: data.Examples,
    *,
    batch_size: int = 500,
    seed: int = 0,
    shard: int = 0,
    shards: int = 1,
    device: torch.device | str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """Logits (M, N, C) on the CPU in float32, of one of `shards` contiguous ranges of the part.

    The model is put into eval mode and left as it was. The draws of MC-dropout depend on `seed` and on the
    place of a batch, so the same call gives the same logits.
    """
    training = model.training
    model.eval()
    logits = []
    for batch in data.test_batches(part, batch_size=batch_size, shard=shard, shards=shards, device=device):
        if reseed := getattr(model, "reseed", None):
            reseed(derive(seed, "predict", int(batch.index[0])))
        logits.append(model(batch.inputs).float().cpu())
        if progress:
            progress(int(batch.index[-1]) + 1, len(part))
    model.train(training)
    return torch.cat(logits, dim=1)
