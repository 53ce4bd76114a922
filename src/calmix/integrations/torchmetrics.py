"""Calibration metrics as `torchmetrics.Metric`: exact sums of fixed size, so that they add over processes.

Each has the value of the function of `calmix.metrics` on all examples together, whatever the batches were.
They log in Lightning, reset, sync (`dist_reduce_fx="sum"`) and sit in a `MetricCollection`. Metrics that need
every example at once (`ace`, `tace`, `dce`, `skce`, `smooth_ece`) have no such sums and are not here.
"""

from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from calmix.calibrate.inputs import check_values
from calmix.errors import InputError, one_of
from calmix.integrations import requires
from calmix.metrics import scores
from calmix.metrics.binning import Statistic
from calmix.metrics.checks import check_count
from calmix.metrics.errors import ece_statistic, sce_statistic
from calmix.metrics.gaps import class_gap_statistic
from calmix.metrics.sample import Sample
from calmix.predictions import pool

with requires("torchmetrics", "torchmetrics"):
    from torchmetrics import Metric

Values: TypeAlias = Literal["probs", "logits"]


class _SumMetric(Metric):
    """A statistic of `calmix.metrics` whose sums are the metric's only state, float64 (3, cells + 1).

    preds (N, C), or members (M, N, C), which are pooled; `values` says what they are. With num_classes=1
    preds (N,) are P(y = 1), or their log-odds, and judged as such. target (N,) are class numbers.
    """

    full_state_update = False
    is_differentiable = False
    name: ClassVar[str]

    def __init__(self, num_classes: int, num_bins: int, values: Values, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_count("num_classes", num_classes)
        one_of("values", values, ("probs", "logits"))
        self.num_classes, self.num_bins, self.values = num_classes, num_bins, values
        shape = self._statistic(self._sample_of_one()).zeros().shape
        # A name of its own: a MetricCollection takes metrics for one whose states have equal names and, after
        # the first batch, equal numbers.
        self.add_state(f"{self.name}_sums", torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch; an invalid one changes nothing."""
        sample = Sample(self._probs(preds), target)
        statistic = self._statistic(sample)
        added = statistic.zeros()
        for block in sample.blocks():
            statistic.add(added, block)
        sums: Tensor = getattr(self, f"{self.name}_sums")
        sums += added.to(sums.device)

    def compute(self) -> Tensor:
        """The metric of all examples since the last reset, in float64; nan before the first."""
        sums: Tensor = getattr(self, f"{self.name}_sums")
        statistic = self._statistic(self._sample_of_one())
        cells = statistic.cells(sums)
        value = statistic.finish(statistic.value(cells))
        return value if bool(cells.size.any()) else torch.full_like(value, torch.nan)

    def _statistic(self, sample: Sample) -> Statistic:
        raise NotImplementedError

    def _sample_of_one(self) -> Sample:
        """A statistic's shape depends on the number of classes of its sample and on nothing else."""
        probs = torch.ones(1) if self.num_classes == 1 else torch.eye(1, self.num_classes)
        return Sample(probs, torch.zeros(1, dtype=torch.long))

    def _probs(self, preds: Tensor) -> Tensor:
        classes, binary = self.num_classes, self.num_classes == 1
        fits = preds.ndim == 1 if binary else preds.ndim in (2, 3) and preds.shape[-1] == classes
        if not fits:
            expected = "(N,), P(y = 1)" if binary else f"(N, {classes}) or (M, N, {classes})"
            hint = "; num_classes=1 takes P(y = 1)" if preds.ndim == 1 else ""
            raise InputError(f"preds has shape {tuple(preds.shape)}; give {expected}{hint}")
        if binary:
            return preds if self.values == "probs" else preds.double().sigmoid()
        members = preds if preds.ndim == 3 else preds[None]
        if self.values == "logits":
            check_values(members)
            return pool(members)
        return members[0] if len(members) == 1 else members.double().mean(0)


class _BinnedMetric(_SumMetric):
    def __init__(
        self, num_classes: int, num_bins: int = 15, *, values: Values = "probs", **kwargs: Any
    ) -> None:
        check_count("num_bins", num_bins)
        super().__init__(num_classes, num_bins, values, **kwargs)


class _MeanMetric(_SumMetric):
    def __init__(self, num_classes: int, *, values: Values = "probs", **kwargs: Any) -> None:
        super().__init__(num_classes, 1, values, **kwargs)


class ECE(_BinnedMetric):
    """`calmix.metrics.ece`: expected calibration error, `num_bins` bins of equal width.

    >>> metric = ECE(num_classes=2)
    >>> metric.update(torch.tensor([[0.75, 0.25]]), torch.tensor([0]))
    >>> metric.update(torch.tensor([[0.25, 0.75]]), torch.tensor([0]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    name, higher_is_better = "ece", False

    def _statistic(self, sample: Sample) -> Statistic:
        return ece_statistic(sample, num_bins=self.num_bins)


class SCE(_BinnedMetric):
    """`calmix.metrics.sce`: static calibration error, each class against the rest."""

    name, higher_is_better = "sce", False

    def _statistic(self, sample: Sample) -> Statistic:
        return sce_statistic(sample, num_bins=self.num_bins)


class Accuracy(_MeanMetric):
    """`calmix.metrics.accuracy`: fraction of examples whose first largest probability is the label's."""

    name, higher_is_better = "accuracy", True

    def _statistic(self, sample: Sample) -> Statistic:
        return scores.ACCURACY


class Gap(_MeanMetric):
    """`calmix.metrics.gap`: accuracy minus mean confidence, positive for under-confident predictions."""

    name, higher_is_better = "gap", None

    def _statistic(self, sample: Sample) -> Statistic:
        return scores.GAP


class NLL(_MeanMetric):
    """`calmix.metrics.nll`: mean negative log-likelihood."""

    name, higher_is_better = "nll", False

    def _statistic(self, sample: Sample) -> Statistic:
        return scores.NLL


class Brier(_MeanMetric):
    """`calmix.metrics.brier`: sum over the classes of (p_k - [y = k])²; of P(y = 1), (p - y)²."""

    name, higher_is_better = "brier", False

    def _statistic(self, sample: Sample) -> Statistic:
        return scores.BRIER


class ClassGap(_MeanMetric):
    """`calmix.metrics.class_gap`: accuracy minus mean confidence for each true class, (C,)."""

    name, higher_is_better = "class_gap", None

    def _statistic(self, sample: Sample) -> Statistic:
        return class_gap_statistic(sample)
