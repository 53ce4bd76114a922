"""The mixers of all classes: their defaults, and the options that they share."""

import pytest
import torch

from calmix import augment
from calmix.augment import CAMixup, CutMix, ForgettingMixup, Mixer, Mixup, MixupMP, NoMixing, RegMixup
from calmix.errors import InputError

MIXERS = [Mixup, CutMix, RegMixup, MixupMP]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kind", [*MIXERS, NoMixing, CAMixup, ForgettingMixup])
def test_mixers_are_classes_and_members_is_one(kind):
    mixer = kind(3, 7) if kind is ForgettingMixup else kind(3)
    assert isinstance(mixer, kind)
    assert isinstance(mixer, Mixer)
    assert mixer.mixing.members == 1
    assert not any(isinstance(mixer, other) for other in MIXERS if other is not kind)
    with pytest.raises(TypeError, match="positional"):
        kind(3, 7, 1.0)


@pytest.mark.parametrize("kind", MIXERS)
def test_the_generator_decides(kind):
    x, y = torch.rand(6, 3, 8, 8), torch.arange(6)
    first, again, other = (kind(6)(x, y, generator=seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


@pytest.mark.parametrize("kind", MIXERS)
def test_partner_and_fold_are_those_of_every_mixer(kind):
    """Reversed, the last image is the partner of the first; folded, at least half of an image stays."""
    x, y = torch.arange(8.0).reshape(8, 1, 1, 1).expand(8, 1, 16, 16), torch.arange(8)
    batch = kind(8, alpha=1.0, partner="reversed", fold=True)(x, y, generator=seeded())
    targets = batch.targets[0, -8:]  # the mixed rows, where clean ones are there too
    others = targets - targets * torch.eye(8)
    changed = others.sum(1) > 0  # a box may be empty
    assert (others.argmax(1) == y.flip(0))[changed].all()
    assert changed.sum() > 4
    assert (targets.diagonal() >= 0.5).all()
    loose = kind(8, alpha=1.0)(x, y, generator=seeded()).targets[0, -8:]
    assert (loose.diagonal() < 0.5).any()


def test_all_classes_are_active_or_none():
    for kind in MIXERS:
        assert kind(5, members=3).active.shape == (3, 5)
        assert kind(5, members=3).active.all()
    assert not NoMixing(5).active.any()
    x = torch.rand(4, 3)
    assert torch.equal(NoMixing(5)(x, torch.arange(4)).inputs[0], x)


def test_defaults_are_the_papers():
    assert (Mixup(3).mixing.alpha, RegMixup(3).mixing.alpha, MixupMP(3).mixing.alpha) == (1.0, 20.0, 1.0)


def test_alpha_may_be_a_whole_number():
    x, y = torch.rand(6, 3), torch.arange(6)
    batches = [Mixup(6, alpha=alpha)(x, y, generator=seeded()) for alpha in (1, 1.0)]
    assert torch.equal(batches[0].inputs, batches[1].inputs)
    augment.AugMix(alpha=1)(torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"alpha": 0.0}, "alpha = 0.0"),
        ({"alpha": -1.0}, "alpha = -1.0"),
        ({"alpha": float("nan")}, "alpha = nan"),
        ({"alpha": 1e300}, r"alpha = 1e\+300; give a number from 0\.001 to 1e\+06"),
        ({"alpha": 1e-30}, "alpha = 1e-30"),
        ({"alpha": True}, "alpha = True"),
        ({"alpha": "1"}, "alpha = '1'"),
        ({"members": 0}, "members = 0"),
        ({"num_classes": 0}, "num_classes = 0"),
        ({"partner": "random"}, "partner = 'random'"),
        ({"weight": 0.0}, "weight = 0.0"),
    ],
)
def test_bad_options_are_named(options, name):
    with pytest.raises(InputError, match=name):
        RegMixup(**{"num_classes": 3, **options})
