"""Every item of the paper, end to end at smoke scale on the embedded digits, in one folder of runs; and
ImageNet's on a folder of images made here."""

import contextlib
import fcntl
import re

import numpy as np
import pytest
from PIL import Image

from calmix import InputError, evaluate, run_folder
from calmix.cli import main
from calmix.paper.items import ITEMS, chosen
from calmix.paper.methods import method
from calmix.paper.reproduce import carry_out, make_plan, state
from calmix.paper.study import Study
from calmix.paper.tasks import Done, OneByOne, Place, Task
from calmix.progress import Silence
from tests.paper.fabricate import fabricate


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
    with open(folder.parent / "paper.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Intervals of 75 corrupted sets for each of 27 runs would take most of the time, and are not shown."""
    monkeypatch.setattr(evaluate, "FEWER_RESAMPLES", 2)


def calmix(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    return ended.value.code


def reproduce(runs, *items, **options):
    words = [w for name, value in options.items() for w in (f"--{name}", value)]
    return calmix(
        "reproduce", *items, "--dataset", "digits", "--scale", "smoke", "--jobs", 1, "--out", runs, *words
    )


@pytest.mark.parametrize(
    "item", [item for item in ITEMS if item.name != "imagenet"], ids=lambda item: item.name
)
def test_item(runs, tmp_path, capsys, item):
    with alone(runs):
        assert reproduce(runs, item.name, render=tmp_path / "docs") == 0
    shown = capsys.readouterr().out
    text = (tmp_path / "docs" / "results.md").read_text()
    assert f"## {item.name}: {item.title}" in text
    assert f"Made by `calmix reproduce {item.name} --dataset digits --scale smoke" in text
    rows = [line for line in text.splitlines() if line.startswith(("| BE", "| MC", "| DE", "| single"))]
    assert len(rows) >= len(item.methods)
    assert not any(re.search(r"\| - \|", row) for row in rows), "a number is missing"
    assert rows[0].split(" | ")[0].removeprefix("| ") in shown
    figures = re.findall(r"\]\((figures/.*?\.svg)\)", text)
    assert figures
    for figure in figures:
        drawn = (tmp_path / "docs" / figure).read_text()
        assert drawn.startswith("<?xml")
        assert drawn.endswith("</svg>\n")
    assert len(list((tmp_path / "docs" / "figures").iterdir())) == len(figures)


def test_everything_on_one_page(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path / "nothing"))
    with alone(runs):
        assert reproduce(runs, "all", render=tmp_path / "page.md") == 0
    text = (tmp_path / "page.md").read_text()
    assert re.findall(r"^## ([\w-]+):", text, re.M) == [item.name for item in ITEMS[:-1]]
    claims = re.findall(r"^\| (\d+)\. .* \| (.*?) \| ", text, re.M)
    assert [int(number) for number, _ in claims] == list(range(1, 19))
    assert [int(number) for number, verdict in claims if verdict == "not run"] == [18]


def test_nothing_is_trained_or_evaluated_twice(runs):
    with alone(runs):
        reproduce(runs, "pathology")
        files = [path for path in runs.glob("digits-*/*") if path.is_file() and path.name != ".lock"]
        before = {path: path.stat().st_mtime_ns for path in files}
        reproduce(runs, "pathology")
        assert {path: path.stat().st_mtime_ns for path in files} == before


def test_items_share_their_runs():
    paper = make_plan(chosen(["all"]), dataset="digits", scale="smoke", seeds=1)
    everything = make_plan(chosen(["all", "beyond"]), dataset="digits", scale="smoke", seeds=1)
    # Three on the clusters; 2 single networks, 11 BE, 8 MC and 10 DE on the digits; beyond, 5 BE and 5 DE.
    for plan, count in ((paper, 3 + 2 + 11 + 8 + 10), (everything, 3 + 2 + 16 + 8 + 15)):
        names = [recipe.name for recipe in plan.runs]
        assert len(names) == len(set(names)) == count
    with_corruptions = [r for r, corruptions in everything.runs.items() if corruptions]
    assert method("digits", "batch", "camixup", scale="smoke") in with_corruptions
    assert method("digits", "batch", "label-smoothing-0.2", scale="smoke") not in with_corruptions


def test_an_image_folder_that_is_not_here_is_said(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path / "nothing"))
    with alone(runs):
        assert reproduce(runs, "imagenet", render=tmp_path / "page.md") == 0
    assert "not run: folder is missing; `calmix data` says" in capsys.readouterr().out
    written = (tmp_path / "page.md").read_text()
    assert "not run: folder is missing" in written
    assert str(tmp_path / "nothing") not in written  # nor where it was looked for


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
    assert reproduce(tmp_path / "runs", "imagenet", render=tmp_path / "page.md") == 0
    text = (tmp_path / "page.md").read_text()
    rows = re.findall(r"^\| (BE, .*?) \| (\d+\.\d\d) \| 77.[0-9]0 \| (\d+\.\d\d) \|", text, re.M)
    assert [row[0] for row in rows] == ["BE, none", "BE, Mixup", "BE, CAMixup"]
    assert len(list((tmp_path / "runs").glob("folder-batch-*/model.safetensors"))) == 3


def test_an_image_folder_has_the_papers_numbers_beside_it(tmp_path):
    item = next(item for item in ITEMS if item.name == "imagenet")
    runs = [fabricate(tmp_path, *m, dataset="folder") for m in item.methods]
    table = item.render(Study.of(runs, "folder")).tables[0]
    assert [row[2] for row in table.rows] == ["77.00", "77.50", "77.40"]


def test_a_data_set_that_is_not_here_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path))
    assert calmix("reproduce", "pathology", "--out", tmp_path) == 2
    assert "cifar10 is missing: `calmix data --download cifar10`" in capsys.readouterr().err
    assert calmix("reproduce", "patholgy") == 2
    assert "did you mean 'pathology'" in capsys.readouterr().err
    assert calmix("reproduce", "toy", "--seeds", 0) == 2


def test_a_dry_run_lists_and_trains_nothing(tmp_path, capsys):
    fabricate(tmp_path, "single", "mixup", dataset="clusters", scale="smoke")
    assert reproduce(tmp_path, "toy", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    states = [re.search(r"(clusters-\S+) .* (finished|partly|missing) ", line) for line in lines]
    found = {s[1].split("-seed")[0]: s[2] for s in states if s}
    assert found == {
        "clusters-single-mixup": "finished",
        "clusters-deep-none": "missing",
        "clusters-deep-mixup": "missing",
    }
    assert any("together, shared runs once" in line for line in lines)
    assert len(list(tmp_path.glob("*/model.safetensors"))) == 1


def test_runs_that_many_devices_trained_are_found(tmp_path):
    plan = make_plan(chosen(["toy"]), dataset="digits", scale="smoke", seeds=1, shards=2)
    run = fabricate(tmp_path, "single", "mixup", dataset="clusters", scale="smoke", shards=2)
    assert [state(recipe, (), tmp_path)[0] for recipe in plan.runs] == ["finished", "missing", "missing"]
    assert run.recipe in plan.of(plan.items[0])


def test_a_state_is_as_far_as_its_epochs(tmp_path):
    recipe = method("digits", "deep", scale="smoke")
    assert state(recipe, (), tmp_path) == ("missing", 1.0)
    run = run_folder.create(recipe, tmp_path)
    (run.stream(1) / "checkpoint.pt").write_bytes(b"")
    (run.stream(1) / "metrics.jsonl").write_text('{"epoch": 1}\n')
    assert state(recipe, (), tmp_path) == ("partly", 0.75)
    run.model.write_bytes(b"")
    assert state(recipe, (), tmp_path) == ("partly", 0.0)
    for summary in ({}, {"clean": {}, "temperature": {}, "corrupted": {"fog": {"1": {}}}}):
        run_folder.write_json(run.summary, summary)
        assert state(recipe, (), tmp_path) == ("partly", 0.0)  # no predictions
    for what in ("validation", "test", "fog-1"):
        run.predictions(what).parent.mkdir(exist_ok=True)
        run.predictions(what).write_bytes(b"")
    assert state(recipe, (), tmp_path) == ("finished", 0.0)
    assert state(recipe, ("fog",), tmp_path) == ("partly", 0.0)


class Fails(OneByOne):
    """Hands that only write down what they are given, and fail at one member."""

    def finished(self):
        self.seen = []
        while self.waiting:
            task = self.waiting.pop(0)
            self.seen.append(task)
            wrong = task.member == 1 and task.recipe.mixing == "mixup"
            yield Done(task, "it broke" if wrong else "")


def test_an_ensemble_is_put_together_when_all_its_members_are_trained(tmp_path):
    plan = make_plan(chosen(["toy"]), dataset="digits", scale="smoke", seeds=1)
    hands = Fails(Place(tmp_path), Silence())
    failed = carry_out(plan, tmp_path, hands, Silence())
    assert failed == {"clusters deep mixup seed 0 member 1": "it broke"}
    single, plain, mixup = plan.runs
    assert {(t.recipe, t.member) for t in hands.seen} == {
        (single, None),
        (plain, 0),
        (plain, 1),
        (plain, None),
        (mixup, 0),
        (mixup, 1),
    }
    assert hands.seen[-1] == Task(plain)


def test_seeds_are_counted_from_one(tmp_path):
    with pytest.raises(InputError, match="--seeds must be at least 1"):
        make_plan(chosen(["toy"]), dataset="digits", scale="smoke", seeds=0)
    assert len(make_plan(chosen(["toy"]), dataset="digits", scale="smoke", seeds=3).runs) == 9


def test_points_are_not_corrupted():
    with pytest.raises(InputError, match="camixup shows images under corruption, and clusters are points"):
        make_plan(chosen(["toy", "camixup"]), dataset="clusters", scale="smoke", seeds=1)
