"""The pages of an audit and of a comparison in a real browser."""

import itertools

import numpy as np
import pytest
import torch

from calmix.auditing import audit
from calmix.auditing.compare import compare
from calmix.predictions import Predictions
from calmix.report.comparison_page import comparison_page, judge_side
from tests.auditing.ensembles import scaled, signals
from tests.report.browser import CHROMIUM, Browser
from tests.report.test_browser import ATTACK, CONTRAST

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]


def named():
    predictions = signals(members=3, examples=600)
    groups = {"age": np.arange(600) % 20, ATTACK: np.where(np.arange(600) % 2, ATTACK, "x" * 120)}
    return Predictions(predictions.logits, predictions.labels, groups=groups, classes=[ATTACK, *"bcd"])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "audit.html"
    report = audit(named(), resamples=20, by=["age", ATTACK], inputs=[{"name": ATTACK, "sha256": "ab" * 32}])
    report.to_html(path, date="2026-01-01")
    return path


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "page.html"
    pair = named(), scaled(named(), 4)
    result = compare(*pair, names=(ATTACK, "b"), resamples=20)
    sides = [judge_side(name, each) for name, each in zip(result.names, pair, strict=True)]
    path.write_text(comparison_page(result, sides, date="2026-01-01"))
    return path


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3000, 1000, generator=draw)
    labels = logits.softmax(1).multinomial(1, generator=draw)[:, 0]
    path = tmp_path_factory.mktemp("thousand") / "audit.html"
    names = [f"class {k}" for k in range(1000)]
    audit(Predictions(logits, labels, classes=names), resamples=20).to_html(path)
    return path


@pytest.mark.parametrize("name", ["page", "comparison"])
def test_it_opens_without_errors_and_without_requests(name, request, tmp_path):
    path = request.getfixturevalue(name)
    with Browser(tmp_path) as browser:
        browser.open(path)
        assert browser.errors == []
        assert browser.requests == [path.as_uri()]
        assert browser.evaluate("document.querySelectorAll('script').length") == 2
        assert browser.evaluate("document.images.length") == 0
        assert browser.evaluate("document.title") != "run"


def visible(browser, table):
    rows = f"[...document.getElementById('{table}').tBodies[0].rows]"
    return browser.evaluate(
        f"{rows}.filter(row => row.checkVisibility()).map(row => row.cells[0].textContent)"
    )


def type_into(browser, field, text):
    browser.click(f"#{field}")
    browser.evaluate(f"document.getElementById('{field}').select()")
    browser.call("Input.insertText", text=text)


def test_a_thousand_classes_are_searched(thousand, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(thousand)
        assert len(visible(browser, "rates")) == 1000
        type_into(browser, "rates-search", "CLASS 123")
        assert visible(browser, "rates") == ["class 123"]
        assert (
            browser.evaluate("document.querySelector('output[for=rates-search]').textContent") == "1 of 1,000"
        )
        assert len(visible(browser, "classes")) > 100  # the other table has a field of its own
        type_into(browser, "rates-search", "nothing like this")
        assert visible(browser, "rates") == []
        assert browser.evaluate("document.documentElement.scrollHeight") < 12_000
        assert browser.errors == []


def test_a_search_and_a_sort_go_together(page, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(page)
        type_into(browser, "groups-0-search", "1")
        found = visible(browser, "groups-0")
        assert 0 < len(found) <= 20
        browser.click("#groups-0 thead button")
        assert visible(browser, "groups-0") == sorted(found, key=lambda name: int(name.removeprefix("age=")))


@pytest.mark.parametrize("name", ["page", "comparison"])
@pytest.mark.parametrize("dark", [False, True])
def test_text_and_data_stand_out(name, dark, request, tmp_path):
    with Browser(tmp_path, dark=dark) as browser:
        browser.open(request.getfixturevalue(name))
        contrast = browser.evaluate(
            CONTRAST.replace("td, th button", "td, th, dt, dd, li, .name, output, label")
        )
        assert contrast["text"] > 4.5
        assert contrast["labels"] > 4.5
        assert contrast["lines"] > 3
        shapes = (
            "[...document.querySelectorAll('.dots *, .levels rect:not(.full), .plot circle, .icon circle')]"
            ".map(e => getComputedStyle(e)[e.matches('.lacking') ? 'stroke' : 'fill'])"
        )
        paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper not in browser.evaluate(shapes)


@pytest.mark.parametrize("name", ["page", "comparison", "thousand"])
def test_on_a_phone_nothing_sticks_out(name, request, tmp_path):
    with Browser(tmp_path, width=390, height=800) as browser:
        browser.open(request.getfixturevalue(name))
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        wide = (
            "[...document.querySelectorAll('h1, h2, p, .verdict, .levels, .dots, figure, dl, caption span')]"
            ".filter(e => e.getBoundingClientRect().right > 390).map(e => e.outerHTML.slice(0, 80))"
        )
        assert browser.evaluate(wide) == []


def test_a_screen_reader_finds_names_captions_and_heads(page, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(page)
        everywhere = {
            "table": "e.caption && e.tHead && [...e.tBodies[0].rows].every(r => r.cells[0].scope === 'row')",
            ".scroll:has(table)": "e.tabIndex === 0 && e.role === 'region' && e.ariaLabel",
            "svg": "e.ariaHidden === 'true' || (e.getAttribute('role') === 'img' && e.ariaLabel"
            " && e.querySelector('title'))",
            "input": "e.labels.length === 1 && e.labels[0].textContent",
            "section": "document.getElementById(e.getAttribute('aria-labelledby')).textContent",
        }
        for selector, condition in everywhere.items():
            wrong = f"[...document.querySelectorAll('{selector}')].filter(e => !({condition})).length"
            assert browser.evaluate(wrong) == 0, selector
            assert browser.evaluate(f"document.querySelectorAll('{selector}').length") > 0
        levels = (
            "[...document.querySelectorAll('main h1, main h2, main h3, header h1')].map(e => e.tagName[1])"
        )
        heads = [int(level) for level in browser.evaluate(levels)]
        assert heads[0] == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(heads))


def test_the_keyboard_goes_from_top_to_bottom(page, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(page)
        stops = []
        for _ in range(8):
            key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            for kind in ("rawKeyDown", "keyUp"):
                browser.call("Input.dispatchKeyEvent", type=kind, **key)
            active = (
                "(e => [e.tagName, e.className, e.id, Math.round(e.getBoundingClientRect().top + scrollY)])"
            )
            stops.append(browser.evaluate(f"{active}(document.activeElement)"))
        assert stops[0][:2] == ["A", "skip"]
        assert stops[1][2] == "theme"
        places = [stop[3] for stop in stops[2:]]
        assert places == sorted(places)
        assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_it_prints_with_every_section_open_and_in_light_colours(page, tmp_path):
    with Browser(tmp_path, dark=True) as browser:
        browser.open(page)
        browser.evaluate("dispatchEvent(new Event('beforeprint'))")
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.evaluate("[...document.querySelectorAll('details')].every(part => part.open)")
        hidden = "['#theme', '.search', '.downloads'].map(s => document.querySelector(s).checkVisibility())"
        assert browser.evaluate(hidden) == [False, False, False]
        browser.evaluate("dispatchEvent(new Event('afterprint'))")
        assert browser.call("Page.printToPDF")["data"].startswith("JVBER")  # %PDF


def test_the_files_can_be_downloaded(page, tmp_path):
    with Browser(tmp_path / "profile") as browser:
        browser.open(page)
        folder = tmp_path / "files"
        folder.mkdir()
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        browser.click(".downloads a")
        done = "new Promise(done => setTimeout(done, 200))"
        for _ in range(50):
            browser.evaluate(done)
            if (folder / "audit.json").exists():
                break
        assert (folder / "audit.json").read_text().startswith("{")
        assert browser.errors == []
