import pytest

import calmix
from calmix import InputError
from calmix.runs.folder import Run
from calmix.runs.presets import preset
from calmix.study.sweep import adopt_members, grid_recipes, larger_ensembles
from tests.scenarios import tiny, trained, weights


def test_a_grid_is_every_combination_for_every_seed():
    recipes = grid_recipes(
        {"alpha": [0.2, 1.0], "members": [2, 4]},
        {"ensemble": "deep", "augment": "mixup", "width": 8},
        seeds=3,
    )
    assert len(recipes) == 2 * 2 * 3
    assert recipes[0] == preset("digits", "deep", "mixup").replace(alpha=0.2, members=2, width=8)
    assert {recipe.seed for recipe in recipes} == {0, 1, 2}


def test_a_grid_chooses_presets():
    recipes = grid_recipes({"augment": ["none", "camixup"], "dataset": ["digits", "mnist"]})
    assert [(r.augment, r.dataset) for r in recipes] == [
        *(("none", "digits"), ("none", "mnist"), ("camixup", "digits"), ("camixup", "mnist"))
    ]


@pytest.mark.parametrize(
    ("grid", "fields", "message"),
    [
        ({"alhpa": [1]}, {}, "did you mean 'alpha'"),
        ({"alpha": 0.5}, {}, r"grid\['alpha'\] must be a list of values, got 0.5"),
        ({"alpha": []}, {}, "must be a list of values"),
        ({"alpha": [1.0]}, {"alpha": 1.0}, "alpha is in the grid and among the fields"),
        ({"seed": [1, 2]}, {}, "leave seed out of the grid"),
        ({"epochs": ["many"]}, {}, "epochs must be a whole number"),
    ],
)
def test_bad_grids_are_refused(grid, fields, message):
    with pytest.raises(InputError, match=message):
        grid_recipes(grid, fields)


def test_the_largest_deep_ensemble_answers_the_smaller_ones():
    recipes = grid_recipes(
        {"members": [1, 2, 8], "alpha": [0.5, 1.0]}, {"ensemble": "deep", "augment": "mixup"}
    )
    larger = larger_ensembles(recipes)
    assert sorted((small.members, small.alpha) for small in larger) == [
        (1, 0.5),
        (1, 1.0),
        (2, 0.5),
        (2, 1.0),
    ]
    assert all(big.members == 8 and big.alpha == small.alpha for small, big in larger.items())
    assert not larger_ensembles(grid_recipes({"members": [2, 4]}, {"ensemble": "batch"}))


def test_members_that_choose_by_the_pool_answer_nothing():
    fields = {"ensemble": "deep", "augment": "camixup-by-pool"}
    assert not larger_ensembles(grid_recipes({"members": [1, 2, 4]}, fields))


@pytest.mark.slow
def test_first_members_are_the_smaller_ensemble_bit_for_bit(tmp_path):
    fields = {"ensemble": "deep", "augment": "camixup", "scale": "smoke"}
    small = {"epochs": 2, "train_size": 40, "width": 4, "batch_size": 20, "test_size": 40}
    runs = calmix.sweep({"members": [1, 3]}, out=tmp_path / "sweep", **fields, **small)
    assert [run.recipe.members for run in runs] == [1, 3]
    assert all(run.summary.clean.examples == 40 for run in runs)
    alone = trained(runs[0].recipe, tmp_path / "alone")
    assert weights(alone) == weights(runs[0])
    before = runs[0].model_path.stat().st_mtime_ns
    calmix.sweep({"members": [1, 3]}, out=tmp_path / "sweep", **fields, **small)
    assert runs[0].model_path.stat().st_mtime_ns == before


def test_members_without_checkpoints_are_not_adopted(tmp_path):
    source, recipe = tiny("deep", members=2), tiny("deep", members=1)
    assert not adopt_members(Run(tmp_path / source.name, source), recipe, tmp_path)
    assert not (tmp_path / recipe.name).exists()
