import dataclasses

import pytest
import torch

from calmix import data
from calmix.runs.augmentation import MIXINGS
from calmix.runs.batch_views import BatchViews
from calmix.runs.build import Splits, build_mixer
from calmix.runs.presets import preset

CLASSES = Splits(None, None, None, None, tuple("0123456789"), None)


@pytest.fixture
def batch():
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, 3, 32, 32), generator=draw, dtype=torch.uint8)
    return data.Batch(images, torch.arange(6), torch.arange(6), None)


def views(recipe, batch, member=0, splits=CLASSES):
    make = BatchViews(recipe, build_mixer(recipe, splits), member)
    return make(batch, torch.Generator().manual_seed(1))


def plain(recipe):
    return recipe.replace(pad=0, flip=False)


def test_without_augmentation_the_images_pass_untouched(batch):
    (view,) = views(plain(preset("cifar10", "single")), batch)
    assert torch.equal(view.inputs[0], batch.inputs / 255)
    assert torch.equal(view.targets[0].argmax(-1), batch.labels)
    assert view.targets[0].sum(-1).tolist() == [1] * 6


def test_an_image_is_cropped_and_flipped_unless_it_is_not(batch):
    (view,) = views(preset("cifar10", "single"), batch)
    assert view.inputs[0].shape == (6, 3, 32, 32)
    assert not torch.equal(view.inputs[0], batch.inputs / 255)
    for i, image in enumerate(views(preset("cifar10", "single").replace(pad=0), batch)[0].inputs[0]):
        original = batch.inputs[i] / 255
        assert torch.equal(image, original) or torch.equal(image, original.flip(-1))


def test_smoothing_comes_after_mixing(batch):
    (view,) = views(plain(preset("cifar10", "single", "label-smoothing-0.18")), batch)
    assert view.targets[0, 0].tolist() == pytest.approx([0.82, *[0.02] * 9])
    (mixed,) = views(plain(preset("cifar10", "single", "mixup")), batch)
    (both,) = views(plain(preset("cifar10", "single", "mixup+label-smoothing-0.18")), batch)
    # 0.82 of the mixed label, and of what is left a tenth less its own ninth for each class.
    torch.testing.assert_close(both.targets, 0.82 * mixed.targets + 0.02 * (1 - mixed.targets))
    assert torch.equal(both.inputs, mixed.inputs)


def test_the_views_of_an_image_share_partner_and_lam(batch):
    recipe = plain(preset("cifar10", "single", "augmix+mixup")).replace(consistency=12.0)
    clean, first, second = views(recipe, batch)
    assert torch.equal(clean.targets, first.targets)
    assert torch.equal(first.targets, second.targets)
    assert not torch.equal(first.inputs, second.inputs)
    assert ((clean.targets > 0) & (clean.targets < 1)).any()


def test_in_the_authors_scripts_the_first_member_sees_the_clean_image(batch):
    recipe = plain(preset("cifar10", "batch", "augmix", scale="smoke", paper_code=True))
    (view,) = views(recipe, batch)
    assert view.inputs.shape == (2, 6, 3, 32, 32)
    assert torch.equal(view.inputs[0], batch.inputs / 255)
    assert not torch.equal(view.inputs[1], batch.inputs / 255)
    deep = plain(preset("cifar10", "deep", "augmix", scale="smoke", paper_code=True))
    assert torch.equal(views(deep, batch, member=0)[0].inputs[0], batch.inputs / 255)
    assert not torch.equal(views(deep, batch, member=1)[0].inputs[0], batch.inputs / 255)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_the_views_of_the_scripts_go_with_every_mixing(batch, mixing):
    recipe = preset("cifar10", "batch", "augmix", scale="smoke", paper_code=True).replace(mixing=mixing)
    splits = dataclasses.replace(CLASSES, train=range(6))
    (view,) = views(recipe, batch, splits=splits)
    assert view.inputs.shape[:2] == view.targets.shape[:2] == (2, 6 * recipe.rows_per_image)


def test_the_same_generator_gives_the_same_views(batch):
    recipe = preset("cifar10", "batch", "augmix+mixup")
    first, second = (views(recipe, batch)[0] for _ in range(2))
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.targets, second.targets)
