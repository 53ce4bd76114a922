"""Training masks that do not depend on how the rows of a batch are spread over processes."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from calmix.ensembles.batch import BatchEnsemble
from calmix.ensembles.dropout import MCDropout
from calmix.ensembles.functional import SampledFunctions, drops_inside
from calmix.ensembles.masks import DRAWS, DROPOUTS, Key, SampledDropout
from calmix.ensembles.swap import swap_modules


class KeyedDropout(nn.Module):
    """Plain dropout whose training masks come from the keys of `keyed_dropout` while those are set."""

    def __init__(self, plain: nn.Module) -> None:
        super().__init__()
        self.plain = plain
        self.sampled = (SampledDropout(plain),)  # type: ignore[arg-type]  # no submodule: it shares `plain`

    @property
    def p(self) -> float:
        """The probability to drop, which fused attention reads."""
        return self.sampled[0].p

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.sampled[0](x) if self.training and DRAWS.training_keys else self.plain(x)
        return out


def key_dropout(model: nn.Module) -> nn.Module:
    """`model`, changed in place: its dropout layers follow `keyed_dropout`. MCDropout needs no change."""
    if isinstance(model, MCDropout):
        return model

    def swap(part: nn.Module) -> nn.Module | None:
        return KeyedDropout(copy.deepcopy(part)) if isinstance(part, DROPOUTS) else None

    return swap_modules(model, swap)


@contextmanager
def keyed_dropout(model: nn.Module, keys: Sequence[Key]) -> Iterator[None]:
    """Draw the masks of one training pass from `keys`, one for each equal block of rows, in their order.

    A process that runs only some of the blocks draws the same masks for them. Every member of a
    BatchEnsemble, whose rows are folded into the batch, gets its own masks.
    """
    members = model.members if isinstance(model, BatchEnsemble) else 1
    own = [(*key, member) if member else key for member in range(members) for key in keys]
    DRAWS.training_keys, DRAWS.place = own, 0
    with ExitStack() as stack:
        if not isinstance(model, MCDropout):
            DRAWS.keys = own
            if any(drops_inside(part) for part in model.modules()):
                stack.enter_context(SampledFunctions(always=False))
        try:
            yield
        finally:
            DRAWS.training_keys, DRAWS.keys = [], []
