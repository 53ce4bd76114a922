"""Every method of every item is the recipe that its name says, and at paper scale the paper's."""

import dataclasses

import pytest

from calmix.paper.items import ITEMS
from calmix.paper.methods import method, regimes, title
from calmix.presets import SCALES, preset
from calmix.recipe import ENSEMBLES

EVERY = sorted({(item.dataset or "cifar10", *m) for item in ITEMS for m in item.methods})

# ensemble: epochs, decay epochs, ratio, rate, l2 on CIFAR-10, members
PAPER = {
    "single": (200, (60, 120, 160), 0.2, 0.1, 2e-4, 1),
    "deep": (200, (60, 120, 160), 0.2, 0.1, 2e-4, 4),
    "mc": (200, (60, 120, 160), 0.2, 0.05, 3e-4, 20),
    "batch": (250, (80, 160, 200), 0.1, 0.1, 1e-4, 4),
}


@pytest.mark.parametrize(("dataset", "ensemble", "augment"), EVERY)
def test_a_recipe_is_called_what_was_asked_for(dataset, ensemble, augment):
    for scale in ("paper", "laptop", "smoke"):
        recipe = method(dataset, ensemble, augment, scale=scale, seed=3)
        assert (recipe.dataset, recipe.ensemble, recipe.augment) == (dataset, ensemble, augment)
        assert (recipe.scale, recipe.seed) == (scale, 3)
        assert regimes(recipe)[0] == scale


@pytest.mark.parametrize(("dataset", "ensemble", "augment"), [m for m in EVERY if m[0] == "cifar10"])
def test_at_paper_scale_the_recipes_are_the_papers(dataset, ensemble, augment):
    recipe = method(dataset, ensemble, augment, scale="paper")
    epochs, decay, ratio, rate, l2, members = PAPER[ensemble]
    assert (recipe.network, recipe.depth, recipe.width) == ("wide_resnet", 28, 10)
    assert (recipe.epochs, recipe.decay_epochs, recipe.decay_ratio) == (epochs, decay, ratio)
    assert (recipe.learning_rate, recipe.weight_decay) == (rate, 2 * l2)
    assert (recipe.members, recipe.batch_size, recipe.warmup_epochs) == (members, 128, 1)
    assert (recipe.train_size, recipe.validation_size, recipe.test_size) == (0, 2500, 0)
    assert recipe.corruption_size == 0
    assert recipe.alpha == (20 if augment == "regmixup" else 1)
    assert recipe.transform == ("augmix" if "augmix" in augment else "none")


def test_the_papers_seeds_and_data_sets():
    recipes = [r for item in ITEMS for r in item.recipes("cifar100", "paper", 5)]
    assert {r.seed for r in recipes} == set(range(5))
    assert {r.dataset for r in recipes} == {"cifar100", "clusters", "folder"}
    imagenet = next(r for r in recipes if r.dataset == "folder")
    assert (imagenet.network, imagenet.epochs, imagenet.ensemble) == ("resnet50", 135, "batch")


def test_smoothing_in_words_is_smoothing_in_numbers():
    assert [method("cifar10", "mc", f"label-smoothing-{a}").smoothing for a in (0.1, 0.3)] == [0.1, 0.3]
    assert title("label-smoothing-0.3") == "label smoothing 0.3"


def test_a_regime_names_what_was_changed():
    recipe = method("digits", "deep", "mixup", scale="laptop")
    assert regimes(dataclasses.replace(recipe, epochs=7, width=4)) == ("laptop, width 4, epochs 7",)


@pytest.mark.parametrize("scale", SCALES)
def test_the_authors_scripts_are_one_regime_of_all_ensembles(scale):
    names = {
        regimes(preset("cifar10", ensemble, augment, scale=scale, paper_code=True))[0]
        for ensemble in ENSEMBLES
        for augment in ("none", "mixup", "augmix+camixup")
    }
    assert names == {f"{scale}, the authors' scripts"}
