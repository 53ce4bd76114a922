import numpy as np
import pytest
from matplotlib.patches import Rectangle

from calmix import InputError
from calmix.paper.claims import judge_claims
from calmix.paper.claims_figures import COLOURS, forest_figure, matrix_figure, short_name
from calmix.paper.judging import ClaimResult, Part

MNIST = ("batch", "mnist", "clean", "ECE: Mixup - none")
PARTS = (
    Part(*MNIST, 0.07, (0.06, 0.08), 0.05, 5, "shown", regime="laptop"),
    Part("deep", *MNIST[1:], -0.01, (-0.02, 0.01), None, 1, "undecided", True, regime="laptop"),
    Part("deep", "cifar10", "clean", "ECE: Mixup - none", missing="needs DE, Mixup"),
)
CLAIM = ClaimResult("2", "Mixup worsens the pool's ECE", PARTS)


def test_the_matrix_has_a_square_for_each_part():
    drawing = matrix_figure([CLAIM, ClaimResult("3", "another", PARTS[:1] * 2)])
    assert drawing.get_suptitle() == "laptop, 1 to 5 seeds"  # of the parts that were run
    (axes,) = drawing.axes
    squares = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert len(squares) == 5
    assert [label.get_text() for label in axes.get_xticklabels()] == ["BE", "DE", "DE"]
    assert [text.get_text() for text in axes.texts] == ["mnist", "cifar10"]  # most parts that were run first
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["2  Mixup worsens the pool's ECE", "3  another"]
    shades = [tuple(round(255 * c) for c in square.get_facecolor()[:3]) for square in squares[:3]]
    assert shades == [
        tuple(int(COLOURS[word][i : i + 2], 16) for i in (1, 3, 5))
        for word in ("shown", "undecided", "not run")
    ]
    assert [bool(square.get_hatch()) for square in squares[:3]] == [False, True, False]  # one seed
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == [*COLOURS, "one seed"]


def test_the_name_of_each_claim_of_the_paper_fits_the_matrix():
    names = [short_name(claim) for claim in judge_claims([])]
    assert len(names) == len(set(names)) == 20
    assert not [name for name in names if name.endswith("...")]
    assert short_name(ClaimResult("9", "so long a sentence " * 9, ())).endswith(" ...")


def test_the_forest_has_a_row_for_each_part_that_was_run():
    (axes,) = forest_figure(CLAIM, title="claim 2").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "mnist, BE: ECE: Mixup - none",
        "mnist, DE: ECE: Mixup - none",
    ]
    intervals = [line.get_xdata() for line in axes.get_lines() if line.get_linewidth() == 2]
    assert [list(ends) for ends in intervals] == [[6, 8], [-2, 1]]
    diamonds = [line for line in axes.get_lines() if line.get_marker() == "D"]
    assert [line.get_xdata()[0] for line in diamonds] == [5]


def test_a_claim_that_was_not_run_has_no_forest():
    with pytest.raises(InputError, match="claim 2 has no part that was run"):
        forest_figure(ClaimResult("2", "text", PARTS[2:]))


def test_what_has_another_unit_has_a_panel_of_its_own():
    kernel = Part(
        "deep", "mnist", "clean", "SKCE", 1e-4, (-np.inf, np.inf), None, 1, "consistent", unit="SKCE"
    )
    margin = Part(*MNIST, -0.001, (-0.002, 0.001), None, 5, "shown", limit=-0.0022)
    points, other = forest_figure(ClaimResult("15", "text", (PARTS[0], margin, kernel))).axes
    assert [axes.get_xlabel() for axes in (points, other)] == ["points", "SKCE"]
    (tick,) = [line for line in points.get_lines() if line.get_marker() == "|"]
    assert tick.get_xdata()[0] == pytest.approx(-0.22)
    (dot,) = [line for line in other.get_lines() if line.get_marker() == "o"]
    assert dot.get_markerfacecolor() == "none"  # no interval is known
    assert dot.get_xdata()[0] == 1e-4
