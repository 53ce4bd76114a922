import json

import pytest

from calmix.paper import quantities as q
from calmix.paper.study import Study
from calmix.paper.tables import Table, comparison
from tests.paper.fabricate import fabricate


@pytest.fixture
def study(tmp_path):
    """BE on three seeds whose accuracies have the mean 90 and the deviation 2; its confidence is 0.85."""
    runs = [
        fabricate(tmp_path, "batch", "mixup", seed=s, accuracy=a, confidence=0.85, corrupted=(0.6, 0.5))
        for s, a in enumerate((0.88, 0.90, 0.92))
    ]
    runs.append(fabricate(tmp_path, "deep", "mixup", accuracy=0.95, confidence=0.99))
    return Study.of(runs, "cifar10")


def test_the_papers_number_stands_beside_mean_and_spread(study):
    methods = (("batch", "mixup"), ("deep", "mixup"), ("mc", "mixup"))
    table = comparison("caption", study, methods, (q.ACCURACY, q.ECE, q.GAP, q.CECE))
    assert table.columns == ("method", "accuracy %", "paper", "ECE %", "paper", "gap", "cECE %", "paper")
    batch, deep, mc = table.rows
    assert batch[:3] == ("BE, Mixup", "90.00 ± 2.00", "96.98 ± 0.08, outside")
    assert batch[3:] == (
        "5.00 ± 2.00",
        "6.40 ± 0.40, inside",
        "+5.00 ± 2.00",
        "10.00 ± 0.00",
        "9.30 ± 0.30, outside",
    )
    assert deep == ("DE, Mixup", "95.00", "97.11", "4.00", "6.15", "-4.00", "-", "8.00")
    assert mc == ("MC, Mixup", *["-"] * 7)


def test_a_column_without_any_number_of_the_paper_has_none_beside_it(study):
    table = comparison("caption", study, [("batch", "regmixup")], (q.ACCURACY, q.ECE))
    assert table.columns == ("method", "accuracy %", "ECE %")


def test_numbers_are_found_where_they_stand(study):
    value = lambda quantity: quantity.values(study, ("deep", "mixup"))  # noqa: E731
    assert value(q.ERROR) == pytest.approx([5.0])
    assert value(q.MEMBER_ECE) == pytest.approx([4.0], abs=1e-4)
    assert value(q.SECONDS) == [2.5]
    assert value(q.CA) == value(q.SCALED_CECE) == []
    assert q.CERROR.values(study, ("batch", "mixup")) == pytest.approx([40.0] * 3)


def test_what_the_paper_says():
    assert q.ECE.published("cifar10", "mc", "label-smoothing-0.2") == (15.6, None)
    assert q.ERROR.published("cifar100", "deep", "none") == (pytest.approx(17.3), None)
    assert q.ECE.published("folder", "batch", "camixup") == (1.5, None)
    assert q.CSKCE.published("cifar10", "deep", "camixup") == (0.0032, None)
    assert q.SKCE.published("cifar100", "deep", "camixup") is None


def test_markdown():
    assert Table("Caption", ("method", "ECE %"), (("BE, none", "1.80"),)).markdown().splitlines() == [
        "*Caption*",
        "",
        "| method | ECE % |",
        "| --- | ---: |",
        "| BE, none | 1.80 |",
    ]


def test_other_work_on_the_machine_counts_little(tmp_path):
    run = fabricate(tmp_path, "deep", "none")
    lines = [
        {"member": k, "epoch": e, "seconds": 100.0 if e == 2 else 1.0 + k} for k in (0, 1) for e in (1, 2, 3)
    ]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert q.SECONDS.values(Study.of([run], "cifar10"), ("deep", "none")) == [3 * 1.0 + 3 * 2.0]
