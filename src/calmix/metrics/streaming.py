"""Metrics of predictions that arrive in batches or in several processes."""

from dataclasses import dataclass

import torch
import torch.distributed
from torch import Tensor

from calmix.errors import InputError
from calmix.metrics.binning import Cells
from calmix.metrics.checks import Array, check_array, check_count
from calmix.metrics.errors import ece_statistic, mean_error, sce_statistic
from calmix.metrics.gaps import Reliability, class_gap_statistic, gap_by_bin, reliability_of
from calmix.metrics.sample import Sample
from calmix.metrics.scores import BRIER, NLL


@dataclass(frozen=True, eq=False)
class Scores:
    """Metrics of all examples of an `Accumulator`; each field equals the function of its name."""

    examples: int
    accuracy: float
    nll: float
    brier: float
    ece: float
    sce: float
    gap: float
    reliability: Reliability
    class_gap: Tensor


class Accumulator:
    """Metrics from batches: the same values as the one-shot functions, from additive sums.

    >>> import torch
    >>> accumulator = Accumulator(2)
    >>> accumulator.update(torch.tensor([[0.75, 0.25]]), torch.tensor([0]))
    >>> accumulator.update(torch.tensor([[0.25, 0.75]]), torch.tensor([0]))
    >>> accumulator.compute().ece, accumulator.compute().gap
    (0.25, -0.25)
    """

    def __init__(self, num_classes: int, *, num_bins: int = 15):
        check_count("num_classes", num_classes)
        check_count("num_bins", num_bins)
        self.num_classes, self.num_bins = num_classes, num_bins
        shapes = {"top": (1, num_bins), "every": (num_classes, num_bins), "label": (1, num_classes)}
        shapes |= {"nll": (1, 1), "brier": (1, 1)}
        zeros = {name: torch.zeros(3, *shape, dtype=torch.float64) for name, shape in shapes.items()}
        self._cells = {name: Cells(*sums) for name, sums in zeros.items()}

    def update(self, probs: Array, labels: Array) -> None:
        """Add a batch, probs (N, C) and labels (N,); an invalid batch changes nothing."""
        check_array("probs", probs, "examples", "classes")
        sample = Sample(probs, labels)
        if sample.classes != self.num_classes:
            raise InputError(f"probs has {sample.classes} classes, the accumulator {self.num_classes}")
        statistics = {
            "top": ece_statistic(sample, num_bins=self.num_bins),
            "every": sce_statistic(sample, num_bins=self.num_bins),
            "label": class_gap_statistic(sample),
            "nll": NLL,
            "brier": BRIER,
        }
        sums = {name: statistic.zeros() for name, statistic in statistics.items()}
        for block in sample.blocks():
            for name, statistic in statistics.items():
                statistic.add(sums[name], block)
        self._add({name: statistic.cells(sums[name]) for name, statistic in statistics.items()})

    def merge(self, other: "Accumulator") -> "Accumulator":
        """Add the examples of another accumulator; returns this one."""
        if (self.num_classes, self.num_bins) != (other.num_classes, other.num_bins):
            raise InputError(
                f"other has {other.num_classes} classes and {other.num_bins} bins, "
                f"this accumulator {self.num_classes} and {self.num_bins}: they cannot be merged"
            )
        self._add(other._cells)
        return self

    def reduce(self) -> "Accumulator":
        """A new accumulator with the examples of all `torch.distributed` processes, or of this one alone."""
        parts: list[Accumulator | None] = [self]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            parts = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(parts, self)
        total = Accumulator(self.num_classes, num_bins=self.num_bins)
        for part in parts:
            assert part is not None
            total.merge(part)
        return total

    def compute(self) -> Scores:
        top = self._cells["top"]
        examples = int(top.size.sum())
        if not examples:
            raise InputError("the accumulator has no examples: call update first")
        hits, confidence = float(top.hits.sum()), float(top.total.sum())
        return Scores(
            examples=examples,
            accuracy=hits / examples,
            nll=float(self._cells["nll"].total) / examples,
            brier=float(self._cells["brier"].total) / examples,
            ece=float(mean_error(top)),
            sce=float(mean_error(self._cells["every"])),
            gap=(hits - confidence) / examples,
            reliability=reliability_of(top),
            class_gap=gap_by_bin(self._cells["label"]),
        )

    def _add(self, cells: dict[str, Cells]) -> None:
        for name, parts in cells.items():
            for sums, added in zip(self._cells[name], parts, strict=True):
                sums += added
