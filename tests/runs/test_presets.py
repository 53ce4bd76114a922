"""The paper-scale recipes, field by field, beside the paper's own table."""

import pytest

from calmix import InputError, data
from calmix.runs.build import build_network
from calmix.runs.presets import SCALES, preset
from calmix.runs.recipe import ENSEMBLES

# ensemble: epochs, decay epochs, ratio, rate, l2 for CIFAR-10 and CIFAR-100, members, dropout
PAPER = {
    "single": (200, (60, 120, 160), 0.2, 0.1, 2e-4, 2e-4, 1, 0.0),
    "deep": (200, (60, 120, 160), 0.2, 0.1, 2e-4, 2e-4, 4, 0.0),
    "mc": (200, (60, 120, 160), 0.2, 0.05, 3e-4, 3e-4, 20, 0.1),
    "batch": (250, (80, 160, 200), 0.1, 0.1, 1e-4, 3e-4, 4, 0.0),
}
SHAPES = dict.fromkeys(("digits", "mnist", "fashion-mnist"), (1, 8, 8))


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("dataset", ["cifar10", "cifar100"])
def test_cifar(dataset, ensemble):
    recipe = preset(dataset, ensemble, scale="paper")
    epochs, decay, ratio, rate, l2_10, l2_100, members, dropout = PAPER[ensemble]
    options = recipe.network_options
    assert (recipe.network, options["depth"], options["width"]) == ("wide_resnet", 28, 10)
    assert (recipe.epochs, recipe.decay_epochs, recipe.decay_ratio) == (epochs, decay, ratio)
    assert (recipe.learning_rate, recipe.batch_size, recipe.warmup_epochs) == (rate, 128, 1)
    l2 = l2_10 if dataset == "cifar10" else l2_100
    assert recipe.weight_decay == 2 * l2
    assert (recipe.members, options.get("dropout", 0.0), recipe.schedule) == (members, dropout, "steps")
    assert (recipe.validation_size, recipe.train_size, recipe.test_size) == (2500, None, None)
    assert recipe.corruption_size is None
    assert (recipe.pad, recipe.flip, recipe.alpha) == (4, True, 1.0)
    assert (options["mean"], options["std"]) == ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616])
    if ensemble == "batch":
        assert recipe.init_std == (0.5 if dataset == "cifar10" else 0.75)
        assert recipe.member_norm == (dataset == "cifar100")
        assert recipe.sign_probability is None


def test_imagenet():
    recipe = preset("folder", "batch", "camixup", scale="paper")
    assert (recipe.network, recipe.epochs, recipe.decay_epochs) == ("resnet50", 135, (45, 90, 120))
    assert (recipe.decay_ratio, recipe.warmup_epochs, recipe.batch_size) == (0.1, 5, 4096)
    assert recipe.learning_rate == pytest.approx(1.6)
    assert (recipe.weight_decay, recipe.init_std, recipe.member_norm, recipe.members) == (2e-4, 0.75, True, 4)
    assert (recipe.image_size, recipe.mixing) == (224, "camixup")


def test_augmentations_of_the_paper():
    recipe = preset("cifar10", "batch", "augmix+camixup", scale="paper")
    assert (recipe.severity, recipe.augmix_alpha, recipe.consistency) == (3, 1, 0)
    assert (recipe.transform, recipe.mixing, recipe.gap_of) == ("augmix", "camixup", "member")
    assert preset("cifar10", "deep", "regmixup", scale="paper").alpha == 20
    assert preset("cifar100", "deep", "regmixup", scale="paper").alpha == 10
    assert preset("cifar100", "deep", "mixupmp", scale="paper").alpha == 1


def test_what_the_authors_scripts_did():
    batch = preset("cifar10", "batch", "augmix+mixup", scale="paper", paper_code=True)
    assert (batch.decay_epochs, batch.decay_ratio, batch.batch_size) == ((100, 200, 225), 0.2, 128)
    assert (batch.pad, batch.network_options["std"]) == (2, [0.2023, 0.1994, 0.2010])
    assert (batch.partner, batch.fold) == ("reversed", True)
    assert (batch.augmix_alpha, batch.augmix_clean_first, batch.forgetting_rule) == (0.5, True, "pair")
    deep = preset("cifar10", "deep", scale="paper", paper_code=True)
    assert (deep.batch_size, deep.learning_rate) == (512, 0.4)
    assert deep.decay_epochs == (60, 120, 160)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_at_a_smaller_scale_the_scripts_change_the_method_and_not_the_training(ensemble):
    scripts, paper = (preset("cifar10", ensemble, "mixup", paper_code=flag) for flag in (True, False))
    assert (scripts.partner, scripts.fold, scripts.pad) == ("reversed", True, 2)
    for name in ("batch_size", "learning_rate", "epochs", "decay_epochs", "decay_ratio"):
        assert getattr(scripts, name) == getattr(paper, name), name


def test_the_methods_of_the_scripts_are_those_of_every_data_set():
    for name in data.NAMES:
        recipe = preset(name, "batch", "augmix+mixup", scale="paper", paper_code=True)
        assert (recipe.partner, recipe.fold, recipe.forgetting_rule) == ("reversed", True, "pair")
        assert (recipe.augmix_alpha, recipe.augmix_clean_first) == (0.5, True)


def test_digits_are_never_flipped_and_hardly_shifted():
    for name in ("digits", "mnist"):
        recipe = preset(name, "single")
        assert not recipe.flip
        assert recipe.pad == 1


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("dataset", data.NAMES)
def test_every_preset_is_a_valid_recipe(dataset, ensemble, scale):
    recipe = preset(dataset, ensemble, "camixup", scale=scale, seed=3)
    assert (recipe.dataset, recipe.ensemble, recipe.scale, recipe.seed) == (dataset, ensemble, scale, 3)
    if scale != "paper" or recipe.network == "mlp":  # the large ones take seconds to build
        assert build_network(recipe, (2,) if dataset == "clusters" else SHAPES.get(dataset, (3, 32, 32)), 10)


def test_unknown_choices():
    with pytest.raises(InputError, match="did you mean 'laptop'"):
        preset("digits", "deep", scale="labtop")
    with pytest.raises(InputError, match="did you mean 'cifar10'"):
        preset("cifar1", "deep")
    with pytest.raises(InputError, match="did you mean 'batch'"):
        preset("digits", "bach")
    with pytest.raises(InputError, match="did you mean 'mixup'"):
        preset("digits", "deep", "mixp")
