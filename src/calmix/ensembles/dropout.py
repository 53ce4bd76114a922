"""MC-dropout (Gal & Ghahramani, 2016): one network, sampled by leaving its dropout on."""

import copy

import torch
from torch import Tensor, nn

from calmix.ensembles.members import require_member, rows_of_members
from calmix.ensembles.swap import swap_modules
from calmix.errors import InputError
from calmix.seeds import generator

ROWS_AT_ONCE = 256
ELEMENTS = (nn.Dropout,)
CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class Draws:
    """Where masks come from: each from a generator of its own, keyed by seed, pass, sample and place.

    There is no generator's state to copy, pickle or move, and a sample's masks do not depend on which others
    are drawn beside it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.steps = 0
        self.keys: list[tuple[str, int]] = []
        self.place = 0

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def begin(self, keys: list[tuple[str, int]]) -> None:
        """A forward pass over rows (len(keys) * B, ...): each block of B rows is drawn by its key."""
        self.keys = keys
        self.place = 0

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def mask(self, x: Tensor, keep: float) -> Tensor:
        """1 / keep with probability `keep`, otherwise 0, in the shape of x."""
        mask = torch.empty_like(x, requires_grad=False)
        for key, block in zip(self.keys, mask.chunk(len(self.keys)), strict=True):
            block.bernoulli_(keep, generator=generator(self.seed, *key, self.place, device=x.device))
        self.place += 1
        return mask.div_(keep)


class SampledDropout(nn.Module):
    """Dropout that is always on and takes its masks from `draws`: element by element, or whole channels."""

    def __init__(self, plain: nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d, draws: Draws) -> None:
        super().__init__()
        self.plain = plain
        self.draws = draws

    def forward(self, x: Tensor) -> Tensor:
        keep = 1 - self.plain.p
        if keep in (0, 1):
            return x * keep
        like = x if isinstance(self.plain, nn.Dropout) else x.new_empty(*x.shape[:2], *[1] * (x.ndim - 2))
        mask: Tensor = self.draws.mask(like, keep)
        return x * mask


class MCDropout(nn.Module):
    """A network with dropout, sampled: logits (1, B, C) in `train()`, (samples, B, C) in `eval()`.

    In evaluation, dropout is on and all else, batch norm above all, as `eval()` has it; every call draws the
    same masks again, so the same input has the same output. In training every call draws new ones, in an
    order fixed by `seed` or the last `reseed`. Samples pass together, as many as make up to 256 rows, so
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
            other = isinstance(part, nn.modules.dropout._DropoutNd) and type(part) not in ELEMENTS + CHANNELS
            if hidden or other:
                raise InputError(
                    f"{name or 'the module'} ({type(part).__name__}) has dropout that cannot be sampled"
                )
        if not any(isinstance(part, ELEMENTS + CHANNELS) and part.p > 0 for part in module.modules()):
            raise InputError(
                f"{type(module).__name__} has no dropout layer with p > 0: all samples would be equal"
            )
        self.samples = samples
        self.kind = type(module).__name__
        self.draws = Draws(seed)

        def swap(part: nn.Module) -> nn.Module | None:
            if isinstance(part, ELEMENTS + CHANNELS):
                return SampledDropout(copy.deepcopy(part), self.draws)
            return None

        self.network = swap_modules(copy.deepcopy(module), swap)
        self.train(module.training)

    @property
    def members(self) -> int:
        return 1 if self.training else self.samples

    def reseed(self, seed: int) -> None:
        """All draws from here on follow from `seed`."""
        self.draws.seed, self.draws.steps = seed, 0

    def forward(self, x: Tensor, *, per_member: bool = False) -> Tensor:
        rows = rows_of_members(x, self.members, per_member=per_member)
        if self.training:
            self.draws.begin([("step", self.draws.steps)])
            self.draws.steps += 1
            logits: Tensor = self.network(rows[0])
            return logits.unsqueeze(0)
        at_once = max(1, ROWS_AT_ONCE // max(1, rows.shape[1]))
        passes = []
        for first in range(0, self.samples, at_once):
            some = rows[first : first + at_once]
            self.draws.begin([("sample", first + i) for i in range(len(some))])
            passes.append(self.network(some.flatten(0, 1)).unflatten(0, some.shape[:2]))
        return torch.cat(passes)

    def member(self, k: int) -> nn.Module:
        """The network with plain dropout layers; the weights of all samples are the same."""
        require_member(k, self.samples)

        def take(part: nn.Module) -> nn.Module | None:
            return copy.deepcopy(part.plain) if isinstance(part, SampledDropout) else None

        return swap_modules(copy.deepcopy(self.network), take)

    def describe(self) -> str:
        count = sum(p.numel() for p in self.parameters())
        return f"MCDropout of {self.samples} samples x {self.kind}: {count:,} parameters"
