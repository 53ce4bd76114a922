import base64
import csv
import dataclasses
import io
import json
import re

import numpy as np
import pytest
import torch

from calmix.auditing import audit
from calmix.predictions import Predictions
from calmix.report.audit_page import audit_page, make_lead
from calmix.report.verdicts import VERDICTS
from tests.auditing.ensembles import scaled, signals, single
from tests.auditing.simulations import shifted
from tests.report.markup import check

EVIL = "<script>document.title='run'</script>"
QUOTED = """x" onmouseover="alert(1)' y"""
DATE = "2026-01-02 03:04 UTC"


def quick(predictions, **options):
    return audit(predictions, resamples=20, **options)


@pytest.fixture(scope="module")
def report():
    """Every name that a user gives is an attack."""
    predictions = signals(members=2, examples=400)
    groups = {EVIL: np.where(np.arange(400) % 2, QUOTED, "=cmd()")}
    named = Predictions(
        predictions.logits, predictions.labels, groups=groups, classes=[EVIL, QUOTED, "c", "d"]
    )
    return quick(named, by=EVIL, inputs=[{"name": EVIL, "sha256": "ab" * 32}])


@pytest.fixture(scope="module")
def text(report):
    return audit_page(report, source=EVIL, date=DATE)


def test_the_page_is_whole_and_what_users_name_is_not_run(text):
    check(text)
    assert EVIL not in text
    assert "&lt;script&gt;document" in text


def test_the_verdict_is_first_then_the_picture_then_what_to_do_then_the_numbers(text):
    places = [
        text.index(words)
        for words in ('class="verdict under"', 'class="dots"', "What to do", "<b>Before</b>")
    ]
    places += [
        text.index(f'id="{name}-head"') for name in ("metrics", "members", "classes", "rates", "groups-0")
    ]
    places += [text.index(f'id="{name}"') for name in ("origin", "glossary")]
    assert places == sorted(places)
    assert "by chance: 95 %" in text
    assert "accuracy minus mean confidence; below 0 is over-confident" in text


def test_provenance_has_version_date_seed_and_digest(text):
    for words in (DATE, "ab" * 32, "<dt>Seed</dt><dd>0</dd>", "SHA-256 of &lt;script"):
        assert words in text


def links(text):
    pairs = re.findall(r'download="([^"]+)" href="data:[^"]*base64,([^"]+)"', text)
    return {name: base64.b64decode(data).decode() for name, data in pairs}


def test_the_downloads_are_the_numbers(report, text):
    files = links(text)
    assert json.loads(files["audit.json"]) == json.loads(report.to_json())
    rows = list(csv.DictReader(io.StringIO(files["audit.csv"])))
    (gap,) = [row for row in rows if (row["table"], row["name"]) == ("metric", "gap")]
    assert float(gap["value"]) == report.metrics["gap"].value
    assert {row["name"] for row in rows if row["table"] == "predicted class"} == {EVIL, QUOTED, "c", "d"}
    assert "'=cmd()" in {row["name"] for row in rows}  # no spreadsheet runs it


def test_the_same_report_gives_the_same_page(report, text):
    assert audit_page(report, source=EVIL, date=DATE) == text


CASES = {
    "calibrated": lambda: single(examples=12000),
    "inconclusive": lambda: single(examples=100),
    "over-confident": lambda: single(sharpness=2.0, examples=600),
    "under-confident": lambda: single(sharpness=0.5, examples=600),
    "compounding under-confidence": lambda: scaled(signals(members=2, examples=600), 0.5),
    "mixed": lambda: shifted(2000, 0.1, 0),
}


@pytest.mark.parametrize("verdict", CASES)
def test_every_verdict_has_its_look_and_a_picture_that_agrees(verdict):
    report = quick(CASES[verdict]())
    assert report.verdict == verdict
    text = check(audit_page(report, source="", date=DATE))
    assert f'class="verdict {VERDICTS[verdict].kind}"' in text
    assert VERDICTS[verdict].plain in text
    lead = make_lead(report)
    error = lead.level.actual - lead.level.expected
    assert {"over-confident": error < 0, "calibrated": abs(error) < 0.05}.get(verdict, error != 0)
    if "under" in verdict:
        assert error > 0
    recommended = next(remedy for remedy in report.remedies if remedy.recommended)
    assert ("<b>Before</b>" in text) == (recommended.method != "nothing")


def test_kinds_of_verdicts_differ_in_icon_and_not_in_colour_alone():
    icons = {style.kind: style.icon for style in VERDICTS.values()}
    assert len(set(icons.values())) == len(icons) == 5


def test_a_shifted_probability_is_shown_as_such():
    report = quick(shifted(2000, 0.1, 0))
    lead = make_lead(report)
    assert lead.outcome == "y = 1"
    assert lead.sentence.startswith("Of 100 cases with a probability of about")
    assert all(level.actual > level.expected for level in lead.levels)
    text = audit_page(report, source="", date=DATE)
    assert text.count("rate of y = 1</text>") == 3  # before, after, and in full


def test_a_report_without_predictions_has_a_page(report):
    bare = dataclasses.replace(report, predictions=None)
    check(audit_page(bare, source="x", date=DATE))


def test_one_model_has_no_table_of_members():
    text = audit_page(quick(single(examples=200)), source="x", date=DATE)
    assert 'id="members-head"' not in text
    assert "Data uncertainty</th>" not in text


@pytest.mark.slow
def test_a_thousand_classes_stay_small_and_can_be_searched():
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3000, 1000, generator=draw)
    labels = logits.softmax(1).multinomial(1, generator=draw)[:, 0]
    text = audit_page(quick(Predictions(logits, labels)), source="x", date=DATE)
    assert len(text) < 4_000_000
    assert text.count('type="search"') == 2
    assert text.count("<svg") < 2100
