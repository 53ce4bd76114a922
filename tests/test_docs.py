"""The documentation: every public name is in it, links lead somewhere, and the built site needs no network.

Tests of the built site read `site/`, which `make docs` writes and `make check` builds first.
"""

import html
import importlib
import re
import time
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.report.browser import CHROMIUM, Browser

ROOT = Path(__file__).parents[1]
DOCS, SITE = ROOT / "docs", ROOT / "site"
PACKAGES = ("auditing", "augment", "calibrate", "corruptions", "data", "ensembles", "metrics", "models")
INTEGRATIONS = ("lightning", "transformers", "torchmetrics", "sklearn")
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(path for path in DOCS.rglob("*.md") if "evidence" not in path.parts),
]
RECORDS = {"BrierParts", "Diversity", "Interval", "Null", "Refinement", "Reliability", "Scores", "Selective"}
built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs builds the site")
browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def reference():
    text = "\n".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    return set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("package", ["calmix", *(f"calmix.{name}" for name in (*PACKAGES, "predictions"))])
def test_every_public_name_is_in_the_reference(package):
    module = importlib.import_module(package)
    names = [n for n in module.__all__ if n not in (*PACKAGES, "__version__")]
    assert [n for n in names if not {f"{package}.{n}", f"calmix.{n}"} & reference()] == []


def test_every_integration_is_in_the_reference():
    for name in INTEGRATIONS:
        source = (ROOT / "src" / "calmix" / "integrations" / f"{name}.py").read_text()
        classes = re.findall(r"^class ([A-Z]\w*)", source, re.MULTILINE)
        assert classes
        assert [c for c in classes if f"calmix.integrations.{name}.{c}" not in reference()] == []


def test_the_list_of_names_is_complete():
    listed = re.findall(r"\.md#(calmix\S+)\)", (DOCS / "api" / "index.md").read_text())
    assert Counter([*listed, "calmix.InputError"]) == Counter(reference())


def test_every_method_and_metric_is_on_the_page_of_methods():
    import calmix
    from calmix import augment, metrics

    names = {n for n in metrics.__all__ if n not in RECORDS | {"SCALARS", "Uncertainty"}}
    names |= {n for n in augment.__all__ if n not in ("Batch", "Mixer", "NoMixing", "Plan")}
    names |= {n for n in calmix.__all__ if n.startswith(("fit_", "audit", "compare", "corrupt"))} - {
        "auditing"
    }
    names |= {"BatchEnsemble", "DeepEnsemble", "MCDropout", *calmix.models.__all__}
    text = (DOCS / "methods.md").read_text()
    code = " ".join(re.findall(r"`([^`]+)`", text))
    assert sorted(n for n in names if not re.search(rf"\b{n}\b", code)) == []


def test_every_method_has_its_name_its_paper_and_an_intuition():
    entries = (DOCS / "methods.md").read_text().split("\n### ")[1:]
    assert len(entries) > 40
    for entry in entries:
        title, line, *text = entry.split("\n## ")[0].split("\n\n")
        assert re.match(r"`[^`]+`.* · \S", line), title
        prose = " ".join(part for part in text if not part.startswith("$$"))
        assert len(prose.split()) > 12, title


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_the_sources(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        assert other.exists(), f"{path.name} links to {target}"
        if anchor and not anchor.startswith("calmix."):  # those are made when the site is built
            assert anchor in anchors(other), f"{path.name} links to {target}"


def anchors(path):
    """Of the headings of a Markdown file, as the site and public forges make them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-") for title in titles}


class Page(HTMLParser):
    """Ids of a page, what it links to, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loads += [values["src"]] if "src" in values else []
        self.loads += [part.split()[0] for part in values.get("srcset", "").split(",") if part]
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(values["href"])


@cache
def page(path):
    return Page(path)


def pages():
    """All but the page of a server that does not find one: its links begin at the server's root."""
    return sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")


@pytest.mark.slow
@built
def test_links_of_the_site():
    broken = []
    for path in pages():
        for link in (*page(path).links, *page(path).loads):
            parts = urlsplit(html.unescape(link))
            if parts.scheme or parts.netloc:
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            ends = other.suffix != ".html" or not parts.fragment
            if not other.is_file() or not (ends or unquote(parts.fragment) in page(other).ids):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


@pytest.mark.slow
@built
def test_the_site_loads_nothing_from_elsewhere():
    elsewhere = re.compile(r"^(https?:)?//")
    found = [f"{path.name}: {load}" for path in pages() for load in page(path).loads if elsewhere.match(load)]
    sheets = "".join(path.read_text() for path in SITE.rglob("*.css"))
    assert found + re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)\"']+", sheets) == []


@pytest.mark.slow
@built
def test_formulas_and_examples_are_drawn():
    for path in pages():
        text = path.read_text()
        assert "FORMULA" not in text, path
        assert "<blockquote>" not in text, path
    assert (SITE / "methods.html").read_text().count("<math") > 60
    assert "&gt;&gt;&gt; " in (SITE / "api" / "metrics.html").read_text()


@pytest.mark.slow
@built
@browser
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_is_wider_than_a_telephone_or_asks_the_network(tmp_path, dark):
    wide = "document.documentElement.scrollWidth > window.innerWidth"
    with Browser(tmp_path, width=390, height=844, dark=dark) as window:
        for path in pages():
            window.open(path)
            assert not window.evaluate(wide), path
        assert [r for r in window.requests if not r.startswith(("file:", "data:"))] == []
        assert window.errors == []


@pytest.mark.slow
@built
@browser
def test_search_works_from_a_file(tmp_path):
    with Browser(tmp_path) as window:
        window.open(SITE / "tutorials" / "own_loop.html")
        window.call("Page.bringToFront")
        window.click(".md-search__input")
        for key in "forgetting":
            window.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
            window.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        end = time.monotonic() + 20
        results = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        while not (links := window.evaluate(results)) and time.monotonic() < end:
            time.sleep(0.1)
        assert any("methods.html" in link for link in links), links
        assert all(Path(unquote(urlsplit(link).path)).is_file() for link in links)


def test_every_contradicted_part_has_a_likely_reason():
    page = (DOCS / "results" / "README.md").read_text()
    listed = page.split("## Contradicted here", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in listed.splitlines() if line.startswith("- On")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"- On [\w-]+: .{20,}\.", line)] == []


def test_the_numbers_of_the_readme_are_those_of_the_results():
    """Its three sentences name the ECE of the pool for two ensembles: none, Mixup, CAMixup."""
    first = (ROOT / "README.md").read_text().split("```")[0]
    page = (DOCS / "results" / "README.md").read_text()
    sentence = re.search(r"## Pathology and cure: mnist.*?ECE % (of BE: [^\n]*)\.\*\n", page, re.DOTALL)
    assert sentence
    by_ensemble = dict(re.findall(r"of (\w+): ([^;]*)", sentence[1]))
    for ensemble in ("DE", "BE"):
        numbers = [f"{number} %" for number in re.findall(r"\d+\.\d+", by_ensemble[ensemble])]
        assert len(numbers) == 3
        assert [number for number in numbers if number not in first] == [], ensemble


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 200
