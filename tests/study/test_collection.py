import pytest

import calmix
from calmix import InputError
from calmix.study.collection import Runs, load_runs
from tests.fabricate import fabricate


@pytest.fixture
def folder(tmp_path):
    fabricate(tmp_path, "deep", "none", accuracy=0.8, confidence=0.9, corrupted=(0.6, 0.8))
    fabricate(tmp_path, "deep", "mixup", accuracy=0.85, confidence=0.7, seed=1)
    fabricate(tmp_path, "batch", "mixup", accuracy=0.9, confidence=0.9, decay_epochs=(5, 7))
    return tmp_path


def test_runs_are_selected_by_their_recipes(folder):
    runs = calmix.load_runs(folder)
    assert len(runs) == 3
    assert [run.recipe.augment for run in runs.where(ensemble="deep")] == ["none", "mixup"]
    assert len(runs.where(augment=["none", "camixup"])) == 1
    assert len(runs.where(decay_epochs=(5, 7))) == len(runs.where(decay_epochs=[5, 7])) == 1
    assert len(runs.where(width=10)) == 3
    assert len(runs.where(width=11)) == 0
    assert len(runs.where(margin=0.0, mixing_epochs=None)) == 3  # defaults that the run's name leaves out
    assert len(runs.where(margin=0.02)) == 0
    assert all(row["margin"] == 0.0 for row in runs.rows())
    assert runs.where(augment="none")[0].summary.clean.pool.accuracy == pytest.approx(0.8)
    assert isinstance(runs[:2], Runs)
    assert repr(runs) == "Runs(3 runs, 3 of them evaluated)"
    with pytest.raises(InputError, match="did you mean 'ensemble'"):
        runs.where(ensembel="deep")


def test_a_row_for_each_run_condition_and_pool_or_member(folder):
    runs = load_runs(folder)
    rows = runs.rows()
    clean = [row for row in rows if row["condition"] == "clean"]
    assert len(clean) == 3 * (1 + 2)
    assert {row["of"] for row in clean} == {"pool", "member 0", "member 1"}
    (corrupted,) = [row for row in rows if row["condition"] == "corrupted"]
    assert (corrupted["augment"], corrupted["of"]) == ("none", "pool")
    assert corrupted["ece"] == pytest.approx(0.2)
    each = [row["condition"] for row in runs.rows(corruptions=True)]
    assert each.count("fog-3") == 1 + 2
    assert len(each) == len(rows) + 75 * (1 + 2)
    assert rows[0]["alpha"] == 1.0


def test_rows_make_a_frame(folder):
    pytest.importorskip("pandas")
    frame = load_runs(folder).to_frame()
    pooled = frame[(frame.of == "pool") & (frame.condition == "clean")]
    assert list(pooled.groupby("augment").accuracy.mean().round(3)) == [0.875, 0.8]


def test_a_run_without_numbers_has_no_row(folder):
    run = fabricate(folder, "single")
    run.summary_path.unlink()
    assert len(load_runs(folder)) == 4
    assert len({row["run"] for row in load_runs(folder).rows()}) == 3
    with pytest.raises(InputError, match="no such folder"):
        load_runs(folder / "nothing")
