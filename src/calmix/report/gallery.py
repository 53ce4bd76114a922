"""The figures that runs have data for, each with its words; here alone results read their predictions."""

from collections.abc import Iterator, Sequence

import numpy as np

from calmix.report.figures import CaptionedFigure, bars, mixed_classes, severity_boxes, training_curves
from calmix.report.reliability import Curve, reliability_figure
from calmix.report.style import colour, series_colours, series_label
from calmix.runs.recipe import ENSEMBLES
from calmix.study.quantities import ECE, ERROR, MEMBER_ECE, MEMBER_ERROR
from calmix.study.results import Group, Results

RELIABILITY = (
    "Above 0 accuracy exceeds confidence, below 0 confidence exceeds accuracy. Underneath: the share of "
    "examples in each bin of confidence."
)
BARS = "Mean over seeds with their standard deviation; a dot is a run."
CURVES = 6  # in one reliability diagram
CURVES_WITH_MEMBERS = 3  # with more of them the thin lines of members are left out


def standard_figures(results: Results) -> Iterator[CaptionedFigure]:
    """Every figure that the runs have data for, data set by data set and ensemble by ensemble."""
    groups = results.groups()
    for dataset in dict.fromkeys(group.recipe.dataset for group in groups):
        of_dataset = [group for group in groups if group.recipe.dataset == dataset]
        if any(group.summaries for group in of_dataset):
            yield _bars(of_dataset, dataset)
        for ensemble in dict.fromkeys(group.recipe.ensemble for group in of_dataset):
            some = [group for group in of_dataset if group.recipe.ensemble == ensemble]
            where, file = f"{ENSEMBLES[ensemble].long}, {dataset}", f"{dataset}-{ensemble}"
            yield from _reliability(some, where, file)
            yield from _severity(some, where, file)
            yield from _training(some, where, file)
            yield from _mixed(some, where, file)


def figure_count(results: Results) -> int:
    """About how many figures `standard_figures` gives, known before any is drawn."""
    groups = results.groups()
    datasets = {group.recipe.dataset for group in groups}
    pairs = {(group.recipe.dataset, group.recipe.ensemble) for group in groups}
    mixed = sum(any(result.mixed is not None for result in group.results) for group in groups)
    return len(datasets) + 3 * len(pairs) + mixed


def subject(groups: Sequence[Group], where: str = "") -> str:
    """Data set, scale and number of seeds, for the title of a figure; `where` names ensemble and data set."""
    recipes = [result.recipe for group in groups for result in group.results]
    datasets = where or " and ".join(dict.fromkeys(recipe.dataset for recipe in recipes))
    scales = ", ".join(dict.fromkeys(recipe.scale for recipe in recipes))
    seeds = len({recipe.seed for recipe in recipes})
    return f"{datasets}, {scales} scale, {seeds} seed{'s' * (seeds != 1)}"


def _bars(groups: Sequence[Group], dataset: str) -> CaptionedFigure:
    pooled = any(group.recipe.members > 1 for group in groups)
    diamonds = " A diamond is the mean of the members alone." if pooled else ""
    return CaptionedFigure(
        name=f"bars-{dataset}",
        title=f"Error and ECE: {dataset}",
        caption=f"{BARS if any(len(group.summaries) > 1 for group in groups) else 'One run each.'}{diamonds}",
        alt=f"Bars of test error and ECE on {dataset}. {_numbers(groups)}",
        figure=bars(
            groups, (ERROR, ECE), (MEMBER_ERROR, MEMBER_ECE) if pooled else (), title=subject(groups)
        ),
    )


def _numbers(groups: Sequence[Group]) -> str:
    texts = []
    for group in groups:
        values = {q.title: q.values(group.results) for q in (ERROR, ECE)}
        if all(values.values()):
            numbers = ", ".join(f"{title} {100 * np.mean(some):.1f} %" for title, some in values.items())
            texts.append(f"{group.title}: {numbers}")
    return "; ".join(texts) + "."


def _reliability(groups: Sequence[Group], where: str, file: str) -> Iterator[CaptionedFigure]:
    """The curves of groups with predictions, a few in one diagram."""
    shades = series_colours(groups)
    predictions = {
        series_label(group): some
        for group in groups
        if (some := [result.top_labels for result in group.results if result.top_labels is not None])
    }
    labels = list(predictions)
    for part, start in enumerate(range(0, len(labels), CURVES), start=1):
        names = labels[start : start + CURVES]
        members = len(names) <= CURVES_WITH_MEMBERS
        curves = [Curve(name, predictions[name], shades[name], members) for name in names]
        yield CaptionedFigure(
            name=f"reliability-{file}" + (f"-{part}" if len(labels) > CURVES else ""),
            title=f"Reliability: {where}",
            caption=RELIABILITY,
            alt=f"Lines of accuracy minus confidence against confidence: {'; '.join(names)}.",
            figure=reliability_figure({"": curves}, title=subject(groups, where)),
        )


def _severity(groups: Sequence[Group], where: str, file: str) -> Iterator[CaptionedFigure]:
    if any(summary.corrupted for group in groups for summary in group.summaries):
        caption = (
            "Boxes over types of corruption and seeds, the line is the median; dots: the clean test set."
        )
        alt = "Boxes of error and ECE at each severity of corruption, one for each augmentation."
        title = f"Under corruption: {where}"
        yield CaptionedFigure(
            f"corruption-{file}", title, caption, alt, severity_boxes(groups, title=subject(groups, where))
        )


def _training(groups: Sequence[Group], where: str, file: str) -> Iterator[CaptionedFigure]:
    if any(result.history for group in groups for result in group.results):
        caption = "On validation data after every epoch; bands span seeds and independent members."
        alt = "Lines of accuracy, ECE and gap against epochs, one for each augmentation."
        drawing = training_curves(groups, title=subject(groups, where))
        yield CaptionedFigure(f"training-{file}", f"Training: {where}", caption, alt, drawing)


def _mixed(groups: Sequence[Group], where: str, file: str) -> Iterator[CaptionedFigure]:
    """For each group whose runs chose the classes to mix: members of all seeds together."""
    for place, group in enumerate(groups):
        results = [result for result in group.results if result.mixed is not None]
        if not results:
            continue
        share = np.concatenate([result.mixed for result in results if result.mixed is not None])
        accuracies = [result.class_accuracy for result in results]
        known = [a for a in accuracies if a is not None and len(a) == share.shape[1]]
        accuracy = np.mean(known, axis=0) if known else None
        names = results[0].group_names(share.shape[1])
        mean = 100 * share.mean(0)
        most, least = int(mean.argmax()), int(mean.argmin())
        yield CaptionedFigure(
            name=f"mixed-{file}-{group.augment}" + (f"-{place}" if group.differs else ""),
            title=f"Mixed classes: {series_label(group)}, {where}",
            caption="How often each class was mixed; a dot is a member, a line their mean.",
            alt=f"Dots for each class: most often mixed is {names[most]} ({mean[most]:.0f} % of epochs), "
            f"least often {names[least]} ({mean[least]:.0f} %).",
            figure=mixed_classes(
                share, accuracy, names, colour=colour(group.augment), title=subject([group], where)
            ),
        )
