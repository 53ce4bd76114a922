"""Items beyond the paper, drawn from fabricated runs."""

import statistics
from types import SimpleNamespace

import numpy as np
import pytest

from calmix.errors import InputError
from calmix.metrics import Interval
from calmix.paper.beyond.crossing import _difference, _gap_sentences
from calmix.paper.beyond.cure import CureStudy, Ranking, Remedy
from calmix.paper.items import select_items
from calmix.paper.reproduce import plan_items, render_plan
from calmix.runs.folder import find_runs
from calmix.sources.catalogue import Entry
from calmix.study import quantities as q
from calmix.study.estimates import Estimate
from calmix.study.joint import METRICS
from calmix.study.results import Result, read_results
from tests.fabricate import fabricate, random_predictions

FIELDS = (
    "train_size",
    "margin",
    "momentum",
    "mixing_epochs",
    "members",
    "validation_size",
    "train_on_validation",
)
SHARPNESS = {"none": 1.6, "mixup": 0.5}
CORRUPTED = ("cure", "noise")


def rendered(tmp_path, name, *, seeds=2, scale="smoke"):
    plan = plan_items(select_items([name]), dataset="digits", scale=scale, seeds=seeds)
    runs = []
    for place, recipe in enumerate(plan.runs):
        members = min(recipe.members, 4)
        test = random_predictions(SHARPNESS.get(recipe.mixing, 1.0), seed=place, members=members, size=300)
        fields = {field: getattr(recipe, field) for field in FIELDS}
        options = {"dataset": recipe.dataset, "scale": scale, "seed": recipe.seed, "test": test}
        runs.append(fabricate(tmp_path, recipe.ensemble, recipe.augment, **options, **fields))
    return render_plan(plan, read_results(runs))[name]


def test_crossing_has_a_point_for_each_regime_and_ensemble(tmp_path):
    shown = rendered(tmp_path, "crossing")
    crossings, points = shown.tables
    assert [row[0].text for row in crossings.rows] == ["BatchEnsemble", "MC-dropout", "deep ensemble"]
    assert [row[-1].text for row in crossings.rows] == ["about 8", "about 12", "about 25"]
    assert len(points.rows) == 3 * 3
    assert all("[" in row[6].text for row in points.rows)
    by_error, by_gap = shown.figures
    assert "digits, smoke scale, 2 seeds" in by_error.title
    assert by_gap.name.endswith("crossing-gap")
    (axes,) = by_gap.figure.axes
    gaps = sorted(float(row[4].text) for row in points.rows)
    drawn = sorted(float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() in "os^")
    assert drawn == pytest.approx(gaps, abs=0.006)


def test_the_gap_tells_the_sides_of_the_crossing_apart_or_not():
    def point(gap, low, high):
        interval = SimpleNamespace(low=low, high=high, value=(low + high) / 2)
        effects = {"ece": SimpleNamespace(interval=interval)}
        excess = [0.001, 0.002]
        return SimpleNamespace(
            dataset="cifar10", gap=gap, mixup_gap=gap + 0.08, effects=effects, excess=excess
        )

    harmed, unclear, helped = point(-0.01, 0.02, 0.05), point(-0.07, -0.01, 0.02), point(-0.12, -0.09, -0.05)
    added, sentence, rule = _gap_sentences([harmed, unclear, helped])
    assert "+8.0 to +8.0 points" in added
    assert "raises the ECE of 1 pool, whose gap without mixing is -1.0 or more" in sentence
    assert "lowers that of 1, all on cifar10, whose gap is -12.0 or less" in sentence
    # Half of the 8 points that Mixup adds; the second, over-confident by 7, is raised all the same.
    assert "(2 of 3 pools, noise not counted)" in rule
    assert "the median difference is 0.15 points" in rule
    _, sentence, rule = _gap_sentences([harmed, point(0.03, -0.09, -0.05)])
    assert "does not" in sentence
    assert "(1 of 2 pools, noise not counted)" in rule
    assert len(list(_gap_sentences([harmed, unclear]))) == 1


def test_one_seed_of_an_ensemble_borrows_the_spread_of_the_others_in_its_regime(tmp_path):
    """One method moves by 10 points over its two seeds, one by none, and two have one seed."""
    accuracies = {("batch", "none"): (0.7, 0.8), ("batch", "mixup"): (0.7, 0.7)}
    accuracies |= {("deep", augment): (0.75,) for augment in ("none", "mixup")}
    by_ensemble = {}
    for (ensemble, augment), values in accuracies.items():
        runs = [
            fabricate(tmp_path, ensemble, augment, seed=seed, accuracy=value, confidence=0.6)
            for seed, value in enumerate(values)
        ]
        by_ensemble.setdefault(ensemble, []).append(tuple(read_results(runs)))
    effect = _difference(q.ACCURACY, "deep", by_ensemble)
    assert effect.value == pytest.approx(0)
    assert (effect.seeds, effect.degrees) == (1, 2)
    assert effect.seed_variance == pytest.approx(2 * 0.005 / 2)
    alone = _difference(q.ACCURACY, "deep", {"deep": by_ensemble["deep"]})
    assert alone.degrees == 0


def test_compounding_compares_the_forecast_with_what_was_measured(tmp_path):
    shown = rendered(tmp_path, "compounding")
    (table,) = shown.tables
    misses = [abs(row[-2].value - row[3].value) for row in table.rows]
    (text,) = shown.by_dataset.values()
    assert f"off by at most {100 * max(misses):.2f} points" in text
    added = {row[0].text: 100 * (row[3].value - row[1].value) for row in table.rows}
    assert f"So pooling adds {added['none']:.2f} (none), {added['Mixup']:.2f} (Mixup)" in text
    assert table.columns[:4] == ("method", "g(1)", "g(2)", "g(4)")
    assert table.columns[-1] == "forecast - measured"
    mixup = next(row for row in table.rows if row[0].text == "Mixup")
    assert mixup[3].value > mixup[1].value  # pools are less confident than members
    assert abs(mixup[-1].value) < 0.02


def test_cure_names_a_winner_or_none(tmp_path):
    shown = rendered(tmp_path, "cure")
    (sentence,), (remedies, winners) = shown.by_dataset.values(), shown.tables
    accuracy = {row[0].text: row[1].value for row in remedies.rows}
    ece = {row[0].text: row[2].value for row in remedies.rows}
    best = winners.rows[0][1].text
    to_mixup = {label: value - accuracy["Mixup"] for label, value in accuracy.items()}
    kept = min((label for label in ece if to_mixup[label] >= 0 and label != "Mixup"), key=ece.get)
    for phrase, label in (
        ("ranked rows the lowest is", best),
        ("as accurate as Mixup in the mean it is", kept),
    ):
        row = f"{100 * ece[label]:.2f} %, {label} (accuracy {100 * to_mixup[label]:+.2f} points, 2 seeds)"
        assert f"{phrase} {row}" in sentence
    trained = {label: value for label, value in accuracy.items() if " + " not in label}
    top = max(trained, key=trained.get)
    best = f"Of the {len(trained)} ways to train {top} has the highest accuracy, {100 * accuracy[top]:.2f} %"
    assert best in sentence
    labels = [row[0].text for row in remedies.rows]
    assert "CAMixup, margin 0.02" in labels
    assert "Mixup + joint calibrator" in labels
    assert "Mixup, off for the last tenth" in labels
    assert [row[0].text for row in winners.rows] == ["ECE %", "NLL"]  # nothing was corrupted
    for row in winners.rows:
        assert row[5].text == (row[1].text if row[4].value == 0 else "not decided")
    assert "(ECE, NLL): " in sentence
    often = sentence.partition("(ECE, NLL): ")[2].partition(". ")[0].split("; ")
    assert {*often} <= {*labels}


def ranking(*estimates):
    rows = tuple((Remedy(name), value) for name, value in estimates)
    return Ranking(q.ECE, rows, tuple(rows[0][1] - value for _, value in rows[1:]))


def test_rows_as_good_as_the_best_are_those_whose_interval_holds_zero():
    values = (("RegMixup", 1.0), ("MixupMP", 1.2), ("CAMixup", 1.31), ("Mixup", 7.0))
    some = [(name, Estimate(value, 5, 0.1**2, 20)) for name, value in values]
    ranked = ranking(*some)
    assert [r.name for r in ranked.as_good] == ["RegMixup", "MixupMP"]
    assert ranked.is_known
    assert not ranked.is_sure
    assert ranking(some[0], some[-1]).is_sure
    assert not ranking(*some, ("none", Estimate(1.1, 1))).is_known  # one seed: no interval


def test_what_is_done_to_the_same_networks_is_paired_by_seed(tmp_path):
    """The seeds differ by 10 points; one temperature lowers each ECE by 2 to 3."""
    runs = [
        fabricate(tmp_path, "deep", augment, seed=seed, accuracy=0.9, confidence=confidence, temperature=2.0)
        for augment, shift in (("none", 0.0), ("mixup", 0.01))
        for seed, confidence in enumerate((0.85 - shift, 0.75 - shift, 0.65 - shift))
    ]
    none, mixup = (
        tuple(r for r in read_results(runs) if r.recipe.mixing == mixing) for mixing in ("none", "mixup")
    )
    study = CureStudy({"none": none, "Mixup": mixup})
    scaled, raw, other = Remedy("none", "temperature"), Remedy("none"), Remedy("Mixup")
    values = [[quantity.of(result) for result in none] for quantity in (q.SCALED_ECE, q.ECE)]
    changes = [a - b for a, b in zip(*values, strict=True)]
    paired = study.difference(scaled, raw, q.ECE)
    assert paired.value == pytest.approx(statistics.fmean(changes))
    assert paired.seed_variance == pytest.approx(statistics.variance(changes) / 3)
    assert paired.degrees == 2
    assert study.difference(other, raw, q.ECE).seed_variance > 100 * paired.seed_variance


def test_a_calibrator_that_changes_decisions_has_no_known_noise_with_one_seed(tmp_path, monkeypatch):
    fabricate(tmp_path, "deep", "mixup", accuracy=0.9, confidence=0.8)

    def read():
        return CureStudy({"Mixup": tuple(read_results(find_runs([tmp_path])))})

    study = read()
    joint, scaled, raw = (Remedy("Mixup", kind) for kind in ("joint", "temperature", ""))
    assert study.difference(scaled, raw, q.ACCURACY).interval == Interval(0.0, 0.0, 0.0)  # the same decisions
    scores = np.full(len(METRICS), 0.88)
    monkeypatch.setattr(Result, "joint", scores)
    study = read()
    assert study.difference(joint, raw, q.ACCURACY).value == pytest.approx(-0.02)
    assert study.difference(joint, raw, q.ACCURACY).half_width == np.inf
    assert joint in study.eligible


@pytest.mark.parametrize("changes", [{}, {"epochs": 3}])
def test_sentences_of_the_main_study_need_its_runs(tmp_path, changes):
    (item,) = select_items(["cure"])
    plan = plan_items([item], dataset="cifar10", scale="laptop", seeds=1, changes=changes, absent=True)
    runs = []
    for recipe in plan.runs:
        fields = {field: getattr(recipe, field) for field in (*FIELDS, "epochs")}
        runs.append(fabricate(tmp_path, recipe.ensemble, recipe.augment, scale="laptop", **fields))
    assert [run.recipe for run in runs] == list(plan.runs)

    def told(runs):
        return render_plan(plan, read_results(runs))["cure"].by_dataset["cifar10"]

    assert ("RegMixup and MixupMP" in told(runs)) == (not changes)
    assert "RegMixup and MixupMP" not in told(runs[:3])


def test_validation_size_has_a_curve_for_each_ensemble(tmp_path):
    shown = rendered(tmp_path, "validation-size")
    assert [figure.name.rsplit("-", 1)[1] for figure in shown.figures] == ["batch", "deep"]
    (table,) = shown.tables
    heads = ("method", "ECE %", "Acc %", "gap", "mixed %", "rank correlation", "seeds")
    assert table.columns == heads
    assert len(table.rows) == 2 * (3 + 4)
    assert all("[" in cell.text for row in table.rows for cell in row[1:4])
    assert "with BE and 20 / 40 / 60 images (none " in shown.by_dataset["digits"]


def test_validation_size_tells_from_which_size_on_camixup_is_better_calibrated(tmp_path):
    """All are right in 80 %: the ECE is 20 points with Mixup; 25, 10 and 5 with 20, 40 and 60 images."""
    plan = plan_items(select_items(["validation-size"]), dataset="digits", scale="smoke", seeds=2)
    confidences = {("camixup", 20): 0.55, ("camixup", 40): 0.7, ("camixup", 60): 0.75}
    runs = []
    for recipe in plan.runs:
        confidence = confidences.get((recipe.augment, recipe.validation_size), 0.6)
        options = {"dataset": "digits", "scale": "smoke", "seed": recipe.seed, "confidence": confidence}
        fields = {field: getattr(recipe, field) for field in FIELDS}
        runs.append(fabricate(tmp_path, recipe.ensemble, recipe.augment, **options, **fields))
    text = render_plan(plan, read_results(runs))["validation-size"].by_dataset["digits"]
    assert text.startswith(
        "By number of validation images, CAMixup's ECE is below Mixup's beyond noise from 40 on (BE) and "
        "from 40 on (DE). From the fewest to the most it changes by -20.0 (BE) and -20.0 points (DE)."
    )
    assert "ECE % 25.00, 10.00, 5.00 with BE and 20 / 40 / 60 images (none 20.00, Mixup 20.00)" in text


def test_validation_size_tells_what_training_on_the_validation_images_changes(tmp_path):
    """Of 80 % right only 60 % are left, at the same confidence of 60 %: the ECE falls from 20 points to 0."""
    plan = plan_items(select_items(["validation-size"]), dataset="digits", scale="smoke", seeds=2)
    runs = []
    for recipe in plan.runs:
        options = {"dataset": "digits", "scale": "smoke", "seed": recipe.seed, "confidence": 0.6}
        fields = {field: getattr(recipe, field) for field in FIELDS}
        accuracy = 0.6 if recipe.train_on_validation else 0.8
        runs.append(
            fabricate(tmp_path, recipe.ensemble, recipe.augment, accuracy=accuracy, **options, **fields)
        )
    shown = render_plan(plan, read_results(runs))["validation-size"]
    changes = "-20.0 (BE, none), -20.0 (BE, Mixup), -20.0 (DE, none) and -20.0 points (DE, Mixup)"
    text = shown.by_dataset["digits"]
    assert text.endswith(f"validation images too, accuracy changes by {changes}, ECE by {changes}.")
    assert "Mixup, trained on" not in text
    assert "BE, Mixup, trained on the validation images too" in [row[0].text for row in shown.tables[0].rows]


def test_a_plan_that_trains_on_the_validation_images_still_compares_with_mixup(tmp_path):
    items = select_items(["validation-size"])
    plan = plan_items(items, dataset="digits", scale="smoke", seeds=1, train_on_validation=True)
    runs = []
    for recipe in plan.runs:
        fields = {field: getattr(recipe, field) for field in FIELDS}
        runs.append(
            fabricate(tmp_path, recipe.ensemble, recipe.augment, dataset="digits", scale="smoke", **fields)
        )
    text = render_plan(plan, read_results(runs))["validation-size"].by_dataset["digits"]
    assert "CAMixup's ECE is below Mixup's beyond noise" in text
    assert "validation images too" not in text


def test_noise_needs_two_seeds(tmp_path):
    assert rendered(tmp_path / "one", "noise", seeds=1) == "not run: it needs two seeds or more"
    shown = rendered(tmp_path / "two", "noise")
    (table,) = shown.tables
    spread = table.rows[0][1].value ** 0.5
    assert f"Acc {100 * spread:.2f} with BE" in shown.sentences[0]
    assert table.columns[1:4] == ("BE", "MC", "DE")
    accuracy = table.rows[0]
    assert accuracy[4].value > accuracy[6].value > 0  # more seeds show smaller differences


def test_data_sets_that_are_not_here_are_left_out(monkeypatch):
    monkeypatch.setattr("calmix.paper.reproduce.look_up", lambda name, root: Entry(name, "missing"))
    plan = plan_items(select_items(["crossing"]), dataset="clusters", scale="laptop", seeds=1)
    assert plan.left_out == {"mnist", "fashion-mnist", "cifar10", "cifar100"}
    assert not plan.runs


def test_of_a_data_set_that_is_left_out_finished_runs_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("calmix.paper.reproduce.look_up", lambda name, root: Entry(name, "missing"))
    run = fabricate(tmp_path, "deep", "mixup", scale="laptop")
    items = select_items(["crossing"])
    plan = plan_items(items, dataset="clusters", scale="laptop", seeds=2, runs=[tmp_path])
    assert list(plan.runs) == [run.recipe]
    assert "cifar10" in plan.left_out
    for datasets in (["clusters", "cifar10"], ["cifar10", "clusters"]):
        with pytest.raises(InputError, match="cifar10 is missing"):
            plan_items(items, dataset=datasets, scale="laptop", seeds=2, runs=[tmp_path])


def test_the_mixing_ends_a_tenth_before_training_does():
    plan = plan_items(select_items(["cure"]), dataset="digits", scale="laptop", seeds=1)
    epochs = {recipe.mixing_epochs for recipe in plan.runs}
    assert epochs == {None, 54, 40}
    shorter = plan_items(
        select_items(["cure"]), dataset="digits", scale="laptop", seeds=1, changes={"epochs": 10}
    )
    assert {recipe.mixing_epochs for recipe in shorter.runs} == {None, 9, 7}


@pytest.mark.parametrize("kept", [True, False])
def test_who_keeps_the_validation_images(kept):
    plan = plan_items(
        select_items(["camixup"]), dataset="digits", scale="smoke", seeds=1, train_on_validation=kept
    )
    by_augment = {recipe.augment: recipe.train_on_validation for recipe in plan.runs}
    assert by_augment == {"none": kept, "mixup": kept, "camixup": False}
    calibrating = plan_items(
        select_items(["temperature"]), dataset="digits", scale="smoke", seeds=1, train_on_validation=kept
    )
    assert not any(recipe.train_on_validation for recipe in calibrating.runs)
