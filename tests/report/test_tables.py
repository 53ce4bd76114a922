import re

import pytest

from calmix.report.results import read_results
from calmix.report.tables import means_table, runs_table
from tests.report.fabricate import fabricate


def lines(table):
    return [re.findall(r"<td.*?</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]]


@pytest.fixture
def results(tmp_path):
    return read_results([fabricate(tmp_path, augment=a, seed=s) for a in ("none", "mixup") for s in (0, 1)])


def test_a_line_for_each_run_with_its_numbers_and_the_paper(results):
    found = lines(runs_table(results))
    assert len(found) == 4
    words = [re.sub("<.*?>", "", cell) for cell in found[0]]
    assert words[:4] == ["cifar10", "batch", "none", "0"]
    assert words[4] == f"{100 * results[0].clean('accuracy'):.2f} paper 96.22 ± 0.07"
    assert words[5] == f"{100 * results[0].clean('ece'):.2f} paper 1.8 ± 0.2"


def test_the_best_of_each_data_set_is_marked(results, tmp_path):
    alone = read_results([fabricate(tmp_path / "other", dataset="cifar100")])
    found = lines(runs_table([*results, *alone]))
    eces = [result.clean("ece") for result in results]
    marked = ["best" in row[5] for row in found]
    assert marked == [value == min(eces) for value in eces] + [False]
    accuracies = [result.clean("accuracy") for result in results]
    assert "best" in found[accuracies.index(max(accuracies))][4]


def test_means_over_seeds(results):
    found = lines(means_table(results))
    assert len(found) == 2
    mean = 50 * (results[0].clean("ece") + results[1].clean("ece"))
    assert f'data-value="{mean:.6f}'[:-2] in found[0][5]
    assert "±" in found[0][5]
    assert means_table(results[:1]) == ""


def test_columns_that_nobody_has_are_left_out(tmp_path):
    without = runs_table(read_results([fabricate(tmp_path, corrupted=False)]))
    assert "cECE" not in without
    assert "ECE %" in without


def test_a_run_without_numbers_keeps_its_line(results):
    results[0].run.summary.unlink()
    again = read_results([result.run for result in results])
    found = lines(runs_table(again))
    assert len(found) == 4
    assert 'data-value=""' in found[0][5]
