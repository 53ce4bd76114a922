import math

import numpy as np
import pytest
import torch

from calmix.errors import InputError
from calmix.metrics import diversity
from tests.metrics import reference


@pytest.mark.parametrize("shape", [(2, 1, 2), (3, 40, 5), (5, 7, 1000)])
def test_equals_reference(shape):
    logits = 2 * torch.randn(shape, generator=torch.Generator().manual_seed(1))
    result = diversity(logits)
    expected = reference.diversity(logits.double().softmax(-1))
    assert (result.disagreement, result.kl, result.cosine) == pytest.approx(expected, abs=1e-12)
    assert diversity(logits.numpy()) == result


def test_whole_is_the_mean_of_its_parts():
    logits = torch.randn(3, 30_000, 4, generator=torch.Generator().manual_seed(1))  # several blocks
    whole, parts = diversity(logits), [diversity(part) for part in logits.split(100, dim=1)]
    for name in ("disagreement", "kl", "cosine"):
        mean = sum(getattr(part, name) for part in parts) / len(parts)
        assert getattr(whole, name) == pytest.approx(mean, abs=1e-12)


def test_value_by_hand():
    # p = (3/4, 1/4) and (1/4, 3/4): KL both ways is (1/2) log 3, cosine 6/10.
    result = diversity(torch.tensor([[[math.log(3), 0.0]], [[0.0, math.log(3)]]], dtype=torch.float64))
    assert (result.disagreement, result.kl, result.cosine) == pytest.approx((1, math.log(3) / 2, 0.6))


def test_equal_members_have_no_diversity():
    logits = torch.randn(1, 30, 6, generator=torch.Generator().manual_seed(2)).repeat(4, 1, 1)
    result = diversity(logits)
    assert (result.disagreement, result.kl, result.cosine) == pytest.approx((0, 0, 1), abs=1e-13)
    assert result.kl >= 0


def test_probabilities_of_zero():
    inf = math.inf
    same = torch.tensor([[[0.0, 0.0, -inf]], [[0.0, 0.0, -inf]]])
    assert diversity(same).kl == pytest.approx(0)
    assert diversity(torch.tensor([[[0.0, 0.0]], [[0.0, -inf]]])).kl == inf


def test_bad_input_raises():
    with pytest.raises(InputError, match="one member"):
        diversity(torch.zeros(1, 3, 2))
    with pytest.raises(InputError, match=r"\(members, examples, classes\)"):
        diversity(torch.zeros(3, 2))
    logits = np.zeros((2, 3, 2))
    logits[1, 2, 0] = np.nan
    with pytest.raises(InputError, match=r"logits\[1, 2\]"):
        diversity(logits)
