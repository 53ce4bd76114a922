import functools

import numpy as np
import pytest
import torch
from scipy.stats import binom, kstest

from calmix import metrics
from calmix.errors import InputError
from calmix.metrics import null, nulls
from tests.metrics.samples import calibrated

BINNED = [
    *(metrics.ece, metrics.ace, metrics.sce, metrics.tace, metrics.dce),
    functools.partial(metrics.ace, classwise=True),
    functools.partial(metrics.dce, classwise=True),
]
KERNELS = [functools.partial(metrics.skce, estimator=name) for name in ("biased", "unbiased", "linear")]


UNCLIPPED = [
    *BINNED[:-1],
    functools.partial(metrics.dce, classwise=True, squared=True),
    *KERNELS,
    metrics.gap,
]


@pytest.mark.parametrize("metric", UNCLIPPED)
def test_p_values_are_uniform_for_calibrated_predictions(metric):
    values = [
        null(metric, *calibrated(80, 3, seed=seed), resamples=49, seed=seed).p_value for seed in range(120)
    ]
    continuous = np.array(values) - np.random.default_rng(0).uniform(0, 0.02, len(values))
    assert kstest(continuous, "uniform").pvalue > 0.001


@pytest.mark.parametrize("metric", [*BINNED, *KERNELS])
def test_equals_the_metric_of_drawn_labels(metric):
    """Mean and quantile against calls of the metric itself, one set of labels after the other."""
    probs, _ = calibrated(100, 3, temperature=0.7)
    labels = torch.multinomial(probs, 1000, replacement=True, generator=torch.Generator().manual_seed(1))
    options = {} if metric not in KERNELS else {"bandwidth": 0.4}
    values = torch.tensor([metric(probs, column, **options) for column in labels.T.contiguous()])
    result = null(functools.partial(metric, **options), probs, resamples=1000)
    assert result.mean == pytest.approx(float(values.mean()), abs=5 * float(values.std()) / 500**0.5)
    assert result.quantile_95 == pytest.approx(float(values.quantile(0.95)), abs=0.3 * float(values.std()))
    assert result.p_value is None


@pytest.mark.parametrize("metric", [*BINNED, *KERNELS, metrics.nll, metrics.brier])
def test_value_of_the_sample_is_the_metric(metric):
    probs, labels = calibrated(151, 4, temperature=0.5)
    function, options = nulls.unbind(metric)
    sample = nulls.Sample(probs, labels)
    if function in nulls.BINNED:
        statistic = nulls.STATISTICS[function](sample, **options)
        value = statistic.finish(nulls._binned(statistic, sample, 3, 0))[0]
    elif function is metrics.skce:
        value = nulls._kernel(probs, labels, 3, 0, **options)[0]
    else:
        value = nulls._any(metric, probs, labels, sample, 3, 0)[0]
    assert float(value) == pytest.approx(metric(probs, labels), abs=1e-12)


def test_overconfident_predictions_are_found():
    probs, labels = calibrated(500, 4, temperature=0.5)
    for metric in [*BINNED, *KERNELS[:2]]:
        result = null(metric, probs, labels, resamples=199)
        assert result.p_value == 1 / 200
        assert result.mean < result.quantile_95 < metric(probs, labels)
    # The gap has a sign: this one is negative, so no draw is below it.
    assert null(metrics.gap, probs, labels, resamples=199).p_value == 1


def test_distribution_of_a_sum_of_hits():
    equal = nulls._distribution(torch.full((2, 20), 0.3, dtype=torch.float64))
    assert equal[1].numpy() == pytest.approx(binom.pmf(range(21), 20, 0.3), rel=1e-12)
    # 0.5 and 0.2: none 0.4, one 0.5, both 0.1.
    assert nulls._distribution(torch.tensor([[0.5, 0.2]]))[0].tolist() == pytest.approx([0.4, 0.5, 0.1])


def test_sums_of_hits_by_cell(monkeypatch):
    monkeypatch.setattr(nulls, "WIDTH", 7)
    monkeypatch.setattr(nulls, "CHUNK", 5 * 4000)
    draw = torch.Generator().manual_seed(0)
    cell = torch.randint(5, (90,), generator=draw)
    cell[cell == 2] = 3  # an empty cell
    p = torch.rand(90, generator=draw, dtype=torch.float64)
    hits = nulls.sums_of_hits(cell, p, 6, 4000, draw)
    assert hits.shape == (4000, 6)
    for k in range(6):
        q = p[cell == k]
        deviation = float((q * (1 - q)).sum()) ** 0.5
        assert float(hits[:, k].mean()) == pytest.approx(float(q.sum()), abs=4 * deviation / 4000**0.5)
        assert float(hits[:, k].std()) == pytest.approx(deviation, rel=0.06)


def test_sums_of_very_many_hits_have_the_same_distribution(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    cell = torch.randint(3, (20_000,), generator=draw)
    p = torch.rand(20_000, generator=draw, dtype=torch.float64) ** 2
    exact = nulls.sums_of_hits(cell, p, 4, 2000, draw)
    monkeypatch.setattr(nulls, "MAX_EXACT", 0)
    binomial = nulls.sums_of_hits(cell, p, 4, 2000, draw)
    assert binomial[:, 3].eq(0).all()
    for k in range(3):
        spread = float(exact[:, k].std())
        assert float(binomial[:, k].mean()) == pytest.approx(float(exact[:, k].mean()), abs=0.15 * spread)
        assert float(binomial[:, k].std()) == pytest.approx(spread, rel=0.07)


@pytest.mark.parametrize(("classes", "sharpness"), [(3, 1.0), (10, 2.0), (300, 4.0)])
def test_errors_of_every_class_from_a_part_of_the_examples(monkeypatch, classes, sharpness):
    """Cells of every size: with 300 classes most hold less than one hit."""
    logits = sharpness * torch.randn(3000, classes, generator=torch.Generator().manual_seed(0)).double()
    probs = logits.softmax(1)
    exact = [null(metric, probs, resamples=400) for metric in (metrics.sce, metrics.tace)]
    monkeypatch.setattr(nulls, "MAX_LABELS", 400 * 750)
    part = [null(metric, probs, resamples=400) for metric in (metrics.sce, metrics.tace)]
    for full, quarter in zip(exact, part, strict=True):
        spread = full.quantile_95 - full.mean
        assert quarter.mean == pytest.approx(full.mean, abs=0.3 * spread)
        assert quarter.quantile_95 - quarter.mean == pytest.approx(spread, rel=0.25)


def test_mean_deviation_of_binomial_hits():
    size = torch.tensor([[7.0, 1.0, 50.0, 0.0, 5.0, 5.0]], dtype=torch.float64)
    total = torch.tensor([[2.8, 0.3, 0.01, 0.0, 0.0, 5.0]], dtype=torch.float64)
    cells = nulls._deviations(metrics.binning.Cells(size, total, total))
    expected = [
        sum(binom.pmf(k, n, t / n) * abs(k - t) for k in range(int(n) + 1)) if n else 0
        for n, t in zip(size[0].tolist(), total[0].tolist(), strict=True)
    ]
    assert (cells.hits - cells.total)[0].tolist() == pytest.approx(expected, rel=1e-10)


def test_labels_of_probability_zero_are_never_drawn():
    probs = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    block = nulls.Block(probs, torch.tensor([1, 4]), torch.tensor([1, 4]))
    drawn = nulls.draw_labels(block, 5000, torch.Generator().manual_seed(0))
    assert set(drawn[0].tolist()) == {1, 3}
    assert set(drawn[1].tolist()) == {4}
    assert float((drawn[0] == 1).double().mean()) == pytest.approx(0.5, abs=0.03)


def test_certain_predictions_have_no_noise():
    probs, labels = torch.eye(3)[[0, 1, 2, 0]], torch.tensor([0, 1, 2, 1])
    for metric in (metrics.ece, metrics.sce):
        assert null(metric, probs, labels, resamples=19) == metrics.Null(0, 0, 1 / 20, 19)
        assert null(metric, probs, probs.argmax(1), resamples=19).p_value == 1


def test_same_seed_gives_the_same_null():
    probs, labels = calibrated(100, 3)
    for metric in (metrics.ece, metrics.sce, metrics.skce, metrics.nll):
        first = null(metric, probs, labels, resamples=50)
        assert first == null(metric, probs.numpy(), labels.numpy(), resamples=50)
        assert first != null(metric, probs, labels, resamples=50, seed=1)


def test_large_samples_have_fewer_resamples(monkeypatch):
    monkeypatch.setattr(nulls, "MAX_DRAWS", 25_000)
    monkeypatch.setattr(nulls, "MAX_PAIRS", 2_500_000)
    probs, labels = calibrated(100, 3)
    assert null(metrics.ece, probs, labels).resamples == 1000
    all_labels = functools.partial(metrics.dce, classwise=True)
    assert [null(f, probs, labels).resamples for f in (all_labels, metrics.nll, metrics.skce)] == [250] * 3
    assert null(metrics.skce, *calibrated(200, 3)).resamples == 200


def test_skce_of_many_examples_is_linear():
    sample = calibrated(5_002, 3)
    linear = functools.partial(metrics.skce, estimator="linear")
    assert null(metrics.skce, *sample, resamples=30) == null(linear, *sample, resamples=30)


def test_bad_input_raises():
    probs, labels = calibrated(10, 3)
    with pytest.raises(InputError, match="resamples is 0"):
        null(metrics.ece, probs, labels, resamples=0)
    with pytest.raises(InputError, match="labels has 9 entries"):
        null(metrics.ece, probs, labels[:9])
    for metric in (metrics.ece, metrics.skce, metrics.nll):
        with pytest.raises(InputError, match="pass softmax"):
            null(metric, probs * 2)
    with pytest.raises(InputError, match="probs must be a torch tensor"):
        null(metrics.ece, probs.tolist())
