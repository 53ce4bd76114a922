"""Metrics of predictions that arrive in batches or in several processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
import torch.distributed
from torch import Tensor

from calmix.errors import InputError, one_of
from calmix.metrics.binning import Cells
from calmix.metrics.checks import Array, check_array, check_count, check_logits
from calmix.metrics.errors import ece_statistic, mean_error, sce_statistic
from calmix.metrics.gaps import Reliability, class_gap_statistic, gap_by_bin, reliability_of
from calmix.metrics.sample import Sample, floats
from calmix.metrics.scores import BRIER, NLL
from calmix.metrics.trailing import class_rows

Values: TypeAlias = Literal["probs", "logits"]


@dataclass(frozen=True, eq=False)
class Scores:
    """Metrics of all examples of an `Accumulator`; each field equals the function of its name.

    `members` are the scores of each member alone, where batches had a member axis.
    """

    examples: int
    accuracy: float
    nll: float
    brier: float
    ece: float
    sce: float
    gap: float
    reliability: Reliability
    class_gap: Tensor
    members: tuple["Scores", ...] = ()


class Accumulator:
    """Metrics from batches: the same values as the one-shot functions, from additive sums.

    Memory is that of (classes, bins) sums in float64, whatever the number of examples. A batch is probs
    (N, C) with labels (N,), or (N, C, ...) with (N, ...); with a member axis before it, (M, N, C, ...), the
    scores are those of the pool, and `Scores.members` those of each member. With `values="logits"` the
    softmax is taken first. Labels that are `ignore_index` are left out.

    >>> import torch
    >>> accumulator = Accumulator(2)
    >>> accumulator.update(torch.tensor([[0.75, 0.25]]), torch.tensor([0]))
    >>> accumulator.update(torch.tensor([[0.25, 0.75]]), torch.tensor([0]))
    >>> accumulator.compute().ece, accumulator.compute().gap
    (0.25, -0.25)
    """

    def __init__(
        self,
        num_classes: int,
        *,
        num_bins: int = 15,
        values: Values = "probs",
        ignore_index: int | None = None,
    ):
        check_count("num_classes", num_classes)
        check_count("num_bins", num_bins)
        one_of("values", values, get_args(Values))
        self.num_classes, self.num_bins = num_classes, num_bins
        self.values, self.ignore_index = values, ignore_index
        self.device = torch.device("cpu")
        self.reset()

    @property
    def members(self) -> int | None:
        """The number of members of the batches so far, None where they had no member axis."""
        return len(self._members) or None

    def reset(self) -> None:
        """Forget all examples."""
        bins, classes = self.num_bins, self.num_classes
        shapes = {"top": (1, bins), "every": (classes, bins), "label": (1, classes)}
        shapes |= {"nll": (1, 1), "brier": (1, 1)}
        self._cells = {name: Cells(*self._zeros(*shape)) for name, shape in shapes.items()}
        self._members: list[Accumulator] = []

    def update(self, probs: Array, labels: Array) -> None:
        """Add a batch, probs (or logits) (N, C, ...) or (M, N, C, ...); an invalid batch changes nothing."""
        axes = 2 if getattr(probs, "ndim", 2) - getattr(labels, "ndim", 1) != 2 else 3
        if self.values == "logits":
            probs = _softmax(probs, axes)
        if axes == 2:
            if self._members:
                raise InputError(
                    f"probs has shape {tuple(probs.shape)}, earlier batches had {self.members} members: give "
                    f"({self.members}, N, {self.num_classes}) again, or reset()"
                )
            self._add(self._sums(probs, labels))
            return
        check_array("probs", probs, "members", "examples", "classes", *_more_axes(probs))
        if len(probs) != len(self._members) and self._examples:
            raise InputError(
                f"probs has shape {tuple(probs.shape)}, earlier batches had {self.members or 'no'} members: "
                "give as many again, or reset()"
            )
        pooled = floats(probs).double().mean(0)
        sums = [self._sums(part, labels) for part in (*probs, pooled)]
        if not self._members:
            self._members = [self._empty() for _ in range(len(probs))]
        for part, added in zip((*self._members, self), sums, strict=True):
            part._add(added)

    def merge(self, other: "Accumulator") -> "Accumulator":
        """Add the examples of another accumulator; returns this one."""
        if (self.num_classes, self.num_bins) != (other.num_classes, other.num_bins):
            raise InputError(
                f"other has {other.num_classes} classes and {other.num_bins} bins, "
                f"this accumulator {self.num_classes} and {self.num_bins}: they cannot be merged"
            )
        if not other._examples:
            return self
        if self._examples and self.members != other.members:
            raise InputError(
                f"other has {other.members or 'no'} members, this accumulator {self.members or 'no'}: they "
                "cannot be merged"
            )
        if not self._members:
            self._members = [self._empty() for _ in other._members]
        for own, theirs in zip((self, *self._members), (other, *other._members), strict=True):
            own._add(theirs._cells)
        return self

    def reduce(self) -> "Accumulator":
        """A new accumulator with the examples of all `torch.distributed` processes, or of this one alone."""
        parts: list[Accumulator | None] = [self]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(parts, self)
        total = self._empty()
        for part in parts:
            assert part is not None
            total.merge(part)
        return total

    def compute(self) -> Scores:
        """The scores of all examples so far."""
        cells = {name: Cells(*(part.cpu() for part in parts)) for name, parts in self._cells.items()}
        top = cells["top"]
        examples = self._examples
        if not examples:
            raise InputError("the accumulator has no examples: call update first")
        hits, confidence = float(top.hits.sum()), float(top.total.sum())
        return Scores(
            examples=examples,
            accuracy=hits / examples,
            nll=float(cells["nll"].total) / examples,
            brier=float(cells["brier"].total) / examples,
            ece=float(mean_error(top)),
            sce=float(mean_error(cells["every"])),
            gap=(hits - confidence) / examples,
            reliability=reliability_of(top),
            class_gap=gap_by_bin(cells["label"]),
            members=tuple(member.compute() for member in self._members),
        )

    def to(self, device: torch.device | str) -> "Accumulator":
        """Move the sums; returns this accumulator. Batches may lie on any device."""
        self.device = torch.device(device)
        for part in (self, *self._members):
            part.device = self.device
            part._cells = {k: Cells(*(t.to(self.device) for t in cells)) for k, cells in part._cells.items()}
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """The sums, copied: "top", "every", "label", "nll", "brier", those of member k as "members.k.top"."""
        state = {name: torch.stack(tuple(cells)) for name, cells in self._cells.items()}
        for k, member in enumerate(self._members):
            state |= {f"members.{k}.{name}": value for name, value in member.state_dict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the sums of a saved accumulator of as many classes and bins, with any members."""
        own = {name: tuple(torch.stack(tuple(cells)).shape) for name, cells in self._cells.items()}
        prefixes = sorted({name.rpartition(".")[0] for name in state}, key=lambda p: (len(p), p))
        for k, prefix in enumerate(prefixes):
            if prefix != (f"members.{k - 1}" if k else ""):
                raise InputError(f"state has the keys {sorted(state)[:8]}: it is not that of an Accumulator")
        parts: list[dict[str, Cells]] = []
        for prefix in prefixes or [""]:
            part: dict[str, Any] = {name: state.get(f"{prefix}.{name}" if prefix else name) for name in own}
            for name, value in part.items():
                if not isinstance(value, Tensor) or tuple(value.shape) != own[name]:
                    shape = tuple(value.shape) if isinstance(value, Tensor) else "nothing"
                    raise InputError(
                        f"state has {shape} for {name!r}, this accumulator {own[name]}: build it with the "
                        "same num_classes and num_bins"
                    )
            parts.append({name: Cells(*value.to(self.device).double()) for name, value in part.items()})
        self.reset()
        self._members = [self._empty() for _ in parts[1:]]
        for target, cells in zip((self, *self._members), parts, strict=True):
            target._add(cells)

    def __len__(self) -> int:
        return self._examples

    @property
    def _examples(self) -> int:
        return int(self._cells["top"].size.sum())

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(3, *shape, dtype=torch.float64, device=self.device)

    def _empty(self) -> "Accumulator":
        new = Accumulator(self.num_classes, num_bins=self.num_bins, ignore_index=self.ignore_index)
        new.values = self.values
        return new.to(self.device)

    def _sums(self, probs: Array, labels: Array) -> dict[str, Cells]:
        """What a batch without a member axis adds."""
        if getattr(probs, "ndim", 2) < 2:
            check_array("probs", probs, "examples", "classes")
        sample = Sample(probs, labels, pixels=True, ignore_index=self.ignore_index)
        if sample.classes != self.num_classes:
            raise InputError(f"probs has {sample.classes} classes, the accumulator {self.num_classes}")
        statistics = {
            "top": ece_statistic(sample, num_bins=self.num_bins),
            "every": sce_statistic(sample, num_bins=self.num_bins, sizes=False),
            "label": class_gap_statistic(sample),
            "nll": NLL,
            "brier": BRIER,
        }
        sums = {name: statistic.zeros() for name, statistic in statistics.items()}
        for block in sample.blocks():
            for name, statistic in statistics.items():
                statistic.add(sums[name], block)
        return {name: statistic.cells(sums[name]) for name, statistic in statistics.items()}

    def _add(self, cells: dict[str, Cells]) -> None:
        for name, parts in cells.items():
            for sums, added in zip(self._cells[name], parts, strict=True):
                sums += added.to(self.device)


def _more_axes(values: Any, known: int = 3) -> tuple[str, ...]:
    return tuple(f"axis {k}" for k in range(known, getattr(values, "ndim", known)))


def _softmax(logits: Array, axes: int) -> Tensor:
    """Probabilities in float64 of logits with the classes on axis `axes - 1`, no row of which may be nan."""
    names = ("examples", "classes") if axes == 2 else ("members", "examples", "classes")
    check_array("logits", logits, *names, *_more_axes(logits, axes))
    values = floats(logits).double()
    rows = class_rows(values, axes - 1)
    check_logits(rows[None] if axes == 2 else rows)
    return values.softmax(axes - 1)
