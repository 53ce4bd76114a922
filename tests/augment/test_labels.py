import pytest
import torch

from calmix.augment import one_hot, smooth_labels
from calmix.errors import InputError


def test_one_hot_of_any_shape():
    assert torch.equal(
        one_hot(torch.tensor([[0, 2], [1, 1]]), 3), torch.eye(3)[torch.tensor([[0, 2], [1, 1]])]
    )


def test_the_smoothed_mass_goes_to_the_other_classes():
    smoothed = smooth_labels(torch.eye(5), 0.2)
    torch.testing.assert_close(smoothed, 0.8 * torch.eye(5) + 0.05 * (1 - torch.eye(5)))


def test_relation_to_torch():
    """Torch spreads over all classes: the same loss for its a C / (C - 1)."""
    logits, labels = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), torch.arange(7) % 5
    ours = -(smooth_labels(one_hot(labels, 5), 0.2) * logits.log_softmax(-1)).sum(-1).mean()
    theirs = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.2 * 5 / 4)
    torch.testing.assert_close(ours, theirs)


def test_smoothing_is_linear_and_keeps_the_sum():
    a, b = torch.eye(4)[0], torch.eye(4)[3]
    mixed = smooth_labels(0.3 * a + 0.7 * b, 0.1)
    torch.testing.assert_close(mixed, 0.3 * smooth_labels(a, 0.1) + 0.7 * smooth_labels(b, 0.1))
    torch.testing.assert_close(mixed.sum(), torch.tensor(1.0))
    assert torch.equal(smooth_labels(a, 0), a)


@pytest.mark.parametrize("amount", [-0.1, 1.1, float("nan")])
def test_an_amount_out_of_range_is_named(amount):
    with pytest.raises(InputError, match="amount"):
        smooth_labels(torch.eye(3), amount)


def test_one_class_cannot_be_smoothed():
    with pytest.raises(InputError, match="one class"):
        smooth_labels(torch.ones(3, 1), 0.1)


def test_a_label_out_of_range_is_named_with_its_place():
    with pytest.raises(InputError, match=r"labels\[1, 0\] = 3 .*num_classes = 3"):
        one_hot(torch.tensor([[0, 1], [3, 2]]), 3)
    with pytest.raises(InputError, match=r"labels\[1\] = -1"):
        one_hot(torch.tensor([0, -1]), 3)
    with pytest.raises(InputError, match="float32"):
        one_hot(torch.tensor([0.0, 1.0]), 3)
