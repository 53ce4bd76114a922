import getpass
import platform
from pathlib import Path

from benchmarks import LONG, NAMES
from benchmarks.page import PAGE, Section, summary, table, update
from benchmarks.timing import Row

KEPT = Row("speed", 3.0, "x", at_least=2)
MISSED = Row("  time | all", 3.0, "s", at_most=2, before=4)


def test_table_has_earlier_values_only_where_there_are_any():
    assert table([KEPT]).splitlines() == [
        "| measured | value | unit | limit |  |",
        "| --- | ---: | --- | --- | --- |",
        "| speed | 3 | x | at least 2 | ok |",
    ]
    assert table([KEPT, MISSED]).splitlines()[2:] == [
        "| speed | 3 | x | at least 2 | ok |  |",
        r"| &emsp;time \| all | 3 | s | at most 2 | **exceeded** | 4 |",
    ]


def test_section_is_ok_only_within_its_limits_and_complete():
    assert Section("metrics", [KEPT]).ok
    assert not Section("metrics", [KEPT, MISSED]).ok
    assert not Section("metrics", [KEPT], failure="out of time").ok


def test_only_the_measured_sections_are_replaced(tmp_path):
    page = tmp_path / "benchmarks.md"
    update([Section("augment", [Row("first", 1.0, "s")]), Section("metrics", [KEPT])], page)
    old = page.read_text()
    assert old.index("## metrics") < old.index("## augment")  # in the order of the benchmarks
    update([Section("metrics", [Row("second", 2.0, "s"), "More text."])], page)
    new = page.read_text()
    assert "| speed |" in old
    assert "| speed |" not in new
    assert "| second | 2 | s |" in new
    assert "More text." in new
    assert new[new.index("## augment") :] == old[old.index("## augment") :]


def test_page_counts_limits_and_names_what_is_missed(tmp_path):
    text = summary([Section("metrics", [KEPT, MISSED], failure="out of time").markdown()])
    assert text.splitlines() == [
        "Limits kept: 1; exceeded or not complete: 2.",
        "",
        "- metrics: not complete",
        r"- metrics: speed, time \| all: 3 s (at most 2)",
    ]


def test_page_has_no_name_of_the_machine_or_its_user(tmp_path):
    page = tmp_path / "benchmarks.md"
    update([Section("metrics", [KEPT])], page)
    text = page.read_text()
    for private in (platform.node(), f"/{getpass.getuser()}/", str(tmp_path), str(Path.cwd())):
        assert private not in text


def test_every_benchmark_says_what_it_measures_and_the_site_shows_the_page():
    for name in (*NAMES, *LONG):
        assert Section(name).description
    assert f"benchmarks: {PAGE.name}".lower() in (PAGE.parent.parent / "mkdocs.yml").read_text().lower()
