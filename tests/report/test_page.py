import re
from html.parser import HTMLParser

import pytest

from calmix import InputError, run_folder
from calmix.cli import main
from calmix.presets import preset
from calmix.report.markup import Html
from calmix.report.page import page
from tests.report.fabricate import fabricate

EVIL = "<script>document.title='run'</script>"
VOID = {"meta", "link", "br", "path", "use", "rect", "image"}


class Checker(HTMLParser):
    """Finds elements that are not closed in order, and what a page would load."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.scripts = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "action", "srcset") and not value.startswith(
                ("#", "data:")
            ):
                self.loads.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def check(text):
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.loads == []
    assert checker.scripts == 2  # the two of the template
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    return text


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder, names = tmp_path_factory.mktemp("runs"), [EVIL, *"bcdefghij"]
    return [fabricate(folder, augment=a, classes=names) for a in ("none", "camixup")]


@pytest.fixture(scope="module")
def text(runs):
    return page(runs, title=EVIL)


def test_the_page_is_whole_and_needs_nothing_else(text):
    check(text)
    for word in ("Reliability", "Under corruption", "Training", "Who was mixed", "Recipes", "paper 96.22"):
        assert word in text
    assert text.count("<svg") == text.count("aria-label=") == text.count("<title>") - 1
    assert "calmix train --dataset cifar10 --ensemble batch --augment camixup --scale paper" in text


def test_what_users_name_is_shown_and_not_run(text):
    assert EVIL not in text
    assert "&lt;script&gt;document" in text


def test_the_same_runs_give_the_same_page(runs, text):
    assert page(runs, title=EVIL) == text


def test_unfinished_runs_are_on_the_page_with_what_they_lack(tmp_path):
    begun = run_folder.create(preset("digits", "deep"), tmp_path)
    broken = run_folder.create(preset("digits", "single"), tmp_path)
    broken.summary.write_text("{")
    text = check(page([begun, broken]))
    assert "lacks the end of its training" in text
    assert "cannot be read as JSON" in text
    assert "<svg" not in text


def test_claims_come_first(tmp_path):
    begun = run_folder.create(preset("digits", "deep"), tmp_path)
    text = page([begun], claims=Html("<p>claim one holds</p>"))
    assert text.index("claim one holds") < text.index("<h2>Runs</h2>")


def test_the_command_writes_the_page_and_figures_for_a_paper(tmp_path, capsys):
    fabricate(tmp_path / "runs", corrupted=False)
    out, figures = tmp_path / "report.html", tmp_path / "figures"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "runs"), "--out", str(out), "--figures", str(figures)])
    assert ended.value.code == 0
    check(out.read_text())
    names = sorted(path.name for path in figures.iterdir())
    stems = ("bars-cifar10", "reliability-cifar10-batch", "training-cifar10-batch")
    assert names == [f"{stem}.{ending}" for stem in stems for ending in ("pdf", "png")]
    assert f"{out} and 6 files" in capsys.readouterr().out


def test_a_folder_that_is_not_there(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "nowhere")])
    assert ended.value.code == 2
    assert "no such folder" in capsys.readouterr().err


def test_no_run_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no run"):
        run_folder.find_runs([tmp_path])
