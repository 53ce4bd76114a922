import matplotlib as mpl
import pytest
from matplotlib.lines import Line2D

from calmix.report.style import (
    BLUE,
    COLOURS,
    GREY,
    add_legend,
    colour,
    figure,
    series_colours,
    series_label,
    styled,
)
from calmix.runs.presets import preset
from calmix.study.results import AUGMENT_ORDER, Group


def group(augment, differs="", **fields):
    return Group(preset("cifar10", "deep", augment).replace(**fields), (), differs)


def test_every_usual_augmentation_has_a_colour_of_its_own():
    shades = [colour(augment) for augment in AUGMENT_ORDER]
    assert len(set(shades)) == len(shades) == len(COLOURS)


def test_smoothing_alone_is_grey_and_other_combinations_are_none_of_the_usual_colours():
    assert colour("label-smoothing-0.3") == GREY
    assert colour("augmix+cutmix") not in COLOURS.values()


def test_recipes_of_one_augmentation_have_shades_of_its_colour():
    groups = [group("mixup", f"alpha {alpha:g}", alpha=alpha) for alpha in (0.2, 0.5, 1)]
    shades = series_colours([*groups, group("none")])
    assert shades["Mixup, alpha 0.2"] == BLUE
    assert shades["none"] == COLOURS["none"]
    assert len(set(shades.values())) == len(shades) == 4
    assert series_label(groups[1]) == "Mixup, alpha 0.5"
    assert series_colours(groups, groups[1:2]) == {"Mixup, alpha 0.5": shades["Mixup, alpha 0.5"]}


def test_the_callers_settings_stay():
    before = dict(mpl.rcParams)
    with styled():
        assert not mpl.rcParams["axes.spines.top"]
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("width", [3.6, 9.0])
def test_titles_and_legends_are_as_wide_as_the_figure_at_most(width):
    with styled():
        made, _ = figure(width, 3, title="a title of the data set, its scale and its seeds " * 4)
        labels = [f"{k} $an$ augmentation, with a value of a field that is long {k}" for k in range(5)]
        add_legend(made, [Line2D([], [], label=label) for label in labels])
        made.draw_without_rendering()
        box = made.bbox
        for part in (made.legends[0], made._suptitle):
            extent = part.get_window_extent()
            assert box.x0 <= extent.x0
            assert extent.x1 <= box.x1
        assert not made.legends[0].get_window_extent().overlaps(made.axes[0].get_tightbbox())
