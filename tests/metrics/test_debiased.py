import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix.metrics import dce, ece
from tests.metrics import reference
from tests.metrics.samples import calibrated, predictions


@given(predictions(), st.sampled_from([1, 2, 15]), st.booleans(), st.booleans())
def test_equals_reference(sample, num_bins, classwise, squared):
    value = dce(*sample, num_bins=num_bins, classwise=classwise, squared=squared)
    expected = reference.dce(*sample, num_bins, classwise, squared)
    # The root turns an error of 1e-16 in a sum near 0 into 1e-8.
    assert value == pytest.approx(expected, abs=1e-12 if squared else 1e-7)
    if not squared:
        assert value**2 == pytest.approx(expected**2, abs=1e-12)


def test_value_by_hand():
    # One bin of three, confidence 0.75, accuracy 2/3: (1/12)^2 - (2/9)/2.
    probs, labels = torch.tensor([[0.75, 0.25]] * 3), torch.tensor([0, 0, 1])
    assert dce(probs, labels, num_bins=1, squared=True) == pytest.approx(1 / 144 - 1 / 9)
    assert dce(probs, labels, num_bins=1) == 0
    assert dce(probs, torch.tensor([1, 1, 1]), num_bins=1) == pytest.approx(0.75)


def test_bin_of_one_value_adds_zero():
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    assert dce(probs, torch.tensor([1, 1, 1]), num_bins=3, squared=True) == 0


def test_near_zero_only_for_calibrated_predictions():
    raw = [dce(*calibrated(2000, seed=seed), squared=True) for seed in range(60)]
    mean, error = torch.tensor(raw).mean(), torch.tensor(raw).std() / 60**0.5
    assert abs(mean) < 4 * error  # unbiased: negative as often as positive
    assert error < 1e-4
    assert ece(*calibrated(2000)) > 0.01  # all noise
    assert dce(*calibrated(20_000)) < 0.01
    assert dce(*calibrated(20_000, temperature=0.5)) > 0.1


def test_extreme_shapes():
    for n, classes in ((1, 2), (40, 1000)):
        sample = calibrated(n, classes, temperature=0.5)
        assert dce(*sample, classwise=True, squared=True) == pytest.approx(
            reference.dce(*sample, classwise=True, squared=True), abs=1e-12
        )
