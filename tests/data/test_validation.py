import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix import InputError
from calmix.data import split


def test_largest_remainder_by_hand():
    # 10 of 17: shares 10/17 * (9, 5, 3) = 5.29, 2.94, 1.76; so 5, 2, 1, and the two left go to 1 and 2.
    labels = torch.tensor([0] * 9 + [1] * 5 + [2] * 3)
    _, validation = split(labels, 10)
    assert labels[validation].bincount().tolist() == [5, 3, 2]


def test_split_of_cifar_has_250_of_each_class():
    labels = torch.arange(50_000) % 10
    train, validation = split(labels, 2_500, seed=3)
    assert labels[validation].bincount().tolist() == [250] * 10
    assert len(train) == 47_500


@given(st.lists(st.integers(-2, 5), min_size=1, max_size=60), st.floats(0, 1), st.integers(0, 3))
def test_split_is_sorted_disjoint_and_in_proportion(values, fraction, seed):
    labels = torch.tensor(values)
    size = round(fraction * len(values))
    train, validation = split(labels, size, seed=seed)
    assert len(validation) == size
    assert sorted(train.tolist() + validation.tolist()) == list(range(len(values)))
    assert train.tolist() == sorted(train.tolist())
    assert validation.tolist() == sorted(validation.tolist())
    for label in set(values):
        assert abs(int((labels[validation] == label).sum()) - size * values.count(label) / len(values)) < 1


def test_split_depends_only_on_the_seed():
    labels = torch.arange(1_000) % 10
    torch.manual_seed(1)
    first = split(labels, 100)[1]
    torch.manual_seed(2)
    assert torch.equal(first, split(labels, 100)[1])
    assert not torch.equal(first, split(labels, 100, seed=1)[1])


def test_examples_of_a_class_are_equally_likely():
    labels = torch.zeros(10, dtype=torch.int64)
    times = torch.stack([split(labels, 5, seed=s)[1].bincount(minlength=10) for s in range(400)]).sum(0)
    assert (times - 200).abs().max() < 50  # five standard deviations


@pytest.mark.parametrize("size", [-1, 5])
def test_size_out_of_range_raises(size):
    with pytest.raises(InputError, match=f"size must be in 0..4, the number of examples, got {size}"):
        split(torch.zeros(4, dtype=torch.int64), size)


def test_labels_of_another_shape_raise():
    with pytest.raises(InputError, match=r"labels must have shape \(N,\), got \(4, 2\)"):
        split(torch.zeros(4, 2, dtype=torch.int64), 1)
