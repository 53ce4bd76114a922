import dataclasses
import json
import math

import pytest

from calmix import InputError
from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.metrics import Diversity
from calmix.records import to_json, write_json
from calmix.runs.summary import (
    VERSION,
    CorruptionSource,
    MemberScores,
    PoolScores,
    ScaledScores,
    Summary,
    TestScores,
)


def scores(value, *, scaled=None):
    """Every metric of pool and members is `value`, of the scaled pool `scaled`."""

    def fill(kind, number):
        return kind(**{field.name: number for field in dataclasses.fields(kind)})

    return TestScores(
        examples=10,
        pool=fill(PoolScores, value),
        members=(fill(MemberScores, value), fill(MemberScores, 3 * value)),
        diversity=fill(Diversity, value),
        scaled=None if scaled is None else fill(ScaledScores, scaled),
        intervals={"ece": (value - 0.1, value + 0.1)},
    )


def corrupted(*types, scaled=None):
    """Of severity s of the k-th type, every metric is 0.01 k + 0.1 s."""
    return {
        name: {s: scores(0.01 * k + 0.1 * s, scaled=scaled) for s in SEVERITIES}
        for k, name in enumerate(types)
    }


SUMMARY = Summary(
    "digits-deep-none-seed0-0123456789",
    ("cat", "dog"),
    scores(0.5, scaled=0.25),
    temperature=1.5,
    corrupted=corrupted("fog", "snow"),
    sources={"fog": CorruptionSource("generated", seed=0), "snow": CorruptionSource("folder", digest="0f")},
)


def test_a_summary_is_read_back(tmp_path):
    write_json(tmp_path / "summary.json", SUMMARY)
    assert Summary.read(tmp_path / "summary.json") == SUMMARY


def test_a_summary_of_a_clean_test_set_alone_is_read_back(tmp_path):
    plain = Summary("name", ("a", "b"), dataclasses.replace(scores(0.5), diversity=None, intervals={}))
    write_json(tmp_path / "summary.json", plain)
    assert Summary.read(tmp_path / "summary.json") == plain


def test_what_is_not_finite_is_null_in_the_file_and_nan_when_read(tmp_path):
    clean = scores(0.5)
    infinite = dataclasses.replace(clean, pool=dataclasses.replace(clean.pool, nll=math.inf))
    write_json(tmp_path / "summary.json", dataclasses.replace(SUMMARY, clean=infinite))
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["clean"]["pool"]["nll"] is None
    again = Summary.read(tmp_path / "summary.json")
    assert math.isnan(again.clean.pool.nll)
    assert again.clean.pool.ece == 0.5


@pytest.mark.parametrize("version", [None, 1, VERSION + 1, str(VERSION)])
def test_the_summary_of_another_version_is_refused(tmp_path, version):
    fields = json.loads(to_json(SUMMARY)) | {"version": version}
    (tmp_path / "summary.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match="another version of calmix: run `calmix evaluate` again"):
        Summary.read(tmp_path / "summary.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean": {}}, "clean lacks examples, pool"),
        ({"clean": 3}, "clean must be an object"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"corrupted": {"fog": {"one": {}}}}, "corrupted"),
        ({"colour": 1}, "unknown key"),
    ],
)
def test_a_damaged_summary_is_refused_by_name(tmp_path, change, message):
    fields = json.loads(to_json(SUMMARY)) | change
    (tmp_path / "summary.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match=message) as error:
        Summary.read(tmp_path / "summary.json")
    assert "summary.json" in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "3"])
def test_what_is_no_summary_is_refused(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(InputError, match=r"summary\.json"):
        Summary.read(tmp_path / "summary.json")


def test_the_members_mean_by_hand():
    assert scores(0.2).members_mean("ece") == pytest.approx(0.4)


def test_corrupted_means_are_over_all_types_and_severities_or_none():
    whole = dataclasses.replace(SUMMARY, corrupted=corrupted(*CORRUPTIONS, scaled=0.25))
    # The mean of 0, ..., 14 hundredths and of 1, ..., 5 tenths.
    assert whole.corrupted_mean("accuracy") == pytest.approx(0.07 + 0.3)
    assert whole.corrupted_mean("ece", of="scaled") == pytest.approx(0.25)
    assert len(whole.corrupted_scores()) == 75
    for left_out in (CORRUPTIONS[0], CORRUPTIONS[-1]):
        part = {name: rows for name, rows in whole.corrupted.items() if name != left_out}
        assert dataclasses.replace(whole, corrupted=part).corrupted_mean("ece") is None
    few = whole.corrupted | {"fog": {1: scores(0.1)}}
    assert dataclasses.replace(whole, corrupted=few).corrupted_mean("ece") is None
    assert SUMMARY.corrupted_mean("ece") is None


def test_other_types_have_a_mean_of_their_own():
    assert SUMMARY.corrupted_mean("ece", types=("fog", "snow")) == pytest.approx(0.005 + 0.3)
    assert SUMMARY.corrupted_mean("ece", types=("fog", "spatter")) is None
    more = dataclasses.replace(SUMMARY, corrupted=corrupted(*CORRUPTIONS, "spatter"))
    assert more.corrupted_mean("ece") == pytest.approx(0.07 + 0.3)  # which spatter leaves alone


def test_a_mean_at_a_temperature_needs_one():
    whole = dataclasses.replace(SUMMARY, corrupted=corrupted(*CORRUPTIONS))
    assert whole.corrupted_mean("ece", of="scaled") is None


def test_the_numbers_for_programs_name_the_means():
    whole = dataclasses.replace(SUMMARY, corrupted=corrupted(*CORRUPTIONS))
    numbers = json.loads(to_json(whole.numbers()))
    assert numbers["cA"] == numbers["cECE"] == pytest.approx(0.37)
    assert numbers["clean"]["pool"]["ece"] == 0.5
    assert json.loads(to_json(SUMMARY.numbers()))["cA"] is None
