import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from calmix.auditing.advice import CAMixupAdvice
from calmix.auditing.groups import ClassRate, GroupGap
from calmix.auditing.measures import Estimate
from calmix.auditing.reliability import ReliabilityBins
from calmix.auditing.remedies import Remedy
from calmix.auditing.report import AuditReport, Member, TemperatureFit
from calmix.auditing.verdict import Evidence
from calmix.metrics import Interval
from calmix.paper.numbers import published
from calmix.report.gallery import audit_figures, standard_figures
from calmix.report.page import audit_page, runs_page
from calmix.report.tables import Cell, Table
from calmix.runs import folder
from calmix.runs.presets import preset
from calmix.study.results import Results, read_result, read_results
from tests.fabricate import fabricate, random_predictions

EVIL = "<script>document.title='run'</script>"
QUOTED = """x" onmouseover="alert(1)' y"""
VOID = {"meta", "link", "br", "path", "use", "rect", "image"}


class Checker(HTMLParser):
    """Finds elements that are not closed in order, what a page would load, and what it would run."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.scripts, self.handlers, self.ids = [], [], 0, [], []

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        for name, value in attributes:
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "id":
                self.ids.append(value)
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
    assert checker.handlers == []
    assert checker.scripts == 2  # the template's
    assert len(checker.ids) == len(set(checker.ids))
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    return text


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


def interval(value):
    return Interval(value, value - 0.01, value + 0.01, resamples=0, level=0.95)


def audit_report(members):
    evidence = Evidence(
        members=members,
        examples=1234,
        accuracy=0.9,
        gap=interval(0.05),
        ece=0.05,
        member_gap=interval(0.03),
        member_ece=0.03,
        tests=(),
        tolerance=0.02,
        examples_needed=5000,
    )
    ones = torch.ones(1, dtype=torch.float64)
    bins = ReliabilityBins(ones.long(), *[ones] * 6)
    return AuditReport(
        examples=1234,
        num_classes=3,
        metrics={"gap": Estimate(0.05, interval(0.05)), "ece": Estimate(0.05, None, 0.01, 0.02, 0.001)},
        evidence=evidence,
        verdict="under-confident",
        explanation=f"explained {EVIL}",
        members=(Member(0.9, 0.04, interval(0.02)),) * members,
        by=("predicted-class", EVIL),
        classes=(GroupGap(EVIL, 12, 0.5, 0.7, interval(-0.2), "over-confident"),),
        class_rates=(ClassRate(EVIL, 12, 0.5, 0.7, interval(-0.2), "too low"),),
        groups=(GroupGap(EVIL, 12, 0.5, 0.7, interval(-0.2), "over-confident", EVIL),),
        remedies=(Remedy(EVIL, 1.0, 1.0, 0.1, interval(-0.1), "nll", recommended=True),),
        temperature=TemperatureFit(1.5, 0.01),
        camixup=CAMixupAdvice(False, 1, 1.0, ""),
        advice=(f"take {EVIL}",),
        reliability=bins,
        reliability_after=bins,
        tolerance=0.02,
        level=0.95,
        resamples=100,
        seed=0,
        notes=(f"note {QUOTED}",),
    )


def test_an_audit_has_its_verdict_every_number_and_both_diagrams():
    figures = audit_figures(random_predictions(members=2))
    text = check(audit_page(audit_report(2), figures, source=EVIL))
    assert EVIL not in text
    assert text.count("<svg") == 2
    assert "<strong>under-confident</strong>" in text
    assert "1,234 examples, 3 classes" in text
    assert "+5.00 %" in text
    assert "<h2>Members</h2>" in text
    assert "<h2>Predicted classes</h2>" in text
    assert "<h2>Groups: &lt;script" in text
    assert "<h2>Remedies</h2>" in text
    assert "note x&#34; onmouseover" in text


def test_a_single_model_has_no_table_of_members():
    assert "<h2>Members</h2>" not in check(audit_page(audit_report(1), [], source="test.npz"))
