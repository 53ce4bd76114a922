"""Numbers in the hand-written reasons of the results' first page, against the evidence."""

import re
from pathlib import Path

import numpy as np
import pytest

from calmix.paper.regime import main_regimes
from calmix.paper.story import REASONS
from calmix.runs.folder import find_runs
from calmix.study import quantities as q
from calmix.study.results import read_results

EVIDENCE = Path(__file__).parents[2] / "docs" / "results" / "evidence"


@pytest.fixture(scope="module")
def regimes():
    return {regime.dataset: regime for regime in main_regimes(read_results(find_runs([EVIDENCE])))}


def points(regime, ensemble, augment, quantity=q.GAP):
    return 100 * regime.estimate((ensemble, augment), quantity).value


def change(regime, ensemble, quantity):
    """What Mixup adds to a quantity, in points."""
    return points(regime, ensemble, "mixup", quantity) - points(regime, ensemble, "none", quantity)


def corrupted_gap(regime, ensemble, augment):
    results = regime[ensemble, augment]
    gaps = [scores.pool.gap for r in results for scores in r.summary.corrupted_scores()]
    return 100 * float(np.mean(gaps))


def ends(values):
    return min(values), max(values)


THREE = ("batch", "mc", "deep")
CHECKED = {
    ("mnist", "0a"): lambda r: [points(r, "single", "mixup")],
    ("cifar10", "1 BE"): lambda r: [
        change(r, "single", q.ACCURACY),
        change(r, "batch", q.MEMBER_ERROR),
    ],
    ("cifar10", "2"): lambda r: [
        *(-points(r, e, "none") for e in ("batch", "mc")),
        *(points(r, e, "mixup") for e in ("batch", "mc")),
    ],
    ("cifar10", "4"): lambda r: [
        *(-points(r, e, "none") for e in ("batch", "mc")),
        *(points(r, e, "label-smoothing-0.2") for e in ("batch", "mc")),
    ],
    ("cifar10", "11 ECE"): lambda r: [-points(r, "batch", "augmix"), points(r, "batch", "augmix+mixup")],
    ("cifar10", "17 cECE"): lambda r: [
        -corrupted_gap(r, "deep", "augmix"),
        corrupted_gap(r, "deep", "augmix+camixup"),
    ],
    ("cifar100", "2"): lambda r: [
        *ends([-points(r, e, "none") for e in THREE]),
        *ends([points(r, e, "mixup") - points(r, e, "none") for e in THREE]),
    ],
    ("cifar100", "3"): lambda r: [
        *ends([-points(r, e, "none", q.MEMBER_GAP) for e in THREE]),
        *ends([-points(r, e, "mixup", q.MEMBER_GAP) for e in THREE]),
    ],
    ("cifar100", "11 ECE"): lambda r: [-points(r, e, "augmix") for e in ("batch", "deep")],
}


@pytest.mark.parametrize(("dataset", "key"), CHECKED)
def test_numbers_of_a_reason_are_those_of_the_evidence(regimes, dataset, key):
    written = re.findall(r"\d+(?:\.\d+)?", REASONS[dataset][key])
    for value in CHECKED[dataset, key](regimes[dataset]):
        digits = [len(number.partition(".")[2]) for number in written]
        misses = [abs(value - float(number)) * 10**k for number, k in zip(written, digits, strict=True)]
        assert min(misses) <= 0.55, (value, written)


def test_every_reason_is_of_a_part_that_is_contradicted():
    page = (EVIDENCE.parent / "README.md").read_text().split("## Contradicted here")[1].split("## ")[0]
    reasons = [text for by_key in REASONS.values() for text in by_key.values()]
    assert [text for text in reasons if text not in page] == []
