import pytest

from calmix.metrics import Interval
from calmix.paper.judging import verdict


@pytest.mark.parametrize(
    ("ends", "side", "margin", "word"),
    [
        ((1, 0.5, 1.5), "above", 0, "shown"),
        ((1, -0.5, 1.5), "above", 0, "consistent"),
        ((-1, -1.5, 0.5), "above", 0, "undecided"),
        ((-1, -1.5, -0.5), "above", 0, "contradicted"),
        ((1, 0.5, 1.5), "below", 0, "contradicted"),
        ((-1, -1.5, -0.5), "below", 0, "shown"),
        ((0.3, -0.1, 0.7), "below", 0, "undecided"),
        ((0.3, 0.1, 0.5), "below", 0.4, "consistent"),
        ((0.3, 0.25, 0.35), "below", 0.4, "shown"),
        ((0.6, 0.5, 0.7), "below", 0.4, "contradicted"),
        ((0.6, 0.5, 0.7), "above", 0.4, "shown"),
    ],
)
def test_the_word_for_an_interval(ends, side, margin, word):
    assert verdict(Interval(*ends), side, margin) == word
