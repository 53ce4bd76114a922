import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from calmix.metrics import Interval
from calmix.study import quantities as q
from calmix.study.estimates import INFLUENCES, Estimate, NotRunError, SeedVariance, estimate
from calmix.study.quantities import Quantity
from calmix.study.results import read_result, read_results
from tests.fabricate import fabricate, random_predictions

VALUE = Quantity("accuracy", "Acc", "test accuracy", lambda result: result.value)
NO_INFLUENCE = Quantity("nll", "NLL", "negative log-likelihood", lambda result: result.value)


@dataclass
class FakeResult:
    """What `estimate` reads of a result."""

    value: float | None
    influences: np.ndarray = field(default_factory=lambda: np.array([-1.0, 1.0]))
    recipe = SimpleNamespace(dataset="digits")
    run = SimpleNamespace(folder=SimpleNamespace(name="digits-deep"))

    def influence(self, name):
        return self.influences


def test_the_pooled_variance_by_hand():
    # Squares around the means: 2 of two degrees, 2 of one, and nothing of a single seed.
    assert SeedVariance.pooled([[1.0, 2.0, 3.0], [5.0, 7.0], [4.0]]) == SeedVariance(4 / 3, 3)
    assert SeedVariance.pooled([[4.0], [5.0]]) == SeedVariance.pooled([]) == SeedVariance(0.0, 0)
    assert SeedVariance.pooled([[2.0, 2.0]]) == SeedVariance(0.0, 1)


def test_an_interval_by_hand():
    """Images: deviation 1 over 100 images. Seeds: variance 0.04 of the mean, 2 degrees, t = 4.303."""
    half = math.hypot(1.959964 / 10, 4.302653 * 0.2)
    influence = np.tile([-1.0, 1.0], 50)
    each = Estimate(2.0, 3, 0.04, 2, {"digits": influence})
    assert each.half_width == pytest.approx(half, rel=1e-6)
    assert each.interval == Interval(2.0, 2.0 - each.half_width, 2.0 + each.half_width, level=0.95)
    images_alone = Estimate(2.0, 1, 0.0, 0, {"digits": influence})
    assert images_alone.half_width == pytest.approx(0.1959964, rel=1e-6)
    seeds_alone = Estimate(2.0, 3, 0.04, 2)
    assert seeds_alone.half_width == pytest.approx(4.302653 * 0.2, rel=1e-6)


def test_unknown_noise_gives_an_infinite_interval():
    unknown = Estimate(2.0, 1)
    assert unknown.half_width == math.inf
    assert (unknown.interval.low, unknown.interval.high) == (-math.inf, math.inf)
    assert estimate([FakeResult(2.0)], NO_INFLUENCE, SeedVariance()).half_width == math.inf
    assert estimate([FakeResult(2.0)], VALUE, SeedVariance()).half_width < math.inf


def test_a_mean_over_seeds():
    results = [FakeResult(1.0, np.array([-1.0, 1.0])), FakeResult(3.0, np.array([1.0, -1.0]))]
    mean = estimate(results, VALUE, SeedVariance(0.5, 3))
    assert (mean.value, mean.seeds, mean.seed_variance, mean.degrees) == (2.0, 2, 0.25, 3)
    (influence,) = mean.influences.values()
    assert influence.tolist() == [0, 0]  # the mean over seeds: their own noise cancels


def test_one_seed_has_the_variance_of_other_methods():
    alone = estimate([FakeResult(1.0)], NO_INFLUENCE, SeedVariance(0.25, 4))
    assert alone.half_width == pytest.approx(stats.t.ppf(0.975, 4) * 0.5)
    three = estimate([FakeResult(1.0)] * 3, NO_INFLUENCE, SeedVariance(0.25, 4))
    assert three.half_width == pytest.approx(alone.half_width / 3**0.5)


def test_a_difference_joins_seeds_and_pairs_images():
    influence = np.random.default_rng(0).normal(size=50)
    first = Estimate(3.0, 3, 0.04, 4, {"digits": influence})
    second = Estimate(1.0, 2, 0.05, 4, {"digits": 0.5 * influence})
    difference = first - second
    assert (difference.value, difference.seeds, difference.degrees) == (2.0, 2, 4)
    assert difference.seed_variance == pytest.approx(0.09)
    assert difference.influences["digits"] == pytest.approx(0.5 * influence)
    same = first - Estimate(3.0, 3, 0.0, 0, {"digits": influence})
    assert same.influences["digits"].tolist() == [0] * 50


def test_other_images_are_independent():
    clean, corrupted = np.array([-1.0, 1.0]), np.array([-2.0, 2.0])
    difference = Estimate(3.0, 1, 0.0, 0, {"clean": clean}) - Estimate(1.0, 1, 0.0, 0, {"fog": corrupted})
    assert difference.half_width == pytest.approx(1.959964 * math.sqrt(1 / 2 + 4 / 2), rel=1e-6)


def test_a_difference_to_what_has_no_known_noise_of_images_has_none_either():
    known, unknown = Estimate(2.0, 1, 0.0, 0, {"digits": np.array([-1.0, 1.0])}), Estimate(1.0, 1)
    assert (known - unknown).half_width == (unknown - known).half_width == math.inf
    seeds = Estimate(1.0, 3, 0.04, 2) - Estimate(0.0, 3, 0.0, 2, {"digits": np.array([-1.0, 1.0])})
    assert seeds.half_width == pytest.approx(4.302653 * 0.2, rel=1e-6)


def test_logarithms():
    each = Estimate(4.0, 2, 0.09, 3, {"digits": np.array([-1.0, 1.0])})
    assert each.log().value == pytest.approx(math.log(4))
    assert each.log().half_width == pytest.approx(each.half_width / 4)
    for value in (0.0, -1.0):
        with pytest.raises(NotRunError):
            Estimate(value, 1).log()


def test_a_number_that_a_run_lacks_is_named():
    with pytest.raises(NotRunError, match="Acc of digits-deep"):
        estimate([FakeResult(1.0), FakeResult(None)], VALUE, SeedVariance())
    with pytest.raises(NotRunError, match="Acc of a run"):
        estimate([], VALUE, SeedVariance())


def test_runs_on_other_numbers_of_images_are_not_paired():
    results = [FakeResult(1.0, np.zeros(2)), FakeResult(2.0, np.zeros(3))]
    assert estimate(results, VALUE, SeedVariance(1.0, 1)).influences == {}


def test_every_quantity_with_influences_has_them(tmp_path):
    result = read_result(fabricate(tmp_path, "deep", corrupted=(0.6, 0.5)))
    for quantity in vars(q).values():
        if isinstance(quantity, Quantity) and quantity.name in INFLUENCES:
            each = estimate([result], quantity, SeedVariance())
            assert each.value == quantity.of(result)
            (influence,) = each.influences.values()
            assert len(influence) == (200 if INFLUENCES[quantity.name].keys() & {"ca", "cece"} else 2000)


def test_clean_and_corrupted_images_are_two_sets(tmp_path):
    result = read_result(fabricate(tmp_path, "deep", corrupted=(0.6, 0.5)))
    clean, corrupted = (estimate([result], x, SeedVariance()) for x in (q.ECE, q.CORRUPTED_ECE))
    assert len((clean - corrupted).influences) == 2
    assert len((clean - estimate([result], q.ACCURACY, SeedVariance())).influences) == 1


def test_the_interval_of_an_accuracy_is_that_of_a_proportion(tmp_path):
    result = read_result(fabricate(tmp_path, accuracy=0.8))
    each = estimate([result], q.ACCURACY, SeedVariance())
    assert each.value == pytest.approx(0.8)
    assert each.half_width == pytest.approx(1.96 * (0.8 * 0.2 / 2000) ** 0.5, rel=1e-3)


def test_what_both_methods_share_is_no_noise(tmp_path):
    """Both are right on the same 80 %, one on ten images more: unpaired, ten of 2,000 would be undecided."""
    runs = [fabricate(tmp_path, "deep", a, accuracy=p) for a, p in (("none", 0.8), ("mixup", 0.805))]
    none, mixup = (estimate([result], q.ACCURACY, SeedVariance()) for result in read_results(runs))
    difference = mixup - none
    assert difference.value == pytest.approx(0.005)
    assert difference.interval.low > 0.001
    assert math.hypot(none.half_width, mixup.half_width) > 0.02
    same = mixup - mixup
    assert (same.value, same.half_width) == (0, 0)


def test_predictions_that_are_gone_are_named(tmp_path):
    run = fabricate(tmp_path, "deep", corrupted=(0.6, 0.5))
    run.predictions_path("test").unlink()
    run.predictions_path("fog-3").unlink()
    run.influences_path.unlink()
    for quantity, name in ((q.ECE, "has no test predictions"), (q.CORRUPTED_ECE, r"fog-3\.npz")):
        with pytest.raises(NotRunError, match=name):
            estimate([read_result(run)], quantity, SeedVariance())


def test_random_predictions_have_intervals_of_the_same_size_as_the_bootstrap(tmp_path):
    run = fabricate(tmp_path, test=random_predictions(size=500))
    each = estimate([read_result(run)], q.ACCURACY, SeedVariance())
    p = each.value
    assert each.half_width == pytest.approx(1.96 * math.sqrt(p * (1 - p) / 500), rel=1e-3)


def simulate(draw, *, images=200, seeds=3, noise=0.3):
    """Accuracies of two methods on the same images of different difficulty, each of `seeds` trainings."""
    difficulty = draw.normal(size=images)
    methods = []
    for skill in (0.5, 1.0):
        results = []
        for _ in range(seeds):
            chance = special.expit(difficulty + skill + noise * draw.normal())
            hit = (draw.random(images) < chance).astype(float)
            results.append(FakeResult(hit.mean(), hit - hit.mean()))
        methods.append(results)
    return methods


def test_intervals_of_differences_contain_the_truth_as_often_as_they_say():
    draw = np.random.default_rng(0)
    normal = stats.norm(0, math.hypot(1, 0.3)).ppf((np.arange(20_000) + 0.5) / 20_000)
    truth = special.expit(normal + 1.0).mean() - special.expit(normal + 0.5).mean()
    covered = []
    for _ in range(400):
        methods = simulate(draw)
        variance = SeedVariance.pooled([[result.value for result in results] for results in methods])
        first, second = (estimate(results, VALUE, variance) for results in methods)
        interval = (second - first).interval
        covered.append(interval.low <= truth <= interval.high)
    assert 0.93 <= np.mean(covered) <= 0.99
