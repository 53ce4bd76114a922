import dataclasses

import pytest
import torch

from calmix import InputError, data
from calmix.build import Augmentation, Splits, build_mixer, build_network, load_splits
from calmix.presets import preset
from calmix.recipe import MIXINGS
from tests.scenarios import tiny

CLASSES = Splits(None, None, None, None, tuple("0123456789"), None)


@pytest.fixture
def batch():
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (6, 3, 32, 32), generator=g) / 255
    return data.Batch(images, torch.arange(6), torch.arange(6), None)


def views(recipe, batch, member=0, splits=CLASSES):
    augmentation = Augmentation(recipe, build_mixer(recipe, splits), member)
    return augmentation.views(batch, torch.Generator().manual_seed(1))


def plain(recipe):
    return dataclasses.replace(recipe, pad=0, flip=False)


def test_without_augmentation_the_images_pass_untouched(batch):
    (view,) = views(plain(preset("cifar10", "single")), batch)
    assert torch.equal(view.inputs[0], batch.inputs)
    assert torch.equal(view.targets[0].argmax(-1), batch.labels)


def test_smoothing_comes_after_mixing(batch):
    recipe = dataclasses.replace(plain(preset("cifar10", "single", "label-smoothing")), smoothing=0.18)
    (view,) = views(recipe, batch)
    assert view.targets[0, 0].tolist() == pytest.approx([0.82, *[0.02] * 9])


def test_the_views_of_an_image_share_partner_and_share(batch):
    recipe = dataclasses.replace(plain(preset("cifar10", "single", "augmix+mixup")), consistency=12.0)
    clean, first, second = views(recipe, batch)
    assert torch.equal(clean.targets, first.targets)
    assert torch.equal(first.targets, second.targets)
    assert not torch.equal(first.inputs, second.inputs)


def test_the_scripts_gave_the_first_member_the_clean_image(batch):
    recipe = plain(preset("cifar10", "batch", "augmix", scale="smoke", paper_code=True))
    (view,) = views(recipe, batch)
    assert view.inputs.shape == (2, 6, 3, 32, 32)
    assert torch.equal(view.inputs[0], batch.inputs)
    assert not torch.equal(view.inputs[1], batch.inputs)
    deep = plain(preset("cifar10", "deep", "augmix", scale="smoke", paper_code=True))
    assert torch.equal(views(deep, batch, member=0)[0].inputs[0], batch.inputs)
    assert not torch.equal(views(deep, batch, member=1)[0].inputs[0], batch.inputs)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_the_scripts_views_go_with_every_mixing(batch, mixing):
    recipe = preset("cifar10", "batch", "augmix", scale="smoke", paper_code=True)
    splits = dataclasses.replace(CLASSES, train=range(6))
    (view,) = views(dataclasses.replace(recipe, mixing=mixing), batch, splits=splits)
    assert view.inputs.shape[0] == 2


def test_groups_decide_where_asked(batch):
    recipe = dataclasses.replace(preset("cifar100", "single", "camixup"), by_group=True)
    splits = dataclasses.replace(CLASSES, classes=tuple(map(str, range(100))), group_names=("a", "b", "c"))
    assert build_mixer(recipe, splits).active.shape == (1, 3)
    with pytest.raises(InputError, match="has no groups"):
        build_mixer(dataclasses.replace(recipe, dataset="cifar10"), CLASSES)


def test_mc_dropout_is_judged_by_its_pool():
    assert build_mixer(preset("cifar10", "mc", "camixup"), CLASSES).gap_of == "pool"
    assert build_mixer(preset("cifar10", "batch", "camixup"), CLASSES).gap_of == "member"


def test_training_on_the_validation_images_is_an_option():
    recipe = tiny(train_size=0, train_on_validation=True, validation_size=300)
    splits = load_splits(recipe, None)
    assert (len(splits.train), len(splits.validation)) == (1200, 300)


def test_a_network_for_images_needs_images():
    with pytest.raises(InputError, match="--network mlp"):
        build_network(preset("digits", "single"), (2,), 5)


def test_more_training_images_than_there_are():
    with pytest.raises(InputError, match="validation leaves"):
        load_splits(tiny(train_size=2000), None)
