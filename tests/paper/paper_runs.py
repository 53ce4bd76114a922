"""Results that carry the paper's own numbers, in memory: predictions of one confidence, five seeds."""

import dataclasses
import functools
from pathlib import Path

import numpy as np

from calmix.corruptions import CORRUPTIONS, SEVERITIES
from calmix.paper.numbers import NUMBERS, SKCE, SMOOTHED, SPREADS
from calmix.runs.folder import Run
from calmix.runs.influence import TopLabels, ece_influence
from calmix.runs.presets import preset
from calmix.runs.summary import MemberScores, PoolScores, Summary, TestScores
from calmix.study.results import Result

IMAGES = CORRUPTED_IMAGES = 10_000
SEEDS = (-1.2649, -0.6325, 0.0, 0.6325, 1.2649)  # mean 0, standard deviation 1
DEFAULT_SPREAD = (0.1, 0.1, 0.3, 0.3)
UNDERCONFIDENT = (
    "mixup",
    "augmix+mixup",
    "label-smoothing-0.2",
    "label-smoothing-0.3",
    "label-smoothing-0.5",
)


def paper_results(mirrored=()):
    """Every method of the paper's tables over five seeds; `mirrored` gives other accuracies and ECEs."""
    other = dict(mirrored)
    results = []
    for key, row in NUMBERS.items():
        numbers = other.get(key, row)
        spread = SPREADS.get(key) or DEFAULT_SPREAD
        for seed, offset in enumerate(SEEDS):
            values = [
                None if n is None else (n + offset * s) / 100 for n, s in zip(numbers, spread, strict=True)
            ]
            skce = SKCE.get(key, (numbers[1] ** 2 / 1e4, 0.01))[0]
            results.append(result(key, seed, *values, skce=skce))
    for key, ece in SMOOTHED.items():
        for seed, offset in enumerate(SEEDS):
            results.append(result(key, seed, 0.96, ece / 100 + 0.002 * offset))
            plain = (key[0], key[1], "none")
            if plain not in NUMBERS:
                results.append(result(plain, seed, 0.96, 0.01 + 0.002 * offset))
    return results


def result(key, seed, accuracy, ece, ca=None, cece=None, skce=1e-4):
    dataset, ensemble, augment = key
    recipe = preset(
        "folder" if dataset == "imagenet" else dataset, ensemble, augment, scale="paper", seed=seed
    )
    under = augment in UNDERCONFIDENT or accuracy + ece > 0.999
    gap = ece if under else -ece
    pool = PoolScores(accuracy, 0.5, 0.1, ece, gap, ece, ece, ece, ece, skce)
    member = MemberScores(accuracy, 0.5, 0.1, max(ece - 0.005, 0.0), gap - 0.005 * np.sign(gap))
    scores = TestScores(IMAGES, pool, (member, member))
    corrupted, influences = {}, {}
    if ca is not None:
        hit, confidence = _rows(ca, cece, CORRUPTED_IMAGES, under=False)
        scores_under = TestScores(CORRUPTED_IMAGES, dataclasses.replace(pool, accuracy=ca, ece=cece), ())
        corrupted = {name: dict.fromkeys(SEVERITIES, scores_under) for name in CORRUPTIONS}
        influences = {"ca": hit - hit.mean(), "cece": ece_influence(confidence, hit)}
    summary = Summary(recipe.name, tuple("0123456789"), scores, None, corrupted)
    filled = Result(Run(Path(recipe.name), recipe), summary, (), ())
    vars(filled)["_clean_influences"] = _influences(round(accuracy, 3), round(ece, 3), under)
    vars(filled)["_corrupted_influences"] = influences
    return filled


def _rows(accuracy, ece, size, under):
    hit = (np.arange(size) < round(accuracy * size)).astype(np.float64)
    confidence = accuracy - ece if under else accuracy + ece
    return hit, np.full(size, confidence)


@functools.cache
def _influences(accuracy, ece, under):
    """Of a rounded accuracy and ECE: the seeds of a method share them."""
    hit, confidence = _rows(accuracy, ece, IMAGES, under)
    labels = np.zeros(IMAGES, dtype=np.int64)
    prediction = (1 - hit).astype(np.int64)
    rows = [np.stack([row] * 3) for row in (prediction, confidence, hit)]
    return TopLabels(labels, *rows).influences()
