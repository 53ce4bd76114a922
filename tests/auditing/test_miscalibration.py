import numpy as np
import pytest
import torch
from scipy.stats import kstest

from calmix.auditing.miscalibration import ErrorTest, debiased_error, holm, miscalibration_tests
from calmix.auditing.summary import summarise
from calmix.metrics import Interval
from calmix.metrics.binning import Cells
from tests.auditing.simulations import calibrated_pool, cancelling, shifted


def error_tests(predictions, seed=0):
    return miscalibration_tests(summarise(predictions.logits, predictions.labels), level=0.98, seed=seed)


@pytest.mark.parametrize("classes", [2, 4])
def test_p_values_are_uniform_for_calibrated_pools(classes):
    pairs = [[test.p_value for test in error_tests(calibrated_pool(40, classes, s), s)] for s in range(50)]
    for values in np.array(pairs).T:
        assert kstest(values, "uniform").pvalue > 0.01


def test_names_and_rejections():
    top, every = error_tests(cancelling(2000, 0.08, 0))
    assert (top.name, top.rejected) == ("top label", True)
    assert every.name == "every class"
    assert top.error.low < 0.08 < top.error.high
    top, positive = error_tests(shifted(2000, 0.1, 0))
    assert (positive.name, positive.rejected) == ("P(y = 1)", True)
    assert positive.error.value == pytest.approx(0.1, abs=0.03)
    assert not top.rejected


def test_a_class_whose_rate_is_wrong_is_found():
    """The top label is nearly right: two of ten classes are confused at random below the top."""
    predictions = calibrated_pool(3000, 10, 0)
    moved = predictions.labels.clone()
    some = torch.rand(3000, generator=torch.Generator().manual_seed(0)) < 0.5
    moved[(moved == 3) & some] = 4
    top, every = miscalibration_tests(summarise(predictions.logits, moved), level=0.98)
    assert every.rejected
    assert every.p_value <= top.p_value


def test_holm_by_hand():
    def tests(*p_values):
        return [ErrorTest(str(k), 0.0, p, Interval(0, 0, 0)) for k, p in enumerate(p_values)]

    def rejected(*p_values):
        return [test.rejected for test in holm(tests(*p_values), alpha=0.02)]

    assert rejected(0.01, 0.02) == [True, True]
    assert rejected(0.02, 0.01) == [True, True]
    assert rejected(0.011, 0.011) == [False, False]
    assert rejected(0.5, 0.01) == [False, True]


def test_the_debiased_error_by_hand():
    size, hits = torch.tensor([[100.0, 300.0]]).double(), torch.tensor([[60.0, 150.0]]).double()
    total = size * torch.tensor([[0.7, 0.5]]).double()
    error = debiased_error(Cells(size, total, hits), level=0.95)
    square = 0.25 * (0.01 - 0.24 / 99) + 0.75 * (0 - 0.25 / 299)
    assert error.value == pytest.approx(square**0.5)
    assert error.low < error.value < error.high
    # Two classes mirror each other, and have the error of either.
    both = Cells(
        *(
            torch.cat([part, mirror])
            for part, mirror in ((size, size), (total, size - total), (hits, size - hits))
        )
    )
    assert debiased_error(both, level=0.95).value == pytest.approx(square**0.5)


def test_bins_of_single_examples_say_nothing():
    one = torch.ones(1, 2).double()
    assert debiased_error(Cells(one, one / 2, one), level=0.95).high == 1
