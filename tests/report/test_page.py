import dataclasses

import numpy as np
import pytest

from calmix.paper.numbers import published
from calmix.report.gallery import standard_figures
from calmix.report.levels import Level
from calmix.report.page import runs_page
from calmix.report.story import Story
from calmix.report.tables import Cell, Table
from calmix.runs import folder
from calmix.runs.presets import preset
from calmix.study.results import Results, read_result, read_results
from tests.fabricate import fabricate, random_predictions
from tests.report.markup import check

EVIL = "<script>document.title='run'</script>"
QUOTED = """x" onmouseover="alert(1)' y"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Every name that a user gives is an attack: of classes, of a folder, of a recipe's option."""
    out, classes = tmp_path_factory.mktemp("runs"), [EVIL, QUOTED, *"cdefghij"]
    mixed = np.random.default_rng(0).integers(0, 2, (4, 4, 10))
    test = random_predictions()
    found = [
        read_result(fabricate(out, "batch", augment, test=test, classes=classes, mixed=mixed, **fields))
        for augment, fields in (
            ("none", {}),
            ("camixup", {}),
            ("camixup", {"network_options": {"width": EVIL}}),
        )
    ]
    run = dataclasses.replace(found[0].run, folder=out / QUOTED / "<img src=x onerror=alert(1)>")
    return Results([dataclasses.replace(found[0], run=run, missing=(EVIL,)), *found[1:]])


@pytest.fixture(scope="module")
def text(results):
    claims = Table(EVIL, ("claim", QUOTED), ((Cell(EVIL), Cell(f"{EVIL}\n{QUOTED}", tooltip=QUOTED)),))
    return runs_page(results, standard_figures(results), claims=claims, published=published, title=EVIL)


def test_the_page_is_whole_and_needs_nothing_else(text):
    check(text)
    for words in ("Reliability:", "Training:", "Mixed classes:", "Recipes", "1.80 ± 0.20"):
        assert words in text
    assert text.count("<svg") == text.count('role="img" aria-label=') == text.count("<title>") - 1
    assert "calmix train --dataset cifar10 --ensemble batch --augment camixup --scale paper" in text


def test_what_users_name_is_shown_and_not_run(text):
    assert EVIL not in text
    assert "&lt;script&gt;document" in text
    assert "<img" not in text
    assert "&#34; onmouseover" in text  # and `check` finds no handler


def test_the_same_results_give_the_same_page(results, text):
    claims = Table(EVIL, ("claim", QUOTED), ((Cell(EVIL), Cell(f"{EVIL}\n{QUOTED}", tooltip=QUOTED)),))
    again = runs_page(results, standard_figures(results), claims=claims, published=published, title=EVIL)
    assert again == text


def test_claims_come_first_and_unfold(text):
    assert text.index("Claims of the paper") < text.index("<h2>Runs</h2>")
    assert "<details><summary>2 x&#34; onmouseover" in text


def test_seeds_have_a_table_of_means_with_the_papers_numbers(tmp_path):
    results = read_results([fabricate(tmp_path, "batch", "mixup", seed=s) for s in (0, 1)])
    text = check(runs_page(results, [], published=published))
    means, runs = text.split("<h2>Runs</h2>")
    assert "<h2>Means over seeds</h2>" in means
    assert "6.40 ± 0.40" in means
    assert "6.40 ± 0.40" not in runs
    alone = runs_page(Results([results[0]]), [], published=published)
    assert "Means over seeds" not in alone
    assert "6.40 ± 0.40" in alone


def test_unfinished_runs_are_on_the_page_with_what_they_lack(tmp_path):
    begun = folder.create(preset("digits", "deep"), tmp_path)
    broken = folder.create(preset("digits", "single"), tmp_path)
    broken.summary_path.write_text("{")
    results = read_results([begun, broken])
    text = check(runs_page(results, standard_figures(results)))
    assert "lacks the end of its training" in text
    assert "cannot be read as JSON" in text
    assert "<svg" not in text


def test_a_story_comes_first_and_is_escaped(tmp_path):
    results = read_results([fabricate(tmp_path, "batch", "mixup")])
    story = Story((f"Mixup {EVIL}", "then"), ((EVIL, (Level(EVIL, 0.7, 0.9, 500),)),), "note")
    text = check(runs_page(results, [], story=story))
    assert EVIL not in text
    assert text.index("Mixup &lt;script") < text.index("<h2>Runs</h2>")
    assert "<b>90 %</b> right, 70 % sure" in text
