import dataclasses
from types import SimpleNamespace

import pytest

from calmix.paper.items import ITEMS
from calmix.paper.regime import main_regime, main_regimes, method_title, planned_regime, regime_names
from calmix.paper.sheet import render_item
from calmix.runs import folder
from calmix.runs.presets import SCALES, preset
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.estimates import NotRunError
from calmix.study.results import read_results
from tests.fabricate import fabricate

EVERY = sorted({(item.dataset or "cifar10", *m) for item in ITEMS for m in item.methods})


@pytest.mark.parametrize(("dataset", "ensemble", "augment"), EVERY)
def test_every_method_is_a_preset_of_its_own_regime(dataset, ensemble, augment):
    for scale in SCALES:
        recipe = preset(dataset, ensemble, augment, scale=scale, seed=3)
        assert (recipe.dataset, recipe.ensemble, recipe.augment) == (dataset, ensemble, augment)
        assert regime_names(recipe)[0] == scale


def test_a_regime_names_what_was_changed():
    recipe = preset("digits", "deep", "mixup", scale="laptop")
    assert regime_names(recipe.replace(epochs=7, width=4)) == ("laptop, epochs 7, width 4",)


@pytest.mark.parametrize("scale", SCALES)
def test_the_authors_scripts_are_one_regime_of_all_ensembles(scale):
    names = {
        regime_names(preset("cifar10", ensemble, augment, scale=scale, paper_code=True))[0]
        for ensemble in ENSEMBLES
        for augment in ("none", "mixup", "augmix+camixup")
    }
    assert names == {f"{scale}, the authors' scripts"}


def with_own_parts(recipe, *, mixing=False):
    """The recipe with data, and perhaps a mixing, of the user's own, whose files are gone."""
    recipe = dataclasses.replace(recipe, dataset="gone.npz", digests={"dataset": "0" * 64})
    if not mixing:
        return recipe
    digests = recipe.digests | {"mixing": "1" * 64}
    return dataclasses.replace(recipe, mixing="gone.py:make", digests=digests)


def evaluated(*recipes):
    clean = SimpleNamespace(pool=SimpleNamespace(accuracy=0.8))
    return [SimpleNamespace(recipe=recipe, summary=SimpleNamespace(clean=clean)) for recipe in recipes]


def test_regimes_of_the_users_own_data_are_told_by_their_runs_and_no_file_is_read():
    none, mixup = (with_own_parts(preset("digits", "deep", a, scale="laptop")) for a in ("none", "mixup"))
    options = none.network_options | {"dropout": 0.1}
    mc = dataclasses.replace(none, ensemble="mc", members=20, network_options=options)
    own = with_own_parts(preset("digits", "deep", scale="laptop"), mixing=True)
    longer = none.replace(epochs=99)
    regime = main_regime(evaluated(none, mixup, mc, own, longer), "gone.npz")
    assert set(regime.results) == {("deep", "none"), ("deep", "mixup"), ("mc", "none"), ("deep", own.augment)}
    assert (regime.name, regime.left_out) == ("laptop", 1)
    (regime,) = main_regimes(evaluated(longer))
    assert regime.name == "laptop"


def test_an_own_mixing_on_a_built_in_data_set_is_of_its_preset():
    recipe = preset("digits", "deep", "mixup", scale="laptop")
    own = dataclasses.replace(recipe, mixing="gone.py:make", digests={"mixing": "1" * 64})
    assert regime_names(own) == ("laptop", "laptop, train on validation")
    assert regime_names(own.replace(epochs=7))[0] == "laptop, epochs 7"


def test_what_was_planned_together_is_one_regime():
    """Four members are what the preset has of a deep ensemble, and not of MC-dropout."""
    recipes = [preset("digits", e, scale="laptop").replace(members=4) for e in ("deep", "mc")]
    assert [set(main_regime(evaluated(*recipes), "digits").results)] == [{("deep", "none")}]
    regime = planned_regime(evaluated(*recipes), "digits")
    assert set(regime.results) == {("deep", "none"), ("mc", "none")}
    assert regime.left_out == 0


def test_runs_are_gathered_by_method_and_seed(tmp_path):
    runs = [fabricate(tmp_path, "deep", "mixup", seed=seed) for seed in (2, 0, 1)]
    runs += [fabricate(tmp_path, "deep", "none"), fabricate(tmp_path, "deep", "none", dataset="digits")]
    regime = main_regime(read_results(runs), "cifar10")
    assert set(regime.results) == {("deep", "mixup"), ("deep", "none")}
    assert [r.recipe.seed for r in regime["deep", "mixup"]] == [0, 1, 2]
    assert (regime.name, regime.left_out) == ("paper", 0)


def test_the_data_set_with_the_lowest_error_comes_first(tmp_path):
    """However many runs each has: a run more does not turn a page's order round."""
    accuracies = {"cifar100": [0.4, 0.4, 0.4], "digits": [0.9], "cifar10": [0.7, 0.7]}
    runs = [
        fabricate(tmp_path, "deep", dataset=name, seed=seed, accuracy=accuracy)
        for name, some in accuracies.items()
        for seed, accuracy in enumerate(some)
    ]
    regimes = main_regimes(read_results(runs))
    assert [r.dataset for r in regimes] == ["digits", "cifar10", "cifar100"]


def test_runs_of_different_regimes_are_not_compared(tmp_path):
    runs = [fabricate(tmp_path, "deep", augment, epochs=3) for augment in ("none", "mixup")]
    runs.append(fabricate(tmp_path, "deep", "camixup"))
    regime = main_regime(read_results(runs), "cifar10")
    assert set(regime.results) == {("deep", "none"), ("deep", "mixup")}
    assert (regime.name, regime.left_out) == ("paper, epochs 3", 1)


def test_camixup_is_compared_with_methods_that_train_on_their_validation_images(tmp_path):
    """As in the paper: CAMixup alone needs images that it was not trained on."""
    runs = [fabricate(tmp_path, "deep", augment, train_on_validation=True) for augment in ("none", "mixup")]
    runs.append(fabricate(tmp_path, "deep", "camixup"))
    regime = main_regime(read_results(runs), "cifar10")
    assert set(regime.results) == {("deep", "none"), ("deep", "mixup"), ("deep", "camixup")}
    assert (regime.name, regime.left_out) == ("paper, train on validation", 0)


def test_a_run_that_is_not_evaluated_was_not_run(tmp_path):
    run = folder.create(preset("cifar10", "batch", "mixup"), tmp_path)
    run.summary_path.write_text("{broken")
    regime = main_regime(read_results([run]), "cifar10")
    with pytest.raises(NotRunError, match="BE, Mixup on cifar10"):
        regime["batch", "mixup"]


def test_the_methods_of_a_regime_share_the_variance_over_seeds(tmp_path):
    runs = [fabricate(tmp_path, "deep", "mixup", seed=s, accuracy=0.80 + 0.01 * s) for s in range(3)]
    runs.append(fabricate(tmp_path, "deep", "none"))
    regime = main_regime(read_results(runs), "cifar10")
    one, three = (regime.estimate(("deep", augment), q.ACCURACY) for augment in ("none", "mixup"))
    assert (one.seeds, one.degrees, three.degrees) == (1, 2, 2)
    assert one.seed_variance == pytest.approx(1e-4)
    assert three.seed_variance == pytest.approx(1e-4 / 3)


def test_an_ensemble_with_enough_seeds_has_a_variance_of_its_own(tmp_path):
    """Variances of 1e-4 (DE, of 9 seeds) and 4e-4 (BE, of 2): BE leans on both, DE on its own."""
    runs = [
        fabricate(tmp_path, "deep", "mixup", seed=s, accuracy=0.80 + 0.01 * (s % 3 - 1) * (4 / 3) ** 0.5)
        for s in range(9)
    ]
    for seed in range(2):
        runs.append(fabricate(tmp_path, "batch", "none", seed=seed, accuracy=0.80 + 0.02 * 2**0.5 * seed))
    regime = main_regime(read_results(runs), "cifar10")
    deep, batch = (regime.estimate(m, q.ACCURACY) for m in (("deep", "mixup"), ("batch", "none")))
    assert (deep.degrees, batch.degrees) == (8, 9)
    assert 9 * deep.seed_variance == pytest.approx(1e-4, rel=0.05)
    assert 2 * batch.seed_variance == pytest.approx((8 * 1e-4 + 4e-4) / 9, rel=0.05)


def test_titles():
    assert method_title(("mc", "label-smoothing-0.3")) == "MC, label smoothing 0.3"


def test_a_data_set_with_one_way_to_train_does_not_stand_beside_others(tmp_path):
    runs = [
        fabricate(tmp_path, "batch", augment, dataset=dataset, scale="laptop")
        for dataset, augments in (("cifar10", ("camixup", "forgetting")), ("cifar100", ("camixup",)))
        for augment in augments
    ]
    regimes = [main_regime(read_results(runs), dataset) for dataset in ("cifar10", "cifar100")]
    by_name = {item.name: item for item in ITEMS}
    both = render_item(by_name["forgetting"], regimes)
    assert both.figures[0].title.endswith("cifar10, laptop scale, 1 seed")
    alone = render_item(by_name["forgetting"], regimes[1:])
    assert alone.figures[0].title.endswith("cifar100, laptop scale, 1 seed")
