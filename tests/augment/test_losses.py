import math

import pytest
import torch

from calmix.augment import cross_entropy, jensen_shannon, one_hot
from calmix.errors import InputError


def logits(*shape: int) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_cross_entropy_equals_torch_for_labels_and_for_soft_targets():
    z, labels = logits(3, 6, 4), torch.arange(6) % 4
    soft = logits(1, 6, 4).softmax(-1)
    for k, (hard, mixed) in enumerate(zip(cross_entropy(z, labels), cross_entropy(z, soft), strict=True)):
        torch.testing.assert_close(hard, torch.nn.functional.cross_entropy(z[k], labels, reduction="none"))
        torch.testing.assert_close(mixed, torch.nn.functional.cross_entropy(z[k], soft[0], reduction="none"))


def test_members_may_have_labels_of_their_own():
    z, labels = logits(2, 3, 4), torch.tensor([[0, 1, 2], [3, 3, 0]])
    torch.testing.assert_close(cross_entropy(z, labels), cross_entropy(z, one_hot(labels, 4)))


@pytest.mark.parametrize("shape", [(6, 4), (2, 6, 4), (3, 5, 4), (3, 6, 5)])
def test_targets_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match="targets"):
        cross_entropy(logits(3, 6, 4), torch.rand(shape))


def test_bad_labels_and_logits_are_refused():
    with pytest.raises(InputError, match=r"targets\[1\] = 4"):
        cross_entropy(logits(3, 2, 4), torch.tensor([0, 4]))
    with pytest.raises(InputError, match="labels"):
        cross_entropy(logits(3, 2, 4), torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match="members"):
        cross_entropy(logits(2, 4), torch.tensor([0, 1]))


def test_jensen_shannon_by_its_definition():
    z = logits(3, 2, 5, 4).double()
    p = z.softmax(-1)
    middle = p.mean(0)
    expected = (p * (p / middle).log()).sum(-1).mean(0)
    torch.testing.assert_close(jensen_shannon(z), expected)


def test_identical_views_do_not_disagree_and_opposite_ones_do_fully():
    z = logits(1, 2, 50, 10)
    assert jensen_shannon(z.expand(3, -1, -1, -1)).abs().max() < 1e-6
    far = torch.tensor([[1e4, 0.0, 0.0], [0.0, 1e4, 0.0], [0.0, 0.0, 1e4]]).view(3, 1, 1, 3)
    assert jensen_shannon(far).item() == pytest.approx(math.log(3))


def test_jensen_shannon_has_a_finite_gradient_where_probabilities_vanish():
    z = torch.tensor([[200.0, 0.0], [0.0, 200.0]]).view(2, 1, 1, 2).requires_grad_()
    jensen_shannon(z).sum().backward()
    assert z.grad.isfinite().all()


def test_jensen_shannon_needs_views():
    with pytest.raises(InputError, match="views"):
        jensen_shannon(logits(2, 5, 4))


@pytest.mark.parametrize("target", [torch.eye(3)[[1, 0]], torch.tensor([[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])])
def test_a_class_ruled_out_by_its_logit_costs_nothing(target):
    z = torch.tensor([[[-math.inf, 2.0, 1.0], [0.5, -math.inf, -math.inf]]]).requires_grad_()
    values = cross_entropy(z, target.unsqueeze(0))
    left = z.detach()[0, 0, 1:].log_softmax(-1)
    assert values[0].tolist() == pytest.approx([float(-(target[0, 1:] * left).sum()), 0.0])
    values.sum().backward()
    assert z.grad.isfinite().all()
    assert cross_entropy(z.detach(), torch.tensor([0, 1])).isinf().all()
    assert cross_entropy(z.detach(), torch.eye(3)[:2].unsqueeze(0)).isinf().all()


def test_views_that_rule_out_a_class_agree_on_it():
    z = torch.tensor([[-math.inf, 1.0, 0.0], [-math.inf, 0.0, 2.0]]).view(2, 1, 1, 3).requires_grad_()
    value = jensen_shannon(z)
    torch.testing.assert_close(value, jensen_shannon(z.detach()[..., 1:]))
    value.sum().backward()
    assert z.grad.isfinite().all()
    apart = torch.tensor([[-math.inf, 0.0], [0.0, -math.inf]]).view(2, 1, 1, 2)
    assert jensen_shannon(apart).item() == pytest.approx(math.log(2))


def test_labels_of_another_kind_are_refused():
    with pytest.raises(InputError, match=r"targets is a list; .*torch.as_tensor\(targets\)"):
        cross_entropy(logits(3, 2, 4), [0, 1])
