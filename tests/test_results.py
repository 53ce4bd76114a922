"""The pages of results are what the commands that they name print from the evidence."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.scenarios import run_command

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


def parts(text):
    """The command that made a page, and all but the line that names it, with the day."""
    (line,) = re.findall(r"^Made by `calmix .*$", text, re.MULTILINE)
    command = re.match(r"Made by `calmix (.*?)`", line)
    return shlex.split(command[1]), text.replace(line, "")


def assert_same_drawing(one, other):
    """The same elements and texts, at the same places to a twentieth of a point."""
    hashed, number = re.compile(r'(?<=["#])[a-z][0-9a-f]{10}\b'), re.compile(r"-?\d+\.?\d*")
    drawings = [hashed.sub("", text) for text in (one, other)]
    assert number.sub("", drawings[0]) == number.sub("", drawings[1])
    places = [np.array(number.findall(text), dtype=float) for text in drawings]
    np.testing.assert_allclose(*places, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_page_is_what_its_command_writes(page, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path))  # of evidence alone: no images, and none missed
    arguments, text = parts(page.read_text())
    place = arguments.index("--render") + 1
    target = tmp_path / Path(arguments[place]).relative_to("docs")
    out = () if arguments[0] == "claims" else ("--out", tmp_path / "runs")
    code, _, err = run_command(*arguments[:place], target, *arguments[place + 1 :], *out)
    assert code == 0, err
    written = target if target.suffix == ".md" else target / "README.md"
    assert written.name == page.name
    assert parts(written.read_text())[1] == text
    for name in set(re.findall(r"\(figures/(.*?)\)", text)):
        kept, drawn = (Path(folder) / "figures" / name for folder in (page.parent, written.parent))
        assert_same_drawing(kept.read_text(), drawn.read_text())
