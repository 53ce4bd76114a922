"""A slice of the campaign, and the parts of it that decide what counts as a finding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tests.torture.__main__ as campaigns
from tests.torture import cases
from tests.torture.cases import Found, Tally, expect, outcome
from tests.torture.children import Child, Injection

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_minutes_find_nothing():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture", "--minutes", "2"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_outcomes_of_cases(monkeypatch):
    def bad(seed):
        expect(seed, "seed 0")
        raise KeyError("defect")

    monkeypatch.setitem(cases.CASES, "bad", bad)
    monkeypatch.setitem(cases.CASES, "good", lambda seed: None)
    assert outcome("good", 1) is None
    assert outcome("bad", 0) == "seed 0"
    assert outcome("bad", 1).startswith("KeyError")
    with pytest.raises(Found):
        expect(False, "x")


def test_the_table():
    tally = Tally()
    tally.add("kills", None, "kills:1")
    tally.add("kills", "differs", "kills:2")
    assert [line.split() for line in tally.table().splitlines()] == [
        ["tried", "held", "found"],
        ["kills", "2", "1", "1"],
        ["together", "2", "1", "1"],
    ]
    assert tally.found == [("kills:2", "differs")]


def test_an_interrupted_campaign_goes_on_where_it_was(tmp_path, monkeypatch):
    seen = []

    def counted(seed):
        seen.append(seed)
        expect(len(seen) != 2, "the second")
        if len(seen) in (3, 6):
            raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "CASES", {"counted": counted})
    monkeypatch.setattr(campaigns, "WEIGHTS", {"counted": 1})
    monkeypatch.setattr(cases, "CASES", {"counted": counted})
    state = tmp_path / "state.json"
    first = campaigns.campaign(1, 5, state=state)
    assert (first.tried["counted"], first.held["counted"]) == (2, 1)
    second = campaigns.campaign(1, 5, state=state)
    assert second.tried["counted"] == 4
    assert not second.finished
    assert second.found == first.found == [(f"counted:{seen[1]}", "the second")]
    assert seen[3] == seen[2]  # the interrupted one again
    assert len({*seen[:3], *seen[4:]}) == 5
    with pytest.raises(SystemExit, match="another seed"):
        campaigns.campaign(1, 6, state=state)


def write(folder):
    with open(folder / "a", "wb") as file:
        file.write(b"1234")
    os.replace(folder / "a", folder / "b")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize(
    ("at", "action", "code", "left"),
    [
        (0, "count", 0, {"b": b"1234"}),
        (1, "kill", -9, {}),
        (2, "kill", -9, {"a": b"12"}),
        (3, "kill", -9, {"a": b"1234"}),
        (2, "ENOSPC", 70, {"a": b"12"}),
    ],
)
def test_disturbances_are_where_they_should_be(tmp_path, at, action, code, left):
    folder = tmp_path / "runs"
    folder.mkdir()
    injection = Injection(folder, at, action)
    ended = Child(lambda: write(folder), tmp_path / "log", injection=injection).wait()
    assert ended.code == code
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == left
    if action == "count":
        assert ended.operations == 3
    if action == "ENOSPC":
        assert "No space left on device" in ended.text
