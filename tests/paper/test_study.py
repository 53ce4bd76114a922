import pytest

from calmix import run_folder
from calmix.paper.methods import method
from calmix.paper.study import NotRunError, Study
from tests.paper.fabricate import fabricate


def test_runs_are_gathered_by_method_and_seed(tmp_path):
    runs = [fabricate(tmp_path, "deep", "mixup", seed=seed) for seed in (2, 0, 1)]
    runs.append(fabricate(tmp_path, "deep", "none"))
    runs.append(fabricate(tmp_path, "deep", "none", dataset="digits"))
    study = Study.of(runs, "cifar10")
    assert set(study.results) == {("deep", "mixup"), ("deep", "none")}
    assert [r.run.recipe.seed for r in study["deep", "mixup"]] == [0, 1, 2]
    assert (study.regime, study.left_out) == ("paper", 0)


def test_runs_of_different_regimes_are_not_compared(tmp_path):
    runs = [fabricate(tmp_path, "deep", augment, epochs=3) for augment in ("none", "mixup")]
    runs.append(fabricate(tmp_path, "deep", "camixup"))
    study = Study.of(runs, "cifar10")
    assert set(study.results) == {("deep", "none"), ("deep", "mixup")}
    assert (study.regime, study.left_out) == ("paper, epochs 3", 1)


def test_camixup_is_compared_with_methods_that_train_on_their_validation_images(tmp_path):
    """As the paper did it: only CAMixup needs images that it has not seen."""
    runs = [fabricate(tmp_path, "deep", augment, train_on_validation=True) for augment in ("none", "mixup")]
    runs.append(fabricate(tmp_path, "deep", "camixup"))
    study = Study.of(runs, "cifar10")
    assert set(study.results) == {("deep", "none"), ("deep", "mixup"), ("deep", "camixup")}
    assert (study.regime, study.left_out) == ("paper, train on validation", 0)
    both = [*runs, fabricate(tmp_path, "deep", "none"), fabricate(tmp_path, "deep", "mixup")]
    assert Study.of(both, "cifar10").left_out == 2


def test_what_is_not_evaluated_was_not_run(tmp_path):
    run = run_folder.create(method("cifar10", "batch", "mixup"), tmp_path)
    study = Study.of([run], "cifar10")
    run.summary.write_text("{broken")
    assert not Study.of([run], "cifar10").results
    with pytest.raises(NotRunError, match="BE with Mixup on cifar10"):
        study["batch", "mixup"]
