"""The figures of a set of runs, each with its name, title and the text that stands for it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from calmix.report.figures import (
    ENSEMBLES,
    corruption_curves,
    error_and_ece_bars,
    mixup_counts,
    training_curves,
)
from calmix.report.reliability import reliability_diagram
from calmix.report.results import Result, by_key

IN_ONE = 6  # augmentations in one reliability diagram
MEMBERS_UP_TO = 3  # with more of them the members' thin lines are left out


@dataclass(frozen=True)
class Plate:
    """A figure; `name` is its file's, `alt` says what it shows to who cannot see it."""

    name: str
    title: str
    alt: str
    figure: Figure


def draw_plates(results: Sequence[Result]) -> Iterator[Plate]:
    """Every figure that the runs have data for, data set by data set."""
    for dataset in dict.fromkeys(result.dataset for result in results):
        of_dataset = [result for result in results if result.dataset == dataset]
        if any(result.clean("ece") is not None for result in of_dataset):
            yield Plate(
                f"bars-{dataset}",
                f"Error and ECE on {dataset}",
                f"Bars of test error and ECE on {dataset}, mean over seeds. " + _in_words(of_dataset),
                error_and_ece_bars(of_dataset),
            )
        for ensemble in dict.fromkeys(result.recipe.ensemble for result in of_dataset):
            yield from _of_ensemble([r for r in of_dataset if r.recipe.ensemble == ensemble])


def _of_ensemble(results: Sequence[Result]) -> Iterator[Plate]:
    dataset, ensemble, _ = results[0].key
    where, file = f"{ENSEMBLES[ensemble]} on {dataset}", f"{dataset}-{ensemble}"
    yield from _reliability(results, where, file)
    if any(result.by_severity("ece") for result in results):
        yield Plate(
            f"corruption-{file}",
            f"Under corruption: {where}",
            f"Error and ECE of the {where} against the severity of corruption, mean over its types, a line "
            "for each augmentation.",
            corruption_curves(results),
        )
    if any(result.history for result in results):
        yield Plate(
            f"training-{file}",
            f"Training: {where}",
            f"Accuracy, ECE and gap of the {where} on validation data after every epoch, a line for each "
            "augmentation; bands span seeds and members.",
            training_curves(results),
        )
    for key, held in by_key(results).items():
        record = next((result for result in held if result.mixed is not None), None)
        if record is not None and record.mixed is not None:
            names = record.class_names(record.mixed.shape[2])
            share = 100 * record.mixed.mean((0, 1))
            most, least = names[int(share.argmax())], names[int(share.argmin())]
            yield Plate(
                f"mixed-{file}-{key[2]}",
                f"Who was mixed: {key[2]}, {where}",
                f"Bars of the share of epochs in which each class was mixed, seed {record.recipe.seed}: most "
                f"often {most} ({share.max():.0f} %), least often {least} ({share.min():.0f} %).",
                mixup_counts(record.mixed, names, record.test_predictions()),
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
        more = f"-{part}" if len(names) > IN_ONE else ""
        yield Plate(
            f"reliability-{file}{more}",
            f"Reliability: {where}",
            f"Accuracy minus confidence against confidence for {', '.join(some)}; above 0 is "
            "under-confident, the pool is drawn thick and its members thin.",
            reliability_diagram({name: found[name] for name in some}, members=len(some) <= MEMBERS_UP_TO),
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
