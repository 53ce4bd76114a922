"""Labels of pixels: images are mixed as ever, and every pixel has a target of its own."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from calmix import BatchEnsemble
from calmix.augment import (
    CAMixup,
    CutMix,
    ForgettingMixup,
    Mixup,
    NoMixing,
    RegMixup,
    cross_entropy,
    jensen_shannon,
    one_hot,
    smooth_labels,
)
from calmix.errors import InputError

IGNORED = 255


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pixels(batch=4, classes=3):
    """Images (B, 2, 6, 5) and labels (B, 6, 5), with some to ignore."""
    x = torch.rand(batch, 2, 6, 5, generator=seeded())
    y = torch.randint(classes, (batch, 6, 5), generator=seeded(1))
    y[torch.rand(y.shape, generator=seeded(2)) < 0.2] = IGNORED
    return x, y


def targets_of(y, classes=3):
    return (one_hot(y.where(y != IGNORED, 0), classes) * (y != IGNORED).unsqueeze(-1)).movedim(-1, 1)


def test_mixup_mixes_targets_pixel_by_pixel():
    x, y = pixels()
    mixer = Mixup(3, members=2)
    plan = mixer.plan(y, ignore_index=IGNORED, generator=seeded())
    batch = plan(x)
    assert batch.targets.shape == (2, 4, 3, 6, 5)
    clean = targets_of(y)
    for k in range(2):
        lam = plan.lam[k].view(-1, 1, 1, 1)
        expected = lam * clean + (1 - lam) * clean[plan.partner[k]]
        torch.testing.assert_close(batch.targets[k], expected)
        torch.testing.assert_close(batch.inputs[k], lam * x + (1 - lam) * x[plan.partner[k]])
    own = mixer(x.expand(2, *x.shape), y.expand(2, *y.shape), per_member=True, ignore_index=IGNORED,
                generator=seeded())  # fmt: skip
    assert torch.equal(own.targets, batch.targets)


def test_cutmix_cuts_labels_as_it_cuts_images():
    x, y = pixels()
    plan = CutMix(3, alpha=1).plan(y, ignore_index=IGNORED, generator=seeded(4))
    image = y.float().unsqueeze(1)  # its pixels say which labels they bring
    batch, shown = plan(x), plan(image).inputs[0, :, 0].long()
    assert (shown != y).any()
    assert torch.equal(batch.targets[0], targets_of(shown))
    with pytest.raises(InputError, match=r"labels have \(6, 5\) pixels and x \(12, 10\)"):
        plan(torch.rand(4, 2, 12, 10))


def test_regmixup_has_the_clean_targets_first():
    x, y = pixels()
    batch = RegMixup(3)(x, y, ignore_index=IGNORED, generator=seeded())
    assert batch.targets.shape == (1, 8, 3, 6, 5)
    assert torch.equal(batch.targets[0, :4], targets_of(y))


def test_without_mixing_the_loss_is_that_of_torch():
    x, y = pixels()
    logits = torch.randn(2, 4, 3, 6, 5, generator=seeded())
    batch = NoMixing(3)(x, y, ignore_index=IGNORED)
    expected = torch.stack([functional.cross_entropy(z, y, ignore_index=IGNORED) for z in logits])
    torch.testing.assert_close(batch.loss(logits), expected)
    values = cross_entropy(logits, y, ignore_index=IGNORED)
    for k in range(2):
        each = functional.cross_entropy(logits[k], y, ignore_index=IGNORED, reduction="none")
        torch.testing.assert_close(values[k], each)
    own = cross_entropy(logits, y.expand(2, *y.shape), ignore_index=IGNORED)
    assert torch.equal(own, values)
    soft = cross_entropy(logits, targets_of(y).unsqueeze(0))
    torch.testing.assert_close(soft, values)
    nothing = NoMixing(3)(x, torch.full_like(y, IGNORED), ignore_index=IGNORED)
    assert nothing.loss(logits).tolist() == [0, 0]


def test_losses_of_pixels_stay_finite_where_logits_are_not():
    logits = torch.randn(2, 4, 3, 6, 5, generator=seeded())
    logits[:, :, 2] = -math.inf
    y = torch.zeros(4, 6, 5, dtype=torch.long)
    assert cross_entropy(logits, y).isfinite().all()
    assert cross_entropy(logits, targets_of(y).unsqueeze(0)).isfinite().all()
    views = jensen_shannon(torch.stack([logits, logits.flip(0)]))
    assert views.shape == (2, 4, 6, 5)
    assert views.isfinite().all()
    plain = jensen_shannon(torch.stack([logits, logits.flip(0)])[..., 1, 2])
    torch.testing.assert_close(views[..., 1, 2], plain)


def test_targets_of_pixels_are_smoothed_along_their_classes():
    targets = targets_of(torch.ones(1, 2, 2, dtype=torch.long)).unsqueeze(0)
    assert smooth_labels(targets, 0.2, axis=2)[0, 0, :, 0, 0].tolist() == pytest.approx([0.1, 0.8, 0.1])


def test_camixup_selects_images_by_their_group():
    x, y = pixels()
    group = torch.tensor([0, 1, 0, 1])
    mixer = CAMixup(3, num_groups=2)
    logits = 9 * targets_of(y).unsqueeze(0)
    logits[:, 1::2] = logits[:, 1::2].flip(2)  # wrong and sure on images of group 1
    for image in range(4):
        part = slice(image, image + 1)
        mixer.validate(logits[:, part], y[part], group[part], ignore_index=IGNORED)
    mixer.update()
    assert mixer.active.tolist() == [[False, True]]
    whole = CAMixup(3, num_groups=2)
    whole.update(logits, y, group, ignore_index=IGNORED)
    torch.testing.assert_close(whole.where.past, mixer.where.past, rtol=1e-12, atol=0)
    assert int(mixer.where.past[2].sum()) == int((y != IGNORED).sum())
    batch = mixer(x, y, group=group, ignore_index=IGNORED, generator=seeded(3))
    assert torch.equal(batch.inputs[0, ::2], x[::2])
    assert not torch.equal(batch.inputs[0, 1::2], x[1::2])


def test_what_has_no_meaning_for_pixels_is_refused():
    x, y = pixels()
    with pytest.raises(InputError, match="this mixer selects by class: build it with num_groups"):
        CAMixup(3)(x, y, ignore_index=IGNORED)
    with pytest.raises(InputError, match=r"y\[.*\] = 255 is out of range"):
        Mixup(3)(x, y)
    with pytest.raises(InputError, match=r"labels of pixels are \(B, H, W\)"):
        Mixup(3)(x, y[:, 0])  # may be (M, B), with per_member forgotten
    with pytest.raises(InputError, match=r"group has shape \(4, 6, 5\); .*\(4,\)"):
        CAMixup(3, num_groups=2)(x, y, group=y, ignore_index=IGNORED)
    with pytest.raises(InputError, match="observe takes one label for each example"):
        ForgettingMixup(3, 4).observe(torch.zeros(1, 4, 3, 6, 5), y.clamp(max=2), torch.arange(4))
    batch = Mixup(3)(x, y, ignore_index=IGNORED)
    with pytest.raises(InputError, match=r"this batch needs \(members, 4, 3, 6, 5\)"):
        batch.loss(torch.zeros(2, 4, 3))
    with pytest.raises(InputError, match="ignore_index is for whole-number labels"):
        cross_entropy(torch.zeros(1, 4, 3, 6, 5), batch.targets, ignore_index=IGNORED)
    half = Mixup(3)
    half.active = torch.tensor([[True, False, True]])
    with pytest.raises(InputError, match="active differs between classes"):
        half(x, y, ignore_index=IGNORED)
    with pytest.raises(InputError, match=r"one label for each pixel, \(4, 6, 5\)"):
        Mixup(3, where=CAMixup(3).where).validate(torch.zeros(1, 4, 3, 6, 5), y[:, 0])


def test_a_segmentation_network_learns():
    """Left and right halves of noise of two levels, members of their own."""
    torch.manual_seed(0)
    y = torch.zeros(16, 8, 8, dtype=torch.long)
    y[:, :, 4:] = 1
    y[8:] = 1 - y[8:]
    x = y.unsqueeze(1) + 0.3 * torch.randn(16, 1, 8, 8, generator=seeded())
    y[:, 0] = IGNORED
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    model = BatchEnsemble(network, members=2, init_std=0.1)
    mixer, optimiser = Mixup(2, members=2), torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(40):
        batch = mixer(x, y, ignore_index=IGNORED, generator=seeded(step))
        loss = batch.loss(model(batch.inputs, per_member=True)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    kept = y != IGNORED
    predicted = model(x).softmax(2).mean(0).argmax(1)
    assert (predicted[kept] == y[kept]).float().mean() > 0.9
