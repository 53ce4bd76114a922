import numpy as np
import pytest
import torch

import calmix
from calmix.predictions import pool

LOGITS = torch.tensor([[[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], [[0.0, 0.0, 0.0], [3.0, 1.0, -2.0]]])


def test_pool_is_the_mean_of_member_probabilities_not_of_logits():
    expected = (LOGITS[0].exp() / LOGITS[0].exp().sum(1, keepdim=True) + LOGITS[1].softmax(1)) / 2
    torch.testing.assert_close(pool(LOGITS), expected)
    assert not torch.allclose(pool(LOGITS), LOGITS.mean(0).softmax(1))


def test_pool_returns_the_array_type_it_was_given():
    pooled = pool(LOGITS.double().numpy())
    assert isinstance(pooled, np.ndarray)
    assert pooled.dtype == np.float64
    assert pool(LOGITS.bfloat16()).dtype == torch.float32


def test_pool_of_one_member_is_its_softmax():
    torch.testing.assert_close(pool(LOGITS[:1]), LOGITS[0].softmax(1))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(5, 3), r"logits\[None\]"),
        (torch.zeros(0, 5, 3), "at least one member"),
        (torch.zeros(2, 5, 3, dtype=torch.long), "floating point"),
    ],
)
def test_pool_of_bad_logits_raises(logits, message):
    with pytest.raises(calmix.InputError, match=message):
        pool(logits)


def test_classes_are_axis_2_whatever_follows():
    images = torch.randn(3, 2, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    pooled = pool(images)
    assert pooled.shape == (2, 4, 5, 6)
    torch.testing.assert_close(pooled[:, :, 1, 2], pool(images[:, :, :, 1, 2].contiguous()))
    torch.testing.assert_close(pooled.sum(1), torch.ones(2, 5, 6))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_no_distribution_is_named(bad):
    logits = torch.zeros(2, 5, 3)
    logits[1, 3, 0] = bad
    with pytest.raises(calmix.InputError, match=r"member 1, example 3.*drop row 3"):
        pool(logits)
    logits[1, 3] = -torch.inf
    with pytest.raises(calmix.InputError, match="member 1, example 3"):
        pool(logits)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_probabilities_are_refused(kind):
    probs = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0)).softmax(2).to(kind)
    with pytest.raises(calmix.InputError, match="these logits are probabilities"):
        pool(probs)


def test_few_rows_near_the_simplex_can_be_logits():
    pool(torch.tensor([[[0.5, 0.4999]]]))
    with pytest.raises(calmix.InputError, match="probabilities"):
        pool(torch.tensor([[[0.5, 0.5]]]))


def test_gradients_pass():
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pool(logits)[:, 0].sum().backward()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "array", [LOGITS.numpy().astype(">f4"), LOGITS.numpy()[:, ::-1], LOGITS.numpy().astype("g")]
)
def test_any_layout_of_a_numpy_array(array):
    np.testing.assert_allclose(pool(array), pool(np.ascontiguousarray(array, dtype=np.float64)), rtol=1e-6)
    with pytest.raises(calmix.InputError, match="floating point"):
        pool(array.astype(object))
