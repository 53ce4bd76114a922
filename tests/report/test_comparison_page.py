import pytest

from calmix.auditing.compare import compare
from calmix.predictions import Predictions
from calmix.report.comparison_page import comparison_page, judge_side, sentence
from tests.auditing.ensembles import scaled, signals
from tests.report.markup import check

EVIL = "<script>document.title='run'</script>"


@pytest.fixture(scope="module")
def pair():
    a = signals(members=1, examples=500)
    a = Predictions(a.logits, a.labels, classes=[EVIL, "b", "c", "d"], groups={EVIL: a.labels.numpy() % 2})
    return a, scaled(a, 4)


@pytest.fixture(scope="module")
def comparison(pair):
    return compare(*pair, names=(EVIL, "second"), resamples=50)


def test_both_sides_have_a_verdict_and_a_diagram(pair, comparison):
    sides = [judge_side(name, each) for name, each in zip(comparison.names, pair, strict=True)]
    assert sides[1].verdict == "over-confident"
    inputs = [{"name": EVIL, "sha256": "cd" * 32}]
    text = check(comparison_page(comparison, sides, date="2026", inputs=inputs))
    assert EVIL not in text
    assert text.count('class="verdict ') == 2
    assert text.count('role="img"') == 2
    for words in (
        "cd" * 32,
        'id="rows-0-head">By class',
        'id="rows-1-head">By group: &lt;script',
        "comparison.csv",
    ):
        assert words in text


def test_the_sentence_names_the_better_side(pair, comparison):
    assert "a is better in" in sentence(comparison)
    assert "NLL" in sentence(comparison)
    same = compare(pair[0], pair[0], resamples=50)
    assert sentence(same) == "In no metric is one of the two better for sure."
