"""Sentences made of the numbers, for the pages of results: what came out on one data set."""

import math
import statistics
from collections.abc import Sequence

from calmix.paper.regime import Method, Regime
from calmix.report.words import listed
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.recipe import ENSEMBLES
from calmix.study.estimates import Estimate, NotRunError
from calmix.study.quantities import Quantity

NAMES = {"Acc": "accuracy", "error": "the error"}  # of quantities whose title is no word of a sentence


def change_sentence(
    regime: Regime, this: str, that: str, quantities: Sequence[Quantity], ensembles: Sequence[str]
) -> str:
    """What training with `this` instead of `that` changes, and where its interval holds 0.

    `Against none, Mixup raises ECE by 5.9 (BE) and 6.4 points (DE); it does not change accuracy beyond noise
    (BE, DE).`
    """
    clauses = [clause for x in quantities if (clause := _change(regime, this, that, x, ensembles))]
    if not clauses:
        return ""
    subject, base = parse_augmentation(this).title, parse_augmentation(that).title
    return f"Against {base}, {subject} {'; it '.join(clauses)}."


def _change(regime: Regime, this: str, that: str, quantity: Quantity, ensembles: Sequence[str]) -> str:
    by_verb: dict[str, dict[str, Estimate]] = {"raises": {}, "lowers": {}, "does not change": {}}
    for ensemble in ensembles:
        try:
            first, second = (regime.estimate((ensemble, augment), quantity) for augment in (this, that))
        except NotRunError:
            continue
        change = first - second
        known = math.isfinite(change.half_width)
        verb = "raises" if change.value > 0 else "lowers"
        if known and change.interval.low <= 0 <= change.interval.high:
            verb = "does not change"
        by_verb[verb][ENSEMBLES[ensemble].short if len(ensembles) > 1 else ""] = change
    parts: list[str] = []
    for verb, changes in by_verb.items():
        if not changes:
            continue
        what = "it" if parts else NAMES.get(quantity.title, quantity.title)
        if verb == "does not change":
            where = f" ({', '.join(changes)})" if all(changes) else ""
            parts.append(f"{verb} {what} beyond noise{where}")
        else:
            amounts = {short: abs(change.value) for short, change in changes.items()}
            known = all(math.isfinite(change.half_width) for change in changes.values())
            noise = "" if known else ", noise not known"
            parts.append(f"{verb} {what} by {amounts_text(quantity, amounts)}{noise}")
    return listed(parts)


def amounts_text(quantity: Quantity, amounts: dict[str, float], *, signed: bool = False) -> str:
    """
    >>> from calmix.study.quantities import ECE
    >>> amounts_text(ECE, {"BE": 0.0589, "DE": 0.0043})
    '5.9 (BE) and 0.43 points (DE)'
    """
    sign = "+" if signed else ""
    unit = "" if quantity.unit == "number" else " points"
    texts: list[str] = []
    for short, amount in amounts.items():
        scaled = quantity.factor * amount
        digits = ".2g" if quantity.unit == "number" else ".1f" if abs(scaled) >= 1 else ".2f"
        last = len(texts) + 1 == len(amounts)
        texts.append(f"{scaled:{sign}{digits}}" + unit * last + f" ({short})" * bool(short))
    return listed(texts)


def level_sentence(
    regime: Regime, words: str, quantity: Quantity, augment: str, ensembles: Sequence[str]
) -> str:
    """`words`, then a difference that one method shows by itself, with its sign."""
    means = {
        ENSEMBLES[ensemble].short if len(ensembles) > 1 else "": mean
        for ensemble in ensembles
        if (mean := _mean(regime, (ensemble, augment), quantity)) is not None
    }
    return f"{words} {amounts_text(quantity, means, signed=True)}." if means else ""


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
