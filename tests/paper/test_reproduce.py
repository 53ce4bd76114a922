"""Every item of the paper, end to end at smoke scale on the embedded digits, in one folder of runs; and
ImageNet's on a folder of generated images."""

import contextlib
import re

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

from calmix import InputError
from calmix.paper.items import ITEMS, PAPER, select_items
from calmix.paper.regime import main_regime
from calmix.paper.reproduce import plan_items, read_plan
from calmix.runs.presets import preset
from calmix.study.evidence import keep_evidence
from calmix.study.plan import run_state
from calmix.study.results import read_result, read_results
from tests.fabricate import fabricate, random_predictions
from tests.scenarios import run_command


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """One folder for all tests, and for all processes of a parallel test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    (shared / "paper").mkdir(exist_ok=True)
    return shared / "paper"


@contextlib.contextmanager
def alone(folder):
    """Items share runs: two processes must not train the same one at the same time."""
    with FileLock(folder.parent / "paper.lock"):
        yield


def reproduce(runs, *words):
    options = ("--dataset", "digits", "--scale", "smoke", "--jobs", 1, "--out", runs)
    return run_command("reproduce", *words, *options)


QUICK = ("pathology", "mixup-counts", "toy")


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(item, marks=() if item.name in QUICK else pytest.mark.slow, id=item.name)
        for item in ITEMS
        if item.name not in ("imagenet", "noise")  # noise needs two seeds
    ],
)
def test_item(runs, tmp_path, item):
    with alone(runs):
        code, shown, err = reproduce(runs, item.name, "--render", tmp_path / "docs")
    assert code == 0, err
    text = (tmp_path / "docs" / "results.md").read_text()
    assert f"## {item.name}: {item.title}" in text
    assert f"Made by `calmix reproduce {item.name} --render" in text
    figures = re.findall(r"\]\((figures/.*?\.svg)\)", text)
    assert figures
    assert len(list((tmp_path / "docs" / "figures").iterdir())) == len(figures)
    if item.variants is not None:
        assert item.shows in text
        return
    rows = [line for line in text.splitlines() if line.startswith(("| BE", "| MC", "| DE", "| single"))]
    assert len(rows) >= len(item.methods)
    assert not any(re.search(r"\| - \|", row) for row in rows), "a number is missing"
    assert rows[0].split(" | ")[0].removeprefix("| ") in shown
    for figure in figures:
        drawn = (tmp_path / "docs" / figure).read_text()
        assert "<svg" in drawn[:200]
        assert drawn.rstrip().endswith("</svg>")


@pytest.mark.slow
def test_everything_on_one_page(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path / "nothing"))
    with alone(runs):
        assert reproduce(runs, "all", "--render", tmp_path / "page.md")[0] == 0
    text = (tmp_path / "page.md").read_text()
    assert re.findall(r"^## ([\w-]+):", text, re.M) == list(PAPER)
    claims = dict(re.findall(r"^\| (\w+)\. .*? \| (.*?) \| ", text, re.M))
    assert list(claims) == ["0a", "0b", *map(str, range(1, 19))]
    assert [name for name, words in claims.items() if re.fullmatch(r"\d+ not run", words)] == ["18"]


def test_nothing_is_trained_or_evaluated_twice(runs):
    with alone(runs):
        reproduce(runs, "pathology")
        files = [path for path in runs.glob("digits-*/*") if path.is_file() and path.name != ".lock"]
        before = {path: path.stat().st_mtime_ns for path in files}
        reproduce(runs, "pathology")
        assert {path: path.stat().st_mtime_ns for path in files} == before


def test_items_share_their_runs():
    paper = plan_items(select_items(["all"]), dataset="digits", scale="smoke", seeds=1)
    everything = plan_items(select_items(["all", "beyond"]), dataset="digits", scale="smoke", seeds=1)
    # Three on the clusters; 2 single networks, 11 BE, 8 MC and 10 DE on the digits; beyond, 5 BE and 5 DE.
    for plan, count in ((paper, 3 + 2 + 11 + 8 + 10), (everything, 3 + 2 + 16 + 8 + 15)):
        names = [recipe.name for recipe in plan.runs]
        assert len(names) == len(set(names)) == count
    with_corruptions = [recipe for recipe, types in everything.runs.items() if types]
    assert preset("digits", "batch", "camixup", scale="smoke") in with_corruptions
    assert preset("digits", "batch", "label-smoothing-0.2", scale="smoke") not in with_corruptions


def test_a_missing_image_folder_skips_its_item(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path / "nothing"))
    with alone(runs):
        code, shown, _ = reproduce(runs, "imagenet", "--render", tmp_path / "page.md")
    assert code == 0
    assert "not run: folder is missing; `calmix data` says" in shown
    written = (tmp_path / "page.md").read_text()
    assert "not run: folder is missing" in written
    assert str(tmp_path / "nothing") not in written


def test_an_image_folder_end_to_end(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    for part, count in (("train", 70), ("val", 40)):
        for name in "abc":
            folder = tmp_path / "data" / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 256, (12, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.jpg")
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path / "data"))
    assert reproduce(tmp_path / "runs", "imagenet", "--render", tmp_path / "page.md")[0] == 0
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("# Results: folder\n")
    rows = re.findall(r"^\| (BE, .*?) \| \**(\d+\.\d\d)\** \| \**(\d+\.\d\d)\** \|", text, re.M)
    assert [row[0] for row in rows] == ["BE, none", "BE, Mixup", "BE, CAMixup"]
    assert len(list((tmp_path / "runs").glob("folder-batch-*/model.safetensors"))) == 3


def test_imagenets_numbers_stand_beside_imagenet_at_paper_scale_alone(tmp_path):
    (item,) = select_items(["imagenet"])
    names = tuple(map(str, range(1000)))
    runs = [fabricate(tmp_path, *method, dataset="folder", classes=names) for method in item.methods]
    table = item.render(main_regime(read_results(runs), "folder")).tables[0]
    assert [[cell.text for cell in row if cell.text.startswith("77.")] for row in table.rows] == [
        ["77.00"],
        ["77.50"],
        ["77.40"],
    ]


def test_a_missing_data_set_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path))
    code, _, err = run_command("reproduce", "pathology", "--dataset", "cifar10", "--out", tmp_path)
    assert code == 2
    assert "cifar10 is missing: download it" in err
    assert "`calmix data`" in err
    code, _, err = run_command("reproduce", "patholgy")
    assert code == 2
    assert "did you mean 'pathology'" in err
    assert run_command("reproduce", "toy", "--seeds", 0)[0] == 2


def test_what_is_finished_needs_no_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path))
    for augment in ("none", "mixup"):
        for ensemble in ("batch", "mc", "deep"):
            fabricate(tmp_path / "runs", ensemble, augment, scale="laptop")
    arguments = ("reproduce", "pathology", "--dataset", "cifar10", "--runs", tmp_path / "runs")
    code, shown, _ = run_command(*arguments, "--out", tmp_path / "out")
    assert code == 0
    assert "DE, Mixup" in shown
    code, _, err = run_command(*arguments, "--seeds", 2, "--out", tmp_path / "out")
    assert code == 2
    assert "cifar10 is missing" in err


def test_what_is_finished_of_an_image_folder_needs_no_images(tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path))
    arguments = ("reproduce", "imagenet", "--runs", tmp_path / "runs", "--out", tmp_path / "out")
    for augment in ("none", "mixup", "camixup"):
        title = {"none": "BE, none", "mixup": "BE, Mixup", "camixup": "BE, CAMixup"}[augment]
        fabricate(tmp_path / "runs", "batch", augment, dataset="folder", scale="laptop")
        code, shown, _ = run_command(*arguments, "--no-train")
        assert code == 0
        assert title in shown
        code, shown, _ = run_command(*arguments)  # what is left is skipped
        assert code == 0
        assert ("not run: folder is missing" in shown) == (augment != "camixup")
        code, shown, _ = run_command(*arguments, "--dry-run")  # what would be trained or shown
        assert code == 0
        listed = re.findall(r"folder-batch-\S+ .* (finished|missing) ", shown)
        assert listed == (["finished"] * 3 if augment == "camixup" else [])


def test_a_dry_run_lists_and_trains_nothing(tmp_path):
    fabricate(tmp_path, "single", "mixup", dataset="clusters", scale="smoke")
    code, shown, _ = reproduce(tmp_path, "toy", "--dry-run")
    assert code == 0
    states = re.findall(r"(clusters-\S+)-seed\S+ .* (finished|started|missing) ", shown)
    assert dict(states) == {
        "clusters-single-mixup": "finished",
        "clusters-deep-none": "missing",
        "clusters-deep-mixup": "missing",
    }
    assert "together, shared runs once" in shown
    assert len(list(tmp_path.glob("*/model.safetensors"))) == 1


def test_runs_that_many_devices_trained_are_used(tmp_path):
    plan = plan_items(select_items(["toy"]), dataset="digits", scale="smoke", seeds=1, changes={"shards": 2})
    run = fabricate(tmp_path, "single", "mixup", dataset="clusters", scale="smoke", shards=2)
    states = [run_state(recipe, (), tmp_path)[0] for recipe in plan.runs]
    assert states == ["finished", "missing", "missing"]
    assert run.recipe in plan.recipes(plan.items[0])


def test_seeds_are_counted_from_one():
    with pytest.raises(InputError, match="seeds must be at least 1"):
        plan_items(select_items(["toy"]), dataset="digits", scale="smoke", seeds=0)
    assert len(plan_items(select_items(["toy"]), dataset="digits", scale="smoke", seeds=3).runs) == 9


def test_points_are_not_corrupted():
    with pytest.raises(InputError, match="camixup shows images under corruption, and clusters are points"):
        plan_items(select_items(["toy", "camixup"]), dataset="clusters", scale="smoke", seeds=1)


def test_evidence_without_corruptions_is_shown_on_the_clean_test_set(tmp_path):
    run = fabricate(tmp_path / "runs", "deep", test=random_predictions())
    keep_evidence(read_result(run), tmp_path / "evidence")
    folders = [tmp_path / "new", tmp_path / "evidence"]
    (result,) = read_plan({run.recipe: ("fog",)}, folders)
    assert result.summary is not None
    assert result.run.folder.parent == tmp_path / "evidence"
