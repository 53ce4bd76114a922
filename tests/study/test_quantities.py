import dataclasses
import math

import pytest

from calmix.study import quantities as q
from calmix.study.results import read_result
from tests.fabricate import fabricate


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return read_result(fabricate(out, "deep", "mixup", accuracy=0.95, confidence=0.99, corrupted=(0.6, 0.5)))


def test_values_are_fractions_of_the_right_numbers(result):
    expected = {
        q.ACCURACY: 0.95,
        q.ERROR: 0.05,
        q.ECE: 0.04,
        q.GAP: -0.04,
        q.MEMBER_ECE: 0.04,
        q.CORRUPTED_ERROR: 0.4,
        q.CORRUPTED_ECE: 0.1,
        q.SCALED_CORRUPTED_ECE: 0.1,
        q.TEMPERATURE: 1.0,
        q.NLL: -0.95 * math.log(0.99) - 0.05 * math.log(0.01 / 3),
    }
    for quantity, value in expected.items():
        assert quantity.of(result) == pytest.approx(value, abs=1e-5), quantity.name


def test_a_run_without_numbers_has_no_value(result):
    assert q.ECE.values([dataclasses.replace(result, summary=None), result]) == [q.ECE.of(result)]


def test_other_work_on_the_machine_counts_little(result):
    epoch = result.history[0]
    history = [
        dataclasses.replace(epoch, member=k, epoch=e, seconds=100.0 if e == 2 else 1.0 + k)
        for k in (0, 1)
        for e in (1, 2, 3)
    ]
    assert q.SECONDS.of(dataclasses.replace(result, history=history)) == 3 * 1.0 + 3 * 2.0


def test_text_and_cost():
    assert (q.ECE.heading, q.GAP.heading) == ("ECE %", "gap")
    assert q.GAP.text(0.02) == "+2.00"
    assert q.GAP.text(0.02, signed=False) == "2.00"
    assert q.ACCURACY.cost(0.9) < q.ACCURACY.cost(0.8)
    assert q.GAP.cost(-0.01) < q.GAP.cost(0.02)
    assert math.isnan(q.TEMPERATURE.cost(1.0))
