import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix.errors import InputError
from calmix.metrics import class_gap, ece, reliability
from tests.metrics import reference
from tests.metrics.samples import calibrated, predictions


@given(predictions(), st.sampled_from([1, 10, 15]))
def test_reliability_equals_reference(sample, num_bins):
    diagram = reliability(*sample, num_bins=num_bins)
    count, accuracy, confidence = np.array(reference.reliability(*sample, num_bins)).T
    assert diagram.edges.tolist() == [m / num_bins for m in range(1, num_bins + 1)]
    assert diagram.count.tolist() == count.tolist()
    np.testing.assert_allclose(diagram.accuracy, accuracy, atol=1e-12)
    np.testing.assert_allclose(diagram.confidence, confidence, atol=1e-12)
    np.testing.assert_allclose(diagram.gap, accuracy - confidence, atol=1e-12)


def test_ece_is_the_weighted_mean_of_absolute_gaps():
    sample = calibrated(1000, temperature=0.5)
    diagram = reliability(*sample)
    mean = float((diagram.count * diagram.gap.abs()).nansum()) / 1000
    assert mean == pytest.approx(ece(*sample), abs=1e-12)
    assert float(diagram.gap.nanmean()) < 0  # over-confident


@given(predictions(), st.integers(0, 99))
def test_class_gap_equals_reference(sample, seed):
    probs, labels = sample
    np.testing.assert_allclose(class_gap(probs, labels), reference.class_gap(probs, labels), atol=1e-12)
    group = torch.from_numpy(np.random.default_rng(seed).integers(3, size=len(labels)))
    gaps = class_gap(probs, labels, group=group, num_groups=4)
    np.testing.assert_allclose(gaps, reference.class_gap(probs, labels, group, 4), atol=1e-12)
    assert gaps[3].isnan()
    assert len(class_gap(probs, labels, group=group.numpy())) == int(group.max()) + 1


def test_bad_groups_raise():
    probs, labels = calibrated(5)
    group = torch.tensor([0, 1, 2, 1, 0])
    with pytest.raises(InputError, match=r"group\[2\] is 2: it must be in 0\.\.1"):
        class_gap(probs, labels, group=group, num_groups=2)
    with pytest.raises(InputError, match=r"group\[1\] is -1"):
        class_gap(probs, labels, group=torch.tensor([0, -1, 2, 1, 0]))
    with pytest.raises(InputError, match="group has 4 entries for 5 rows"):
        class_gap(probs, labels, group=group[:4])
    with pytest.raises(InputError, match="num_groups is 3, but group is None"):
        class_gap(probs, labels, num_groups=3)
