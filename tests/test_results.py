"""The pages of results are what the commands that they name print from the evidence."""

import re
import shlex
from pathlib import Path

import pytest

from tests.scenarios import run_command

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


def parts(text):
    """The command that made a page, and all but the line that names it, with the day."""
    (line,) = re.findall(r"^Made by `calmix .*$", text, re.MULTILINE)
    command = re.match(r"Made by `calmix (.*?)`", line)
    return shlex.split(command[1]), text.replace(line, "")


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
    figures = re.findall(r"\(figures/(.*?)\)", text)
    assert figures
    assert [name for name in figures if not (page.parent / "figures" / name).exists()] == []
