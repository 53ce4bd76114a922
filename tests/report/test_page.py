import re
from html.parser import HTMLParser

import pytest

from calmix import InputError, run_folder
from calmix.cli import main
from calmix.presets import preset
from calmix.report.markup import Html
from calmix.report.page import page, write_page
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


@pytest.fixture
def runs(tmp_path):
    names = [EVIL, *"bcdefghij"]
    return [fabricate(tmp_path, augment=a, classes=names) for a in ("none", "camixup")]


def test_the_page_is_whole_and_needs_nothing_else(runs):
    text = check(page(runs))
    for word in ("Reliability", "Under corruption", "Training", "Who was mixed", "Recipes", "paper 96.22"):
        assert word in text
    assert text.count("<svg") == text.count("aria-label=") == text.count("<title>") - 1
    assert "calmix train --dataset cifar10 --ensemble batch --augment camixup --scale paper" in text


def test_what_users_name_is_shown_and_not_run(runs):
    text = page(runs, title=EVIL)
    assert EVIL not in text
    assert "&lt;script&gt;document" in text


def test_unfinished_runs_are_on_the_page_with_what_they_lack(tmp_path, runs):
    begun = run_folder.create(preset("digits", "deep"), tmp_path)
    runs[0].summary.write_text("{")
    text = check(page([*runs, begun]))
    assert "lacks the end of its training" in text
    assert "cannot be read as JSON" in text


def test_a_page_of_runs_without_anything(tmp_path):
    text = check(page([run_folder.create(preset("digits", "single"), tmp_path)]))
    assert "<svg" not in text


def test_claims_come_first(runs):
    text = page(runs[:1], claims=Html("<p>claim one holds</p>"))
    assert text.index("claim one holds") < text.index("<h2>Runs</h2>")


def test_figures_are_saved_for_a_paper(runs, tmp_path):
    written = write_page(runs, tmp_path / "r.html", figures=tmp_path / "figures")
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == sorted(path.name for path in written[1:])
    assert {name.rsplit(".", 1)[1] for name in names} == {"pdf", "png"}
    assert "bars-cifar10.pdf" in names


def test_the_same_runs_give_the_same_page(runs):
    assert page(runs) == page(runs)


def test_the_command(runs, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path), "--out", str(tmp_path / "report.html")])
    assert ended.value.code == 0
    check((tmp_path / "report.html").read_text())
    assert "report.html" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "nowhere")])
    assert ended.value.code == 2
    assert "no such folder" in capsys.readouterr().err


def test_no_run_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no run"):
        run_folder.find_runs([tmp_path])
