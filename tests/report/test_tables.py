import dataclasses
import io

import pytest
from rich.console import Console

from calmix.errors import InputError
from calmix.paper.numbers import published
from calmix.report.tables import Cell, Table, comparison, runs_table
from calmix.study import quantities as q
from calmix.study.results import Results, read_result, read_results
from tests.fabricate import fabricate


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """BE on three seeds whose accuracies have the mean 90 and the deviation 2; its confidence is 0.85."""
    out = tmp_path_factory.mktemp("runs")
    runs = [
        fabricate(out, "batch", "mixup", seed=s, accuracy=a, confidence=0.85, corrupted=(0.6, 0.5))
        for s, a in enumerate((0.88, 0.90, 0.92))
    ]
    runs.append(fabricate(out, "deep", "mixup", accuracy=0.95, confidence=0.99))
    return read_results(runs)


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def column(table, name):
    return [row[table.columns.index(name)] for row in table.rows]


def test_the_papers_number_stands_beside_mean_and_spread(results):
    quantities = (q.ACCURACY, q.ECE, q.GAP, q.CORRUPTED_ECE)
    table = comparison("caption", results.groups(), quantities, published=published)
    assert table.columns == ("method", "Acc %", "paper", "ECE %", "paper", "gap", "cECE %", "paper")
    assert texts(table) == [
        [
            *("BE, Mixup", "90.00 ± 2.00", "96.98 ± 0.08, outside", "5.00 ± 2.00", "6.40 ± 0.40, inside"),
            *("+5.00 ± 2.00", "10.00 ± 0.00", "9.30 ± 0.30, outside"),
        ],
        ["DE, Mixup", "95.00", "97.11", "4.00", "6.15", "-4.00", "-", "8.00"],
    ]
    assert table.tooltips["gap"] == q.GAP.description


def test_a_column_without_any_published_number_has_none_beside_it(results):
    assert comparison("", results.groups(), (q.GAP,), published=published).columns == ("method", "gap")
    assert comparison("", results.groups(), (q.ECE,)).columns == ("method", "ECE %")


def test_first_columns_are_chosen_and_count_runs(results):
    table = comparison("", results.groups(), (), first=("data set", "ensemble", "augmentation", "runs"))
    assert texts(table) == [
        ["cifar10", "BatchEnsemble", "Mixup", "3"],
        ["cifar10", "deep ensemble", "Mixup", "1"],
    ]
    with pytest.raises(InputError, match="ensemble"):
        comparison("", results.groups(), (), first=("ensembles",))


def test_recipes_that_differ_in_something_else_say_in_what(tmp_path):
    runs = [fabricate(tmp_path, "deep", "mixup", alpha=alpha) for alpha in (0.2, 1.0)]
    table = comparison("", read_results(runs).groups(), ())
    assert table.columns == ("method", "recipe")
    assert sorted(texts(table)) == [["DE, Mixup", "alpha 0.2"], ["DE, Mixup", "alpha 1"]]


def test_the_best_of_each_data_set_is_marked(results, tmp_path):
    other = [read_result(fabricate(tmp_path, "deep", "mixup", dataset="cifar100", accuracy=0.99))]
    table = comparison(
        "", Results([*results, *other]).groups(), (q.ACCURACY, q.ECE, q.GAP, q.CORRUPTED_ECE, q.TEMPERATURE)
    )
    marked = {name: [cell.best for cell in column(table, name)] for name in table.columns[1:]}
    assert marked == {
        "Acc %": [False, True, False],  # the highest; the only row of a data set has no rival
        "ECE %": [False, True, False],
        "gap": [False, True, False],  # nearest to 0: -4 against +5
        "cECE %": [False, False, False],
        "T": [False, False, False],  # no temperature is better than another
    }


def test_a_row_for_each_run_leads_to_its_recipe(results):
    table = runs_table(results)
    assert table.columns[:4] == ("data set", "ensemble", "augmentation", "seed")
    assert [cell.link for cell in column(table, "seed")] == [f"#run-{k}" for k in range(4)]
    assert [cell.text for cell in column(table, "Acc %")] == ["88.00", "90.00", "92.00", "95.00"]
    assert "paper" not in table.columns
    assert "paper" in runs_table(results, published=published).columns


def test_quantities_that_no_run_has_are_left_out_and_a_run_without_numbers_keeps_its_row(results):
    unfinished = dataclasses.replace(results[0], summary=None)
    table = runs_table(Results([unfinished, results[3]]))
    assert "cECE %" not in table.columns
    assert [(cell.text, cell.value) for cell in column(table, "ECE %")] == [
        ("-", None),
        ("4.00", pytest.approx(0.04)),
    ]


def test_markdown_has_bold_bests_and_escapes_what_would_break_it():
    cells = (Cell("a|b\n<i>"), Cell("1.80", 0.018, best=True))
    assert Table("Caption", ("method", "ECE %"), (cells,)).markdown().splitlines() == [
        "*Caption*",
        "",
        "| method | ECE % |",
        "| --- | ---: |",
        r"| a\|b<br>&lt;i> | **1.80** |",
    ]


def test_a_terminal_shows_text_as_it_is_and_wraps_words_but_no_numbers():
    cells = (Cell("[red]words[/red] " * 8), Cell("12.00 ± 1.00, inside", 0.12))
    console = Console(width=50, record=True, file=io.StringIO())
    console.print(Table("[b]caption", ("method", "ECE %"), (cells,)).rich())
    text = console.export_text()
    assert "[b]caption" in text
    assert "[red]words[/red]" in text
    assert "12.00 ± 1.00, inside" in text
