import dataclasses

import pytest
import torch

from calmix.augment import Batch, Mixup, MixupMP, RegMixup, cross_entropy, one_hot, smooth_labels
from calmix.errors import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("mixer", "weight"), [(RegMixup, 1.0), (RegMixup, 0.5), (MixupMP, 2.0)])
def test_clean_and_mixed_rows_make_the_sum_of_two_losses(mixer, weight):
    x, y = torch.rand(6, 4, generator=seeded()), torch.arange(6) % 3
    mixer = mixer(3, members=2, weight=weight)
    batch = mixer(x, y, generator=seeded())
    alone = Mixup(3, alpha=mixer.mixing.alpha, members=2)(x, y, generator=seeded())
    assert torch.equal(batch.inputs, torch.cat([x.expand(2, -1, -1), alone.inputs], dim=1))
    assert torch.equal(batch.targets, torch.cat([one_hot(y, 3).expand(2, -1, -1), alone.targets], dim=1))
    head = torch.randn(4, 3, generator=seeded())
    clean = cross_entropy((x @ head).expand(2, -1, -1), y).mean(1)
    mixed = cross_entropy(alone.inputs @ head, alone.targets).mean(1)
    torch.testing.assert_close(batch.loss(batch.inputs @ head), clean + weight * mixed)


def test_a_draw_for_all_members_gives_each_member_its_loss():
    x, y = torch.rand(5, 4), torch.arange(5) % 3
    batch = Mixup(3)(x, y, generator=seeded())
    logits = torch.randn(4, 5, 3, generator=seeded())
    expected = [torch.nn.functional.cross_entropy(member, batch.targets[0]) for member in logits]
    torch.testing.assert_close(batch.loss(logits), torch.stack(expected))


def test_targets_may_be_replaced_and_the_loss_may_be_another():
    batch = Batch(torch.rand(1, 2, 5), torch.eye(2).unsqueeze(0), torch.tensor([[1.0, 3.0]]), images=2)
    soft = dataclasses.replace(batch, targets=smooth_labels(batch.targets, 0.2))
    logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    log_probs = logits[0].log_softmax(-1)
    first, second = (0.8 * log_probs[i, i] + 0.2 * log_probs[i, 1 - i] for i in range(2))
    torch.testing.assert_close(soft.loss(logits), -(first + 3 * second).view(1) / 2)
    squares = batch.loss(logits, loss=lambda z, t: (z - t).square().sum(-1))
    assert squares.tolist() == [(1.0 + 3 * 0.0) / 2]


@pytest.mark.parametrize("shape", [(4, 3), (3, 6, 3), (4, 1, 3), (4, 4, 3), (1, 6, 3), (4, 6, 2)])
def test_logits_of_another_shape_are_refused(shape):
    batch = Mixup(3, members=4)(torch.rand(6, 5), torch.arange(6) % 3)
    with pytest.raises(InputError, match=r"logits have shape .* needs \(4, 6, 3\).*per_member=True"):
        batch.loss(torch.zeros(shape))


def test_a_loss_that_reduces_is_refused():
    batch = Mixup(3)(torch.rand(6, 5), torch.arange(6) % 3)
    with pytest.raises(InputError, match=r"returned the shape \(\); .*does not reduce"):
        batch.loss(torch.zeros(2, 6, 3), loss=lambda z, t: cross_entropy(z, t).mean())
