"""The figures of a set of runs, each with its name, title and the text that stands for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from matplotlib.figure import Figure

from calmix.report.figures import corruption_curves, error_and_ece_bars, mixup_counts, training_curves
from calmix.report.reliability import reliability_diagram
from calmix.report.results import ENSEMBLES, Result, by_key

IN_ONE = 6  # augmentations in one reliability diagram
MEMBERS_UP_TO = 3  # with more of them the members' thin lines are left out


@dataclass(frozen=True)
class Plate:
    """A figure. `name` is its file's, `caption` explains it, `alt` tells it to who cannot see it."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure


def draw_plates(results: Sequence[Result]) -> Iterator[Plate]:
    """Every figure that the runs have data for, data set by data set."""
    for dataset in dict.fromkeys(result.dataset for result in results):
        of_dataset = [result for result in results if result.dataset == dataset]
        if any(result.clean("ece") is not None for result in of_dataset):
            yield Plate(
                name=f"bars-{dataset}",
                title=f"Error and ECE on {dataset}",
                caption="Mean over seeds with their standard deviation; a dot is a run.",
                alt=f"Bars of test error and ECE on {dataset}. " + _in_words(of_dataset),
                figure=error_and_ece_bars(of_dataset),
            )
        for ensemble in dict.fromkeys(result.recipe.ensemble for result in of_dataset):
            yield from _of_ensemble([r for r in of_dataset if r.recipe.ensemble == ensemble])


def _of_ensemble(results: Sequence[Result]) -> Iterator[Plate]:
    dataset, ensemble, _ = results[0].key
    where, file = f"{ENSEMBLES[ensemble]}, {dataset}", f"{dataset}-{ensemble}"
    yield from _reliability(results, where, file)
    if any(result.by_severity("ece") for result in results):
        yield Plate(
            name=f"corruption-{file}",
            title=f"Under corruption: {where}",
            caption="Mean over types of corruption; severity 0 is the clean test set. Bands span the seeds.",
            alt="Lines of error and ECE against the severity of corruption, one for each augmentation.",
            figure=corruption_curves(results),
        )
    if any(result.history for result in results):
        yield Plate(
            name=f"training-{file}",
            title=f"Training: {where}",
            caption="On validation data after every epoch; bands span seeds and members.",
            alt="Lines of accuracy, ECE and gap against epochs, one for each augmentation.",
            figure=training_curves(results),
        )
    for key, held in by_key(results).items():
        for result in held:
            if result.mixed is not None:
                yield _mixed(result, result.mixed, f"{key[2]}, {where}", f"{file}-{key[2]}")
                break


def _mixed(result: Result, mixed: npt.NDArray[Any], where: str, file: str) -> Plate:
    names, share = result.class_names(mixed.shape[2]), 100 * mixed.mean((0, 1))
    most, least = names[int(share.argmax())], names[int(share.argmin())]
    return Plate(
        name=f"mixed-{file}",
        title=f"Who was mixed: {where}",
        caption=f"How often each class was mixed, seed {result.recipe.seed}; a dot is a member.",
        alt=f"Bars: most often {most} ({share.max():.0f} %), least often {least} ({share.min():.0f} %).",
        figure=mixup_counts(mixed, names, result.test_predictions()),
    )


def _reliability(results: Sequence[Result], where: str, file: str) -> Iterator[Plate]:
    """The first run of each augmentation that has predictions, a few augmentations in one diagram."""
    found = {}
    for key, held in by_key(results).items():
        for result in held:
            if (predictions := result.test_predictions()) is not None:
                found[key[2]] = predictions
                break
    names = list(found)
    for part, start in enumerate(range(0, len(names), IN_ONE), start=1):
        some = names[start : start + IN_ONE]
        members = len(some) <= MEMBERS_UP_TO
        thin = " The pool is drawn thick, its members thin." if members else ""
        yield Plate(
            name=f"reliability-{file}" + (f"-{part}" if len(names) > IN_ONE else ""),
            title=f"Reliability: {where}",
            caption=f"Above 0 it is right more often than it claims, below 0 less often.{thin}",
            alt=f"Lines of accuracy minus confidence against confidence: {', '.join(some)}.",
            figure=reliability_diagram({name: found[name] for name in some}, members=members),
        )


def _in_words(results: Sequence[Result]) -> str:
    said = []
    for (_, ensemble, augment), held in by_key(results).items():
        pairs = [(r.clean("accuracy"), r.clean("ece")) for r in held]
        known = [(a, e) for a, e in pairs if a is not None and e is not None]
        if known:
            error = 100 - 100 * sum(a for a, _ in known) / len(known)
            ece = 100 * sum(e for _, e in known) / len(known)
            said.append(f"{ensemble} {augment}: error {error:.1f} %, ECE {ece:.1f} %")
    return "; ".join(said) + "."
