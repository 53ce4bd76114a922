"""Sentences made of the numbers, for the pages of results: what came out on one data set."""

import contextlib
import math
import statistics
from collections.abc import Mapping, Sequence

from calmix.paper.regime import Method, Regime
from calmix.report.words import listed
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.recipe import ENSEMBLES
from calmix.study.estimates import Estimate, NotRunError
from calmix.study.quantities import Quantity

WITHIN = "within noise"
NAMES = {"Acc": "accuracy", "error": "the error"}  # of quantities whose title is no word of a sentence


def change_sentence(
    regime: Regime, this: str, that: str, quantities: Sequence[Quantity], ensembles: Sequence[str]
) -> str:
    """What training with `this` instead of `that` changes, and what of it is within noise.

    `Compared with none, Mixup changes accuracy by -0.2 (BE, within noise) and +1.3 points (DE), ECE by ...`
    """
    clauses = []
    for quantity in quantities:
        changes = {}
        for ensemble in ensembles:
            with contextlib.suppress(NotRunError):
                first, second = (regime.estimate((ensemble, a), quantity) for a in (this, that))
                changes[_short(ensemble, ensembles)] = first - second
        if changes:
            name = NAMES.get(quantity.title, quantity.title)
            clauses.append(f"{name} by {amounts_text(quantity, changes)}")
    subject, base = parse_augmentation(this).title, parse_augmentation(that).title
    return f"Compared with {base}, {subject} changes {'; '.join(clauses)}." if clauses else ""


def level_sentence(
    regime: Regime, words: str, quantity: Quantity, augment: str, ensembles: Sequence[str]
) -> str:
    """`words`, then a difference that one method shows by itself, and what of it is within noise."""
    levels = {}
    for ensemble in ensembles:
        with contextlib.suppress(NotRunError):
            levels[_short(ensemble, ensembles)] = regime.estimate((ensemble, augment), quantity)
    return f"{words} {amounts_text(quantity, levels)}." if levels else ""


def amounts_text(quantity: Quantity, amounts: Mapping[str, Estimate]) -> str:
    """Differences by ensemble, with their sign; those whose interval holds 0 are within noise.

    >>> from calmix.study.quantities import ECE
    >>> amounts_text(ECE, {"BE": Estimate(0.0589, 1), "DE": Estimate(0.0043, 1)})
    '+5.9 (BE) and +0.43 points (DE), noise not known'
    """
    unit = "" if quantity.unit == "number" else " points"
    remarks = [_remark(amount) for amount in amounts.values()]
    alike = remarks[0] if len({*remarks}) == 1 else ""
    texts: list[str] = []
    for (short, amount), remark in zip(amounts.items(), remarks, strict=True):
        scaled = quantity.factor * amount.value
        digits = "+.2g" if quantity.unit == "number" else "+.1f" if abs(scaled) >= 1 else "+.2f"
        last = len(texts) + 1 == len(amounts)
        notes = ", ".join(filter(None, (short, "" if alike else remark)))
        texts.append(f"{scaled:{digits}}" + unit * last + f" ({notes})" * bool(notes))
    every = {1: "", 2: "both "}.get(len(amounts), "all ") * (alike == WITHIN)
    return listed(texts) + f", {every}{alike}" * bool(alike)


def _remark(amount: Estimate) -> str:
    if not math.isfinite(amount.half_width):
        return "noise not known"
    return WITHIN if amount.interval.low <= 0 <= amount.interval.high else ""


def _short(ensemble: str, ensembles: Sequence[str]) -> str:
    return ENSEMBLES[ensemble].short if len(ensembles) > 1 else ""


def values_sentence(regime: Regime, quantities: Sequence[Quantity], methods: Sequence[Method]) -> str:
    """Means over seeds: `ECE % of BE: none 0.99, Mixup 6.89; of DE: none 0.35, Mixup 6.73.`"""
    sentences = []
    for quantity in quantities:
        texts = []
        for ensemble in dict.fromkeys(ensemble for ensemble, _ in methods):
            means = {m[1]: _mean(regime, m, quantity) for m in methods if m[0] == ensemble}
            values = [
                f"{parse_augmentation(augment).title} {quantity.text(mean)}"
                for augment, mean in means.items()
                if mean is not None
            ]
            if values:
                texts.append(f"of {ENSEMBLES[ensemble].short}: {', '.join(values)}")
        if texts:
            heading = quantity.heading
            sentences.append(f"{heading[0].upper()}{heading[1:]} {'; '.join(texts)}.")
    return " ".join(sentences)


def count_sentence(
    regime: Regime,
    words: str,
    this: str,
    that: str,
    quantities: Mapping[str, Quantity],
    ensembles: Sequence[str],
) -> str:
    """`words`, then in how many ensembles one augmentation is at least as good as another, by condition."""
    texts = []
    for condition, quantity in quantities.items():
        pairs = [[_mean(regime, (e, augment), quantity) for augment in (this, that)] for e in ensembles]
        costs = [[quantity.cost(x) for x in pair if x is not None] for pair in pairs]
        known = [pair for pair in costs if len(pair) == 2]
        if known:
            wins = sum(first <= second for first, second in known)
            texts.append(f"{wins} of {len(known)} ensembles on {condition} images")
    return f"{words} {listed(texts)}, noise not counted." if texts else ""


def order_sentence(
    regime: Regime, first: Quantity, others: Sequence[Quantity], methods: Sequence[Method]
) -> str:
    """Whether other quantities put the methods of each ensemble in the order of the first, best first."""
    sentences = []
    for ensemble in dict.fromkeys(ensemble for ensemble, _ in methods):
        some = [method for method in methods if method[0] == ensemble]
        orders = {x.title: order for x in (first, *others) if (order := _order(regime, x, some))}
        reference = orders.pop(first.title, "")
        if not reference:
            continue
        texts = [
            f"by {title} the same" if order == reference else f"by {title} {order}"
            for title, order in orders.items()
        ]
        sentences.append(f"{ENSEMBLES[ensemble].short}, best first, by {first.title}: {reference}; ")
        sentences[-1] += "; ".join(texts) + "."
    return " ".join(sentences)


def best_sentence(regime: Regime, quantities: Sequence[Quantity], methods: Sequence[Method]) -> str:
    """The best mean of each quantity among the methods of each ensemble, noise not counted."""
    sentences = []
    for quantity in quantities:
        texts = []
        for ensemble in dict.fromkeys(ensemble for ensemble, _ in methods):
            some = [(m, _mean(regime, m, quantity)) for m in methods if m[0] == ensemble]
            known = [(quantity.cost(mean), mean, method) for method, mean in some if mean is not None]
            if known:
                _, mean, method = min(known)
                title = parse_augmentation(method[1]).title
                texts.append(f"{quantity.text(mean)} with {title} ({ENSEMBLES[ensemble].short})")
        if texts:
            sentences.append(f"The best {quantity.heading} is {listed(texts)}, noise not counted.")
    return " ".join(sentences)


def _order(regime: Regime, quantity: Quantity, methods: Sequence[Method]) -> str:
    means = [(method, _mean(regime, method, quantity)) for method in methods]
    known = [(quantity.cost(mean), parse_augmentation(m[1]).title) for m, mean in means if mean is not None]
    return ", ".join(title for _, title in sorted(known)) if len(known) == len(methods) else ""


def _mean(regime: Regime, method: Method, quantity: Quantity) -> float | None:
    values = quantity.values(regime.results.get(method, ()))
    return statistics.fmean(values) if values else None
