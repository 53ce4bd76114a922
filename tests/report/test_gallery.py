import numpy as np

from calmix.report.gallery import figure_count, standard_figures
from calmix.runs import folder
from calmix.runs.presets import preset
from calmix.study.results import read_results
from tests.fabricate import fabricate

MIXED = np.random.default_rng(0).integers(0, 2, (5, 2, 4))


def test_runs_have_every_figure_that_they_have_data_for(tmp_path):
    runs = [
        fabricate(tmp_path, "batch", "none", seed=0, corrupted=(0.6, 0.7)),
        fabricate(tmp_path, "batch", "camixup", mixed=MIXED, classes=["<a>", "b", "c", "d"]),
        fabricate(tmp_path, "single", "none", dataset="cifar100"),
    ]
    figures = list(standard_figures(read_results(runs)))
    assert [figure.name for figure in figures] == [
        "bars-cifar10",
        "reliability-cifar10-batch",
        "corruption-cifar10-batch",
        "training-cifar10-batch",
        "mixed-cifar10-batch-camixup",
        "bars-cifar100",
        "reliability-cifar100-single",
        "training-cifar100-single",
    ]
    assert all(figure.title and figure.caption and figure.alt for figure in figures)
    assert "BE, none: error 20.0 %, ECE 0.0 %; BE, CAMixup" in figures[0].alt
    share = 100 * MIXED.mean((0, 1))
    assert f"({share.max():.0f} % of epochs)" in figures[4].alt


def test_seeds_are_drawn_together_and_recipes_that_differ_apart(tmp_path):
    runs = [fabricate(tmp_path, "deep", "camixup", seed=s, mixed=MIXED) for s in (0, 1)]
    runs += [fabricate(tmp_path, "deep", "camixup", alpha=0.5, mixed=MIXED)]
    figures = {figure.name: figure for figure in standard_figures(read_results(runs))}
    mixed = [figure for name, figure in figures.items() if name.startswith("mixed")]
    assert len(mixed) == 2
    dots = [len(figure.figure.axes[0].get_lines()[0].get_xdata()) for figure in mixed]
    assert sorted(dots) == [4, 8]  # members of all seeds
    assert sorted(figure.title for figure in mixed) == [
        "Mixed classes: CAMixup, alpha 0.5, deep ensemble, cifar10",
        "Mixed classes: CAMixup, alpha 1, deep ensemble, cifar10",
    ]


def test_many_curves_have_several_diagrams(tmp_path):
    names = ("none", "mixup", "cutmix", "augmix", "regmixup", "mixupmp", "forgetting")
    results = read_results([fabricate(tmp_path, "batch", augment) for augment in names])
    figures = [f for f in standard_figures(results) if f.name.startswith("reliability")]
    assert [f.name for f in figures] == ["reliability-cifar10-batch-1", "reliability-cifar10-batch-2"]


def test_a_run_that_has_just_begun_has_no_figure(tmp_path):
    results = read_results([folder.create(preset("digits", "deep"), tmp_path)])
    assert list(standard_figures(results)) == []


def test_the_number_of_figures_is_known_before_they_are_drawn(tmp_path):
    runs = [fabricate(tmp_path, "batch", a, mixed=MIXED, corrupted=(0.6, 0.7)) for a in ("none", "camixup")]
    results = read_results(runs)
    assert figure_count(results) == len(list(standard_figures(results)))
