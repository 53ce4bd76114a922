"""The page in a real browser: it opens, sorts, turns dark, prints, and asks the network for nothing."""

import time

import numpy as np
import pytest

from calmix.report.gallery import standard_figures
from calmix.report.page import runs_page
from calmix.report.tables import Cell, Table
from calmix.study.results import read_results
from tests.fabricate import fabricate, random_predictions
from tests.report.browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")

ATTACK = "<script>document.title = 'run'</script>"
CLAIMS = Table(
    "Claims", ("claim", "comparisons"), tuple((Cell(f"{k}. claim {ATTACK}"), Cell("a\nb")) for k in (10, 9))
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    names = [ATTACK, '"><img src=https://example.org/x onerror=alert(1)>', *"cdefghij"]
    mixed = np.random.default_rng(0).integers(0, 2, (8, 4, 10))
    runs = [
        fabricate(
            folder,
            ensemble,
            augment,
            test=random_predictions(sharpness, members=4),
            classes=names,
            mixed=mixed,
            corrupted=(0.6, 0.5),
        )
        for ensemble in ("deep", "batch")
        for augment, sharpness in (("none", 1.6), ("mixup", 0.5), ("camixup-by-pool", 0.9))
    ]
    results = read_results(runs)
    out = folder / "report.html"
    out.write_text(runs_page(results, standard_figures(results.where(ensemble="batch")), claims=CLAIMS))
    return out


@pytest.fixture
def browser(report, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(report)
        yield browser
        assert browser.errors == []
        assert browser.requests == [report.as_uri()]


ROWS = "[...document.querySelectorAll('table')].at({table}).tBodies[0].rows"


def column(browser, place, table=-1):
    cells = f"[...{ROWS.format(table=table)}].map(row => row.cells[{place}].dataset.value)"
    return [float(value) for value in browser.evaluate(cells)]


def words(browser, place, table=-1):
    return browser.evaluate(f"[...{ROWS.format(table=table)}].map(row => row.cells[{place}].textContent)")


def click_head(browser, place, table):
    browser.evaluate(f"document.querySelectorAll('table')[{table}].tHead.rows[0].cells[{place}].id = 'head'")
    browser.click("#head button")
    browser.evaluate("document.getElementById('head').removeAttribute('id')")


def test_a_click_on_a_column_sorts_and_a_second_one_turns_the_order(browser):
    before = column(browser, 5)
    assert before != sorted(before)
    click_head(browser, 5, 1)
    assert column(browser, 5) == sorted(before)
    assert browser.evaluate("document.querySelector('th[aria-sort]').ariaSort") == "ascending"
    click_head(browser, 5, 1)
    assert column(browser, 5) == sorted(before, reverse=True)
    click_head(browser, 1, 1)
    assert words(browser, 1) == ["BatchEnsemble"] * 3 + ["deep ensemble"] * 3
    click_head(browser, 0, 0)
    assert [text[:2] for text in words(browser, 0, table=0)] == ["9.", "10"]


def test_the_theme_is_switched_and_remembered(browser):
    colour = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(colour)
    browser.click("#theme")
    dark = browser.evaluate(colour)
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    browser.call("Page.reload")
    browser.wait_for("Page.loadEventFired")
    assert browser.evaluate(colour) == dark
    browser.requests.pop()


# Of every text with letters, and of every line and area of data in the figures, the contrast to the page.
CONTRAST = """
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const luminance = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(
      c => c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + .05) / (low + .05);
  };
  const background = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "white";
  };
  const least = (selector, property) => Math.min(...[...document.querySelectorAll(selector)]
    .filter(e => e.childElementCount || e.textContent.trim() || property !== "color")
    .map(e => contrast(getComputedStyle(e)[property], background(e))));
  return {
    text: least("td, th button, p, figcaption, summary, a, h1, h2, pre, caption, .note", "color"),
    labels: least("svg text", "fill"),
    lines: least("svg path[style*='stroke: color-mix']", "stroke"),
    areas: least("svg path[style*='fill: color-mix']", "fill"),
  };
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_data_stand_out_from_the_page(report, tmp_path, dark):
    with Browser(tmp_path, dark=dark) as browser:
        browser.open(report)
        contrast = browser.evaluate(CONTRAST)
        assert contrast["text"] > 4.5
        assert contrast["labels"] > 4.5
        assert contrast["lines"] > 3
        assert contrast["areas"] > 3


def test_names_that_are_scripts_are_not_run(browser):
    assert browser.evaluate("document.title") == "calmix report"
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert browser.evaluate("document.images.length") == 0


def test_a_request_is_refused_by_the_page_itself(report, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(report)
        outcome = "fetch('https://example.org').then(() => 'sent', () => 'refused')"
        assert browser.evaluate(outcome) == "refused"
        assert any("Content Security Policy" in error for error in browser.errors)


def test_a_run_leads_to_its_recipe(browser):
    assert not browser.evaluate("document.getElementById('run-0').open")
    browser.click("td a")
    time.sleep(0.2)
    assert browser.evaluate("document.getElementById('run-0').open")
    assert "--augment none" in browser.evaluate("document.querySelector('#run-0 pre').textContent")
    browser.click("#run-0 .copy")
    time.sleep(0.2)
    assert browser.evaluate("document.querySelector('#run-0 .copy').textContent") != "Copy"


def test_tables_are_reached_by_keyboard_and_have_a_name(browser):
    regions = "[...document.querySelectorAll('.scroll:has(table)')]"
    assert browser.evaluate(f"{regions}.every(r => r.tabIndex === 0 && r.ariaLabel && r.role === 'region')")
    assert browser.evaluate("[...document.querySelectorAll('svg')].every(s => s.ariaLabel)")


def test_it_prints(browser):
    assert browser.call("Page.printToPDF")["data"].startswith("JVBER")  # %PDF
    assert not browser.evaluate("document.getElementById('run-0').open")


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_nothing_sticks_out(report, tmp_path, dark):
    with Browser(tmp_path, width=390, height=800, dark=dark) as browser:
        browser.open(report)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") is not dark
        assert browser.errors == []
