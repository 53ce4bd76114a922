"""The audit: its speed, and with `--full` its coverage, false alarms and power on data whose truth is known.

`python -m benchmarks audit --full` runs everything, `python -m benchmarks.audit --simulations 1 3 --samples
50` a part.
"""

import argparse
import functools
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.timing import Row, cpu_seconds
from calmix import metrics, pool
from calmix.auditing import audit
from calmix.auditing.gaps import gap_interval, gap_sums, mean_interval, rate_interval
from calmix.auditing.groups import class_rates, gap_rows, predicted_classes
from calmix.auditing.measures import dce_interval
from calmix.auditing.remedies import NOTHING, candidates, compare_remedies
from calmix.auditing.summary import summarise
from calmix.auditing.verdict import decide, gather_evidence
from calmix.calibrate import Order, fit_calibrator, fit_temperature
from calmix.predictions import Predictions
from tests.auditing.simulations import (
    calibrated_pool,
    cancelling,
    gap_variance,
    scaled_logits,
    shifted,
    with_gap,
)

SAMPLES = 500
LARGE, LARGE_SHARE = 20_000, 0.2  # so many examples have a fifth of the samples


def rows(full: bool = False) -> Iterator[Row]:
    if full:
        yield from simulate(tuple(SIMULATIONS), SAMPLES)
    else:
        yield from _speed(((1, 1_000_000, 10), (4, 50_000, 1_000)))


def simulate(simulations: Sequence[int], samples: int) -> Iterator[Row]:
    for number in simulations:
        yield from SIMULATIONS[number](samples)


def _verdicts(make: Callable[[int], Predictions], samples: int) -> Counter[str]:
    """Verdicts of samples, and in how many audits a class was flagged."""
    counts: Counter[str] = Counter()
    for seed in range(samples):
        predictions = make(seed)
        assert predictions.labels is not None
        summary = summarise(predictions.logits, predictions.labels)
        counts[decide(gather_evidence(summary, seed=seed))] += 1
        names = predictions.class_names
        flags = [row.direction for row in predicted_classes(summary, names, level=0.975)]
        flags += [row.direction for row in class_rates(summary, names, level=0.975)]
        counts["class flagged"] += any(flag not in ("unclear", "too few") for flag in flags)
        group = torch.arange(summary.examples) % 10
        groups = gap_rows(summary, [("group", group, [str(k) for k in range(10)])], level=0.95)
        counts["group flagged"] += any(row.direction not in ("unclear", "too few") for row in groups)
    return counts


def _at_most(share: float, samples: int) -> float:
    """A limit with three simulation errors."""
    return share + 3 * math.sqrt(share * (1 - share) / samples)


def _at_least(share: float, samples: int) -> float:
    return share - 3 * math.sqrt(share * (1 - share) / samples)


def false_alarms(samples: int) -> Iterator[Row]:
    """1: exactly calibrated pools."""
    for classes, positives in ((2, None), (2, 0.05), (10, None), (100, None)):
        for n in (50, 200, 2_000, 20_000):
            count = samples if n < LARGE else max(1, int(samples * LARGE_SHARE))
            make = functools.partial(_pool, n, classes, positives)
            counts = _verdicts(make, count)
            limit = _at_most(0.05, count)
            what = f"C = {classes}{', 5 % positives' if positives else ''}, n = {n:,}"
            alarms = count - counts["calibrated"] - counts["inconclusive"]
            yield Row(f"1 false alarms, {what}", alarms / count, "", at_most=limit)
            yield Row("  calibrated", counts["calibrated"] / count, "")
            yield Row("  a class flagged", counts["class flagged"] / count, "", at_most=limit)
            yield Row("  a group flagged", counts["group flagged"] / count, "", at_most=limit)


def _pool(n: int, classes: int, positives: float | None, seed: int) -> Predictions:
    predictions: Predictions = calibrated_pool(n, classes, seed, positives=positives)
    return predictions


def gaps(samples: int) -> Iterator[Row]:
    """2: a known gap."""
    for gap in (-0.03, -0.06, -0.09):
        enough = int((3.05 / gap) ** 2 * gap_variance(gap)) + 1
        for n in (50, 200, 2_000, enough):
            counts = _verdicts(functools.partial(with_gap, n, gap), samples)
            what = f"gap {100 * gap:.0f} points, n = {n:,}"
            yield Row(f"2 called calibrated, {what}", counts["calibrated"] / samples, "", at_most=0.05)
            power = _at_least(0.8, samples) if n >= enough else None
            yield Row("  over-confident", counts["over-confident"] / samples, "", at_least=power)


def cancelling_errors(samples: int) -> Iterator[Row]:
    """3: errors of both directions."""
    for n, share in ((500, 0.6), (2_000, 0.95)):
        counts = _verdicts(functools.partial(cancelling, n, 0.08), samples)
        limit = _at_least(share, samples)
        yield Row(
            f"3 mixed, cancelling errors of 8 points, n = {n:,}",
            counts["mixed"] / samples,
            "",
            at_least=limit,
        )


def binary_shift(samples: int) -> Iterator[Row]:
    """4: P(y = 1) is too low by 10 points."""
    for n, share in ((200, None), (2_000, 0.95)):
        counts = _verdicts(functools.partial(shifted, n, 0.1), samples)
        missed = counts["calibrated"] + counts["inconclusive"]
        limit = None if share is None else _at_least(share, samples)
        yield Row(f"4 shift of P(y = 1) found, n = {n:,}", 1 - missed / samples, "", at_least=limit)


def coverage(samples: int) -> Iterator[Row]:
    """5: intervals cover their truth, p-values are uniform. That of DCE is conservative."""
    kinds: dict[str, Callable[[int, int], Predictions]] = {
        "calibrated": lambda n, seed: scaled_logits(n, 10, 1.0, seed),
        "over-confident": lambda n, seed: scaled_logits(n, 10, 0.6, seed),
        "rare class": lambda n, seed: scaled_logits(n, 2, 0.8, seed, positives=0.05),
    }
    for name, make in kinds.items():
        truth = {key: interval.value for key, interval in _intervals(make(400_000, 12345)).items()}
        if name == "calibrated":
            truth |= {"gap": 0.0, "DCE": 0.0}
        for n in (200, 2_000):
            covered: Counter[str] = Counter()
            for seed in range(samples):
                for key, interval in _intervals(make(n, seed)).items():
                    covered[key] += interval.low <= truth[key] <= interval.high
            for key in truth:
                most = None if key == "DCE" else 1 - _at_least(0.05, samples)
                yield Row(
                    f"5 coverage of 95 %, {key}, {name}, n = {n:,}",
                    covered[key] / samples,
                    "",
                    at_least=_at_least(0.95, samples),
                    at_most=most,
                )
    yield from _p_values(samples)


def _intervals(predictions: Predictions) -> dict[str, metrics.Interval]:
    assert predictions.labels is not None
    summary = summarise(predictions.logits, predictions.labels)
    return {
        "accuracy": rate_interval(float(summary.hit.sum()), summary.examples, level=0.95),
        "gap": gap_interval(gap_sums(summary.confidence, summary.hit), level=0.95),
        "NLL": mean_interval(summary.nll, level=0.95),
        "Brier": mean_interval(summary.brier, level=0.95),
        "DCE": dce_interval(summary.confidence, summary.hit.long(), level=0.95, seed=0),
    }


def _p_values(samples: int) -> Iterator[Row]:
    from scipy.stats import kstest

    few = min(samples, 200)
    for metric in (metrics.ece, metrics.ace, metrics.sce, metrics.tace, metrics.skce):
        values = []
        for seed in range(few):
            predictions = calibrated_pool(300, 5, seed)
            probs = pool(predictions.logits)
            assert predictions.labels is not None
            p_value = metrics.null(metric, probs, predictions.labels, resamples=199, seed=seed).p_value
            assert p_value is not None
            values.append(p_value)
        name = f"5 p-values of {metric.__name__} under the null: Kolmogorov-Smirnov p"
        yield Row(name, float(kstest(values, "uniform").pvalue), "", at_least=0.001)


def remedies(samples: int) -> Iterator[Row]:
    """6: the recommended remedy on fresh data."""
    few = max(1, samples // 10)
    for members, classes, temperature in ((1, 5, 1.0), (1, 5, 0.6), (4, 5, 1.5), (1, 2, 0.6)):
        for n in (300, 1_500):
            worse = recommended = 0
            for seed in range(few):
                here = scaled_logits(n, classes, temperature, seed, members=members)
                fresh = scaled_logits(20_000, classes, temperature, 10_000 + seed, members=members)
                assert here.labels is not None
                assert fresh.labels is not None
                comparison = compare_remedies(here.logits, here.labels, verdict="inconclusive", seed=seed)
                chosen = comparison.recommended
                if chosen.method == NOTHING:
                    continue
                recommended += 1
                (option,) = (c for c in candidates(members, classes) if c.name == chosen.method)
                fitted = fit_calibrator(here.logits, here.labels, method=option.method, order=option.order)
                before, after = (
                    metrics.nll(probs, fresh.labels) for probs in (pool(fresh.logits), fitted(fresh.logits))
                )
                worse += after - before > max(chosen.difference.high, 0)
            what = f"M = {members}, C = {classes}, T = {temperature}, n = {n:,}"
            yield Row(
                f"6 worse than nothing on fresh data, {what}", worse / few, "", at_most=_at_most(0.05, few)
            )
            yield Row("  a remedy recommended", recommended / few, "")


def ensemble(members: int, examples: int, classes: int) -> Predictions:
    """Members that see one truth through noise of their own."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (examples,), generator=draw)
    shared = torch.randn(examples, classes, generator=draw)
    shared[torch.arange(examples), labels] += 3
    logits = torch.empty(members, examples, classes)
    for member in logits:
        member.normal_(generator=draw).add_(shared)
    return Predictions(logits, labels)


def speed(samples: int) -> Iterator[Row]:
    """7: ratios to one pass over the same array, CPU seconds of one thread in one run."""
    sizes = (
        ((1, 1_000_000, 10), (4, 50_000, 1_000)) if samples >= 100 else ((1, 100_000, 10), (4, 5_000, 1_000))
    )
    yield from _speed(sizes)


def _speed(sizes: Sequence[tuple[int, int, int]]) -> Iterator[Row]:
    audit(ensemble(1, 100, 3))  # imports
    for members, n, classes in sizes:
        many = ensemble(members, n, classes)
        name = f"7 audit, {members} x {n:,} x {classes:,}"
        passes: dict[str, Callable[[], object]] = {
            "torch.max": functools.partial(torch.max, many.logits, -1),
            "softmax": functools.partial(torch.softmax, many.logits, -1),
        }
        what, limit = ("torch.max", 200) if members == 1 else ("softmax", 20)
        (yardstick,) = cpu_seconds(passes[what], repeats=3)
        start = time.process_time()
        audit(many)
        seconds = time.process_time() - start
        yield Row(name, seconds, "s")
        yield Row(f"  relative to one {what} of all logits", seconds / yardstick, "x", at_most=limit)
        yield Row(
            "  memory beyond the input",
            _peak(members, n, classes),
            "MB",
            at_most=300 if members == 1 else 1000,
        )
    small = ensemble(4, 2_000, 10)
    (seconds,) = cpu_seconds(lambda: audit(small), repeats=3)
    yield Row("7 audit, 4 x 2,000 x 10", seconds, "s", at_most=1)
    yield from _others()


def _peak(members: int, examples: int, classes: int) -> float:
    """Largest resident size of an audit in a process of its own, beyond what it has with its input, in MB."""
    code = f"from benchmarks.audit import print_peak; print_peak({members}, {examples}, {classes})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_peak(members: int, examples: int, classes: int) -> None:
    torch.set_num_threads(1)
    audit(ensemble(1, 100, 3))  # what is imported is not counted
    predictions = ensemble(members, examples, classes)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here; Linux
    before = _resident("VmRSS")
    audit(predictions)
    print(_resident("VmHWM") - before)


def _resident(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1000
    return math.nan


def _others() -> Iterator[Row]:
    validation = ensemble(4, 2_500, 100)
    assert validation.labels is not None
    orders: tuple[Order, ...] = ("pool", "member", "each")
    fits = [functools.partial(fit_temperature, validation.logits, validation.labels, order=o) for o in orders]
    one_pass, *times = cpu_seconds(lambda: validation.logits.double().softmax(-1), *fits, repeats=3)
    for order, seconds in zip(orders, times, strict=True):
        yield Row(f"fit_temperature {order}, 4 x 2,500 x 100", seconds, "s", at_most=1)
        yield Row("  relative to one softmax of all logits", seconds / one_pass, "x")


SIMULATIONS: dict[int, Callable[[int], Iterator[Row]]] = {
    1: false_alarms,
    2: gaps,
    3: cancelling_errors,
    4: binary_shift,
    5: coverage,
    6: remedies,
    7: speed,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--simulations", type=int, nargs="+", choices=SIMULATIONS, default=list(SIMULATIONS))
    parser.add_argument("--samples", type=int, default=SAMPLES, help="samples in a cell")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for row in simulate(args.simulations, args.samples):
        result = "" if not row.limit else "ok" if row.within_limit else "EXCEEDED"
        print(f"{row.name:72} {row.value:10.4g} {row.unit:3} {row.limit:18} {result}", flush=True)


if __name__ == "__main__":
    main()
