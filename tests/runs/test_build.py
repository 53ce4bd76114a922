import dataclasses

import pytest
import torch

from calmix import BatchEnsemble, DeepEnsemble, InputError, MCDropout
from calmix.runs.build import Splits, build_ensemble, build_mixer, build_network, load_splits
from calmix.runs.presets import preset
from tests.scenarios import tiny

CLASSES = Splits(None, None, None, None, tuple("0123456789"), None)


def test_groups_decide_where_asked():
    recipe = preset("cifar100", "single", "camixup").replace(by_group=True)
    splits = dataclasses.replace(CLASSES, classes=tuple(map(str, range(100))), group_names=("a", "b", "c"))
    assert build_mixer(recipe, splits).active.shape == (1, 3)
    with pytest.raises(InputError, match="has no groups"):
        build_mixer(recipe.replace(dataset="cifar10"), CLASSES)


def test_the_gap_of_mc_dropout_is_that_of_its_pool():
    assert build_mixer(preset("cifar10", "mc", "camixup"), CLASSES).where.gap_of == "pool"
    assert build_mixer(preset("cifar10", "batch", "camixup"), CLASSES).where.gap_of == "member"


def test_training_validation_and_test_share_no_image():
    splits = load_splits(tiny(train_size=None, validation_size=300, test_size=None), None)
    parts = [splits.train, splits.validation, splits.test]
    images = [{row.tobytes() for row in part.inputs.contiguous().numpy()} for part in parts]
    assert [len(part) for part in parts] == [900, 300, 597]
    # The 1,797 digits hold no picture twice, so any overlap would be a leak.
    assert len(images[0] | images[1] | images[2]) == 1797


def test_what_is_held_out_is_the_same_for_every_method_and_seed():
    first = load_splits(tiny("deep", "camixup"), None)
    second = load_splits(tiny("batch", seed=99), None)
    for name in ("train", "validation", "test"):
        assert torch.equal(getattr(first, name).inputs, getattr(second, name).inputs)


def test_training_on_the_validation_images_is_an_option():
    splits = load_splits(tiny(train_size=None, train_on_validation=True, validation_size=300), None)
    assert (len(splits.train), len(splits.validation)) == (1200, 300)


def test_validation_images_are_trained_on_besides_those_of_the_other_reading():
    fields = {"train_size": 200, "validation_size": 300, "test_size": None}
    apart, joined = (load_splits(tiny(**fields, train_on_validation=kept), None) for kept in (False, True))
    images = [
        {row.tobytes() for row in part.inputs.contiguous().numpy()}
        for part in (apart.train, apart.validation, joined.train)
    ]
    assert [len(some) for some in images] == [200, 300, 500]
    assert images[0] | images[1] == images[2]


def test_a_part_is_drawn_evenly_over_the_classes():
    splits = load_splits(tiny(train_size=80, test_size=50), None)
    assert splits.train.labels.bincount().tolist() == [8] * 10
    assert splits.test.labels.bincount().tolist() == [5] * 10
    whole = load_splits(tiny(test_size=None), None).test
    assert torch.equal(splits.test.labels, whole.labels[splits.test_index])
    assert torch.equal(splits.test.inputs, whole.inputs[splits.test_index])


def test_more_training_images_than_there_are():
    with pytest.raises(InputError, match=r"train_size 2000: validation leaves 1160 images"):
        load_splits(tiny(train_size=2000), None)


def test_a_single_batch_that_does_not_divide_into_shards():
    with pytest.raises(InputError, match="10 training images do not divide into 4 shards"):
        load_splits(tiny(train_size=10, batch_size=20, shards=4), None)


def test_a_network_for_images_needs_images():
    with pytest.raises(InputError, match="network='mlp'"):
        build_network(preset("digits", "single"), (2,), 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widht": 8}, "did you mean 'width'"),
        ({"depth": 28}, "unknown option of small_resnet 'depth'"),
        ({"num_classes": 3}, "unknown option of small_resnet 'num_classes'"),
        ({"width": "wide"}, "network_options {'width': 'wide'} do not fit small_resnet"),
        ({"mean": 3}, "do not fit small_resnet"),
        ({"dropout": 2}, "do not fit small_resnet: dropout probability has to be between 0 and 1"),
        ({"width": 0}, "width must be at least 1, got 0"),
    ],
)
def test_options_that_a_network_does_not_have(options, message):
    recipe = dataclasses.replace(tiny(), network_options=options)
    with pytest.raises(InputError, match=message):
        build_network(recipe, (1, 8, 8), 10)


@pytest.mark.parametrize(
    ("ensemble", "kind"),
    [("single", DeepEnsemble), ("deep", DeepEnsemble), ("batch", BatchEnsemble), ("mc", MCDropout)],
)
def test_every_ensemble_has_its_members(ensemble, kind):
    model = build_ensemble(tiny(ensemble), (1, 8, 8), 10).eval()
    assert isinstance(model, kind)
    assert model(torch.zeros(3, 1, 8, 8)).shape == (tiny(ensemble).members, 3, 10)


def test_a_member_depends_on_the_seed_and_its_number_alone():
    def weights(recipe, member=None):
        model = build_ensemble(recipe, (1, 8, 8), 10, member)
        return torch.cat([value.flatten().double() for value in model.member(0).state_dict().values()])

    three, two = tiny("deep", members=3), tiny("deep", members=2)
    state = torch.get_rng_state()
    assert torch.equal(weights(three, 1), weights(two, 1))
    assert torch.equal(weights(three), weights(two, 0))
    assert not torch.equal(weights(two, 0), weights(two, 1))
    assert not torch.equal(weights(two, 0), weights(two.replace(seed=8), 0))
    assert torch.equal(torch.get_rng_state(), state)
