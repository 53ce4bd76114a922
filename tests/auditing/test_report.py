import json
import re
import warnings
from importlib.resources import files

import numpy as np
import pytest
import torch

from calmix import InputError, metrics
from calmix.auditing import audit
from calmix.predictions import Predictions, pool
from calmix.progress import Finished
from tests.auditing.ensembles import scaled, signals, single
from tests.auditing.simulations import shifted

SCHEMA = json.loads((files("calmix.auditing") / "schema.json").read_text())


def quick(predictions, **options):
    return audit(predictions, resamples=50, **options)


@pytest.fixture(scope="module")
def pooled():
    predictions = signals(members=2, examples=400)
    return predictions, quick(predictions, inputs=[{"name": "test.npz", "sha256": "ab" * 32}])


def check_schema(numbers):
    """The whole JSON Schema where jsonschema is installed; in any case keys, types and enumerations."""
    check(numbers, SCHEMA, "report")
    try:
        import jsonschema
    except ImportError:
        return
    jsonschema.Draft202012Validator(SCHEMA).validate(numbers)


TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def check(value, schema, where):
    if "$ref" in schema:
        return check(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    for part in schema.get("allOf", ()):
        check(value, part, where)
    if "enum" in schema:
        assert value in schema["enum"], where
    if "const" in schema:
        assert value == schema["const"], where
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(isinstance(value, TYPES[kind]) for kind in kinds), f"{where} is {value!r}"
        assert "boolean" in kinds or not isinstance(value, bool), where
    for key in schema.get("required", ()):
        assert key in value, f"{where} lacks {key}"
    extra = schema.get("additionalProperties")
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in schema.get("properties", {}):
            check(inner, schema["properties"][key], f"{where}.{key}")
        elif extra is False:
            pytest.fail(f"{where} has {key}")
        elif extra:
            check(inner, extra, f"{where}.{key}")
    for k, inner in enumerate(value) if isinstance(value, list) and "items" in schema else ():
        check(inner, schema["items"], f"{where}[{k}]")


def test_the_json_follows_its_schema(pooled):
    numbers = json.loads(pooled[1].to_json(), parse_constant=pytest.fail)
    check_schema(numbers)
    assert set(numbers) <= set(SCHEMA["properties"])  # nothing is left undescribed
    broken = dict(numbers, verdict="fine")
    with pytest.raises(AssertionError, match="verdict"):
        check_schema(broken)
    del broken["verdict"]
    with pytest.raises(AssertionError, match="lacks verdict"):
        check_schema(broken)


def test_every_number_is_that_of_the_metrics(pooled):
    predictions, report = pooled
    numbers = report.numbers()
    probs, labels = pool(predictions.logits.double()), predictions.labels
    assert numbers["examples"] == 400
    assert numbers["accuracy"] == pytest.approx(metrics.accuracy(probs, labels))
    assert numbers["ece"] == numbers["pool"]["ece"] == pytest.approx(metrics.ece(probs, labels), abs=1e-12)
    assert numbers["pool"]["gap"] == numbers["gap"] == pytest.approx(metrics.gap(probs, labels), abs=1e-12)
    assert numbers["pool"]["gap_level"] == pytest.approx(0.97)
    wide, narrow = numbers["pool"]["gap_interval"], numbers["metrics"]["gap"]["interval"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    for member, row in zip(predictions.logits.double().softmax(-1), numbers["members"], strict=True):
        assert row["gap"] == pytest.approx(metrics.gap(member, labels), abs=1e-12)
        assert row["ece"] == pytest.approx(metrics.ece(member, labels), abs=1e-12)
    predicted = probs.argmax(1)
    for row in numbers["classes"]:
        mine = predicted == int(row["name"])
        assert row["examples"] == int(mine.sum())
        assert row["gap"] == pytest.approx(metrics.gap(probs[mine], labels[mine]), abs=1e-12)
    assert numbers["inputs"] == [{"name": "test.npz", "sha256": "ab" * 32}]
    assert numbers["temperature"]["pool"] < 1
    assert numbers["temperature"]["ece_after_pool"] < numbers["ece"]
    assert sum(row["count"] for row in numbers["reliability"]) == 400
    assert sum(row["count"] for row in numbers["reliability_after"]) == 400


def test_the_text_fits_a_terminal(pooled):
    text = str(pooled[1])
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("Verdict: under-confident by pooling\n")
    for words in (
        "SmoothECE",
        "by chance",
        "predicted class",
        "mean P(k)",
        "remedy",
        "Calibrate with",
        "member",
    ):
        assert words in text


def test_long_and_odd_names_stay_in_their_column():
    predictions = single(examples=300)
    names = ["x" * 200, "line\nbreak", "\x1b[31mred", "plain"]
    text = str(quick(Predictions(predictions.logits, predictions.labels, classes=names)))
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "line?break" in text


@pytest.mark.parametrize(
    ("predictions", "verdict"),
    [
        (single(sharpness=2.0, examples=600), "over-confident"),
        (single(sharpness=0.5, examples=600), "under-confident"),
        (signals(members=3, examples=600), "under-confident by pooling"),
        (scaled(signals(members=2, examples=600), 0.5), "compounding under-confidence"),
        (Predictions(single(sharpness=0.5).logits.repeat(2, 1, 1), single().labels), "under-confident"),
        (shifted(2000, 0.1, 0), "mixed"),
    ],
)
def test_verdicts_of_ensembles_whose_calibration_is_known(predictions, verdict):
    report = quick(predictions)
    assert report.verdict == verdict
    assert report.camixup.applies == (verdict == "compounding under-confidence")
    assert ("CAMixup" in " ".join(report.advice)) == report.camixup.applies
    check_schema(json.loads(report.to_json()))


def test_arrays_say_what_they_hold():
    p = np.linspace(0.05, 0.95, 100)
    y = (np.arange(100) % 10 < 10 * p).astype(int)
    of_array = quick(p, labels=y, values="probs")
    of_predictions = quick(Predictions.from_probs(p, y))
    assert of_array.to_json() == of_predictions.to_json()
    with pytest.raises(InputError, match='values is None: say whether the array holds "logits" or "probs"'):
        quick(p, labels=y)
    with pytest.raises(InputError, match="of their own"):
        quick(Predictions.from_probs(p, y), labels=y)
    with pytest.raises(InputError, match="no labels"):
        quick(Predictions.from_probs(p))
    with pytest.raises(InputError, match="probabilities"):
        quick(np.stack([1 - p, p], 1), labels=y, values="logits")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0}, "tolerance is 0"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"level": 1.0}, "level is 1.0"),
        ({"resamples": 1}, "resamples is 1"),
        ({"by": "age"}, "by is 'age'"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(InputError, match=re.escape(words)):
        audit(single(examples=50), **options)


def test_groups_beside_classes():
    good, bad = single(examples=400), single(sharpness=3.0, examples=400, seed=1)
    groups = {"age": np.repeat(["old", "<script>"], 400), "sex": np.arange(800) % 2}
    labels = torch.cat([good.labels, bad.labels])
    both = Predictions(torch.cat([good.logits, bad.logits], 1), labels, groups=groups)
    report = quick(both, by=["age", "sex"])
    assert report.by == ("predicted-class", "age", "sex", "age x sex")
    assert report.groups[0].name == "age=<script>"
    assert report.groups[0].direction == "over-confident"
    assert len(report.groups) == 2 + 2 + 4
    assert "Intervals of all 8 groups hold at once" in str(report)
    assert {row["name"] for row in report.numbers()["classes"]} == set("0123")


def test_the_true_class_is_labelled():
    report = quick(single(examples=300), by="true-class")
    assert {row.by for row in report.groups} == {"true-class"}
    assert "not calibration" in str(report)


def test_names_of_classes():
    predictions = single(examples=300)
    report = quick(Predictions(predictions.logits, predictions.labels, classes=list("abcd")))
    assert {row.name for row in report.classes} == set("abcd")
    assert {row.name for row in report.class_rates} == set("abcd")


def test_perfect_predictions_and_impossible_labels_are_valid_json():
    labels = torch.arange(200) % 2
    logits = torch.where(torch.eye(2)[labels] > 0, 0.0, -torch.inf)[None]
    perfect = json.loads(quick(Predictions(logits, labels)).to_json())
    assert perfect["verdict"] in ("calibrated", "inconclusive")
    assert perfect["nll"] == 0
    check_schema(perfect)
    wrong = labels.clone()
    wrong[0] = 1 - wrong[0]
    report = quick(Predictions(logits, wrong))
    assert report.metrics["nll"].value == float("inf")
    numbers = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert numbers["nll"] is None
    assert any("infinite" in note for note in numbers["notes"])
    check_schema(numbers)


def test_an_audit_warns_in_its_notes_alone():
    sure = Predictions(0.5 * torch.eye(3)[torch.arange(90) % 3][None], torch.arange(90) % 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = quick(sure)
    assert any("bound of its range" in note for note in report.notes)
    assert any("90 examples" in note for note in report.notes)


def test_two_examples_are_the_least():
    few = Predictions(torch.tensor([[[2.0, 0.0], [0.0, 2.0]]]), torch.tensor([0, 0]))
    report = quick(few)
    assert report.verdict == "inconclusive"
    check_schema(json.loads(report.to_json()))
    with pytest.raises(InputError, match="two examples"):
        quick(Predictions(few.logits[:, :1], few.labels[:1]))


def test_the_same_call_gives_the_same_report():
    assert (
        quick(signals(members=2, examples=60)).to_json() == quick(signals(members=2, examples=60)).to_json()
    )


def test_progress_goes_from_nothing_to_the_end():
    events = []
    quick(signals(examples=100), reporter=events.append)
    *steps, end = events
    shares = [event.done / event.total for event in steps]
    assert shares == sorted(set(shares))
    assert shares[0] == 0
    assert shares[-1] < 1
    assert end == Finished("audit", "under-confident by pooling")


def test_the_page_is_written(pooled, tmp_path):
    pooled[1].to_html(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text()
    assert "under-confident by pooling" in page
    assert "test.npz" in page
    assert "<svg" in page
