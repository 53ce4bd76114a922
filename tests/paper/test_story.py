import shutil

import calmix.paper.story as story
from calmix.runs.folder import find_runs
from calmix.study.results import read_results
from tests.fabricate import fabricate

CONFIDENCES = {"none": 0.79, "mixup": 0.40, "camixup": 0.78}


def test_the_first_page_has_the_matrix_the_figure_and_what_is_contradicted(tmp_path):
    for ensemble in ("single", "batch", "deep"):
        for augment, confidence in CONFIDENCES.items():
            fabricate(tmp_path / "runs", ensemble, augment, accuracy=0.8, confidence=confidence)
    results = read_results(find_runs([tmp_path / "runs"]))
    written = story.write_story(results, tmp_path / "page" / "README.md", command="calmix claims")
    assert all(path.exists() for path in written)
    assert {path.name for path in written} == {"README.md", "claims.svg", "pathology-and-cure.svg"}
    text = written[0].read_text()
    values = "none 1.00, Mixup 40.00, CAMixup 2.00"
    assert f"ECE % of BE: {values}; of DE: {values}." in text
    assert (
        "**0a. Mixup makes a single network better calibrated**\n\n"
        "- On cifar10\n"
        "    - single, cifar10: ECE: Mixup - none +39.00"
    ) in text
    assert "## Contradicted here" in text
    assert (
        "Mixup is shown to raise the ECE of 2 of 2 ensembles on cifar10 (by 39.0 points). "
        "CAMixup is shown to have a lower ECE than Mixup in 2 of 2 ensembles on cifar10 (by 38.0 points). "
        "(cifar10 1 seed. With one seed"
    ) in text


def test_a_data_set_is_told_with_its_changes_the_papers_numbers_and_the_reason(tmp_path):
    for augment, confidence in CONFIDENCES.items():
        fabricate(tmp_path / "runs", "batch", augment, accuracy=0.8, confidence=confidence, scale="laptop")
    results = read_results(find_runs([tmp_path / "runs"]))
    text = story.write_story(results, tmp_path / "README.md", command="calmix claims")[0].read_text()
    section = text.split("## Pathology and cure: cifar10")[1].split("![")[0]
    assert "In the paper, ECE % of BE: none 1.8, Mixup 6.4, CAMixup 1.2;" in section
    assert "Mixup changes accuracy by +0.00 points (BE), within noise; ECE by +39.0 points (BE)" in section
    assert story.pathology.reasons["cifar10"] in section
    assert story.camixup.reasons["cifar10"] in section


def test_the_crossing_follows_where_several_regimes_tell_it(tmp_path):
    for size, confidence in ((250, 0.9), (500, 0.8), (1000, 0.7)):
        for augment in ("none", "mixup"):
            fields = {"dataset": "mnist", "scale": "laptop", "train_size": size}
            shown = confidence if augment == "none" else 0.6
            fabricate(
                tmp_path / "runs", "deep", augment, accuracy=0.7 + size / 5000, confidence=shown, **fields
            )
    results = read_results(find_runs([tmp_path / "runs"]))
    written = story.write_story(results, tmp_path / "README.md", command="calmix claims")
    assert (tmp_path / "figures" / "mnist-crossing.svg") in written
    assert "## When Mixup harms an ensemble" in written[0].read_text()


def test_what_else_is_open_is_answered_where_all_runs_are_there(tmp_path):
    def page():
        results = read_results(find_runs([tmp_path / "runs"]))
        return story.write_story(results, tmp_path / "README.md", command="calmix claims")[0].read_text()

    for augment in ("none", "mixup", "camixup"):
        for ensemble in ("batch", "mc", "deep"):
            for seed in (0, 1):
                fields = {"dataset": "mnist", "scale": "laptop", "seed": seed}
                accuracy = 0.8 + 0.01 * seed
                fabricate(tmp_path / "runs", ensemble, augment, accuracy=accuracy, **fields)
    text = page()
    assert "**How large must a difference be before it is more than luck of the seed?**" in text
    assert "The standard deviation over seeds is: Acc 0.71 with BE" in text
    # t of 8 degrees 2.306 times sqrt(2 / 5) times 0.7071 points
    assert (
        "5 seeds each (by the spread of 2) stands out, with the noisiest ensemble, above 1.03 of Acc" in text
    )
    assert "calmix reproduce cure" not in text  # its other remedies were not run
    shutil.rmtree(tmp_path / "runs" / next(p.name for p in (tmp_path / "runs").glob("mnist-mc-mixup-seed*")))
    assert "luck of the seed" in page()  # one seed is enough
    for path in (tmp_path / "runs").glob("mnist-mc-mixup-seed*"):
        shutil.rmtree(path)
    assert "What else" not in page()
