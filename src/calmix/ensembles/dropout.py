"""MC-dropout (Gal & Ghahramani, 2016): one network, sampled by leaving its dropout on."""

import copy
import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor, nn

from calmix.ensembles.batch import BatchEnsemble
from calmix.ensembles.graphs import outside_graphs
from calmix.ensembles.members import require_member, require_rows, rows_of_members
from calmix.ensembles.swap import swap_modules
from calmix.errors import InputError
from calmix.seeds import generator

ROWS_AT_ONCE = 64
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


Key: TypeAlias = tuple[int | str, ...]


class Draws(threading.local):
    """Where the masks of the pass that runs in this thread come from: one key for each block of rows.

    A mask has a generator of its own, seeded by its key and its place in the pass. So there is no state to
    copy, pickle or move, and the masks of a sample do not depend on which others pass beside it.
    """

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.training_keys: list[Key] = []
        self.place = 0

    @outside_graphs
    def mask(self, like: Tensor, keep: float) -> Tensor:
        """1 with probability `keep`, otherwise 0."""
        if not self.keys:
            raise InputError("a sampled dropout layer was called outside of its MCDropout: call that instead")
        mask = torch.empty_like(like)
        for key, block in zip(self.keys, mask.chunk(len(self.keys)), strict=True):
            seed, *path = key
            block.bernoulli_(keep, generator=generator(int(seed), *path, self.place, device=like.device))
        self.place += 1
        return mask


DRAWS = Draws()


class SampledDropout(nn.Module):
    """Dropout that is always on, of single elements or whole channels as the plain layer has it."""

    def __init__(self, plain: nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d) -> None:
        super().__init__()
        self.plain = plain

    def forward(self, x: Tensor) -> Tensor:
        keep = 1 - self.plain.p
        if keep in (0, 1):
            return x * keep
        elements = isinstance(self.plain, nn.Dropout)
        like = x.detach() if elements else x.new_empty(*x.shape[:2], *[1] * (x.ndim - 2))
        mask: Tensor = DRAWS.mask(like, keep)
        return torch.addcmul(x.new_zeros(()), x, mask, value=1 / keep)  # x * mask / keep in one pass


class KeyedDropout(nn.Module):
    """Plain dropout whose training masks come from the keys of `keyed_dropout` while those are set."""

    def __init__(self, plain: nn.Module) -> None:
        super().__init__()
        self.plain = plain
        self.sampled = (SampledDropout(plain),)  # type: ignore[arg-type]  # no submodule: it shares `plain`

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.sampled[0](x) if self.training and DRAWS.training_keys else self.plain(x)
        return out


def key_dropout(model: nn.Module) -> nn.Module:
    """`model`, changed in place: its dropout layers follow `keyed_dropout`. MCDropout does so by itself."""
    if isinstance(model, MCDropout):
        return model

    def swap(part: nn.Module) -> nn.Module | None:
        return KeyedDropout(copy.deepcopy(part)) if isinstance(part, DROPOUTS) else None

    return swap_modules(model, swap)


@contextmanager
def keyed_dropout(model: nn.Module, keys: Sequence[Key]) -> Iterator[None]:
    """Draw the masks of one training pass from `keys`, one for each equal block of rows, in their order.

    A process that passes only some of the blocks draws the same masks for them. The members of a
    BatchEnsemble, whose rows follow each other inside, have masks of their own.
    """
    members = model.members if isinstance(model, BatchEnsemble) else 1
    own = [(*key, member) if member else key for member in range(members) for key in keys]
    DRAWS.training_keys, DRAWS.place = own, 0
    if not isinstance(model, MCDropout):
        DRAWS.keys = own
    try:
        yield
    finally:
        DRAWS.training_keys, DRAWS.keys = [], []


def copied(rows: Tensor) -> Tensor:
    """Rows that the network may change, laid out the same however many they are: masks follow the layout."""
    return rows.clone(memory_format=torch.contiguous_format)


class MCDropout(nn.Module):
    """A network with dropout, sampled: logits (1, B, C) in `train()`, (samples, B, C) in `eval()`.

    In evaluation, dropout is on and all else, batch norm above all, as `eval()` has it; every call draws the
    same masks again, so the same input has the same output. In training every call draws new ones, in an
    order fixed by `seed` or the last `reseed`. Samples pass together, as many as make up to 64 rows, so
    memory is bounded and the result does not depend on how many they are.

    nn.Dropout, Dropout1d, Dropout2d and Dropout3d are exchanged; a module with none of them, or with a kind
    that cannot be, is refused. `torch.nn.functional.dropout` inside a module cannot be seen, and is not
    sampled.

    >>> net = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.1), nn.Linear(8, 3))
    >>> model = MCDropout(net, samples=20)
    >>> model(torch.rand(5, 2)).shape, model.eval()(torch.rand(5, 2)).shape
    (torch.Size([1, 5, 3]), torch.Size([20, 5, 3]))
    """

    def __init__(self, module: nn.Module, samples: int = 20, *, seed: int = 0) -> None:
        super().__init__()
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        for name, part in module.named_modules():
            hidden = isinstance(part, (nn.MultiheadAttention, nn.RNNBase)) and part.dropout > 0
            other = isinstance(part, nn.modules.dropout._DropoutNd) and type(part) not in DROPOUTS
            fused = isinstance(part, nn.TransformerEncoderLayer)  # evaluated in one call, past its dropout
            if hidden or other or fused:
                raise InputError(
                    f"{name or 'the module'} ({type(part).__name__}) has dropout that cannot be sampled"
                )
        if not any(isinstance(part, DROPOUTS) and part.p > 0 for part in module.modules()):
            raise InputError(
                f"{type(module).__name__} has no dropout layer with p > 0: all samples would be equal"
            )
        self.samples = samples
        self.kind = type(module).__name__
        self.reseed(seed)

        def swap(part: nn.Module) -> nn.Module | None:
            return SampledDropout(copy.deepcopy(part)) if isinstance(part, DROPOUTS) else None

        self.network = swap_modules(copy.deepcopy(module), swap)
        self.training = module.training

    @property
    def members(self) -> int:
        return 1 if self.training else self.samples

    def reseed(self, seed: int) -> None:
        """All draws from here on follow from `seed`."""
        self.seed = seed
        self.steps = 0

    @functools.partial(outside_graphs, recursive=False)
    def forward(self, x: Tensor, *, per_member: bool = False) -> Tensor:
        rows = rows_of_members(x, self.members, per_member=per_member)
        if self.training:
            if torch._C._current_graph_task_id() != -1:
                raise InputError(
                    "MCDropout draws new masks at every call in training, so torch.utils.checkpoint cannot "
                    "run it again: put checkpoints around parts of the network that have no dropout"
                )
            self.steps += 1
            return self._drawn(copied(rows), DRAWS.training_keys or [(self.seed, "step", self.steps)])
        at_once = max(1, ROWS_AT_ONCE // max(1, rows.shape[1]))
        keys: list[Key] = [(self.seed, "sample", k) for k in range(self.samples)]
        starts = range(0, self.samples, at_once)
        return torch.cat([self._drawn(copied(rows[i : i + at_once]), keys[i : i + at_once]) for i in starts])

    def _drawn(self, rows: Tensor, keys: list[Key]) -> Tensor:
        DRAWS.keys, DRAWS.place = keys, 0
        try:
            out: Tensor = self.network(rows.flatten(0, 1))
        finally:
            DRAWS.keys = []
        require_rows(self.kind, out, rows.flatten(0, 1))
        return out.reshape(*rows.shape[:2], *out.shape[1:])

    def member(self, k: int) -> nn.Module:
        """The network with plain dropout layers; the weights of all samples are the same."""
        require_member(k, self.samples)

        def take(part: nn.Module) -> nn.Module | None:
            return copy.deepcopy(part.plain) if isinstance(part, SampledDropout) else None

        return swap_modules(copy.deepcopy(self.network), take)

    def describe(self) -> str:
        count = sum(p.numel() for p in self.parameters())
        return f"MCDropout of {self.samples} samples x {self.kind}: {count:,} parameters"
