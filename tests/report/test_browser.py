"""The page in a real browser: it opens, sorts, turns dark, prints, and asks the network for nothing."""

import time

import pytest

from calmix.report.page import write_page
from tests.report.browser import CHROMIUM, Browser
from tests.report.fabricate import fabricate

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    names = ["<script>document.title = 'run'</script>", *"bcdefghij"]
    runs = [
        fabricate(folder, ensemble=e, augment=a, classes=names)
        for e in ("batch", "deep")
        for a in ("none", "mixup", "camixup")
    ]
    out = folder / "report.html"
    write_page(runs, out)
    return out


@pytest.fixture
def browser(report, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(report)
        yield browser
        assert browser.errors == []
        assert browser.requests == [report.as_uri()]


def column(browser, place):
    cells = f"[...document.querySelectorAll('tbody tr')].map(row => row.cells[{place}].dataset.value)"
    return [float(value) for value in browser.evaluate(cells)]


def test_a_click_on_a_column_sorts_and_a_second_one_turns_the_order(browser):
    before = column(browser, 5)
    assert before != sorted(before)
    browser.click("thead th:nth-child(6) button")
    assert column(browser, 5) == sorted(before)
    assert browser.evaluate("document.querySelector('th[aria-sort]').ariaSort") == "ascending"
    browser.click("thead th:nth-child(6) button")
    assert column(browser, 5) == sorted(before, reverse=True)
    browser.click("thead th:nth-child(2) button")
    words = browser.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(row => row.cells[1].textContent)"
    )
    assert words == ["batch"] * 3 + ["deep"] * 3


def test_the_theme_is_switched_and_remembered(browser, report):
    colour = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('svg text')).fill"
    light = browser.evaluate(colour), browser.evaluate(ink)
    browser.click("#theme")
    dark = browser.evaluate(colour), browser.evaluate(ink)
    assert light[0] == "rgb(255, 255, 255)"
    assert dark != light
    assert dark[1] != light[1]
    browser.evaluate("localStorage.getItem('calmix-theme')")
    browser.call("Page.reload")
    browser.wait_for("Page.loadEventFired")
    assert browser.evaluate(colour) == dark[0]
    browser.requests.pop()


def test_a_class_named_as_a_script_is_not_run(browser):
    assert browser.evaluate("document.title") == "calmix report"
    assert browser.evaluate("document.querySelectorAll('script').length") == 2


def test_a_run_leads_to_its_recipe(browser):
    assert not browser.evaluate("document.getElementById('run-0').open")
    browser.click("tbody a")
    time.sleep(0.2)
    assert browser.evaluate("document.getElementById('run-0').open")
    assert "--augment none" in browser.evaluate("document.querySelector('#run-0 pre').textContent")
    browser.click("#run-0 .copy")
    time.sleep(0.2)
    assert browser.evaluate("document.querySelector('#run-0 .copy').textContent") != "Copy"


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
