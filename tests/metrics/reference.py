"""Independent reference of every metric: loops over Python numbers, no code shared with the package."""

import math

import numpy as np


def as_lists(probs, labels):
    return [[float(p) for p in row] for row in probs], [int(y) for y in labels]


def top(row):
    best = 0
    for k, p in enumerate(row):
        if p > row[best]:
            best = k
    return best, row[best]


def width_bin(p, num_bins):
    for m in range(1, num_bins):
        if p <= m / num_bins:
            return m - 1
    return num_bins - 1


def mass_bin(p, uppers):
    for m, upper in enumerate(uppers):
        if p <= upper:
            return m
    raise AssertionError("above every edge")


def mass_uppers(values, num_bins):
    return [
        float(run[-1]) for run in np.array_split(np.sort(np.array(values, np.float64)), num_bins) if len(run)
    ]


def binned(values, trues, bin_of):
    """{bin: [(value, true)]}, without empty bins."""
    bins = {}
    for p, true in zip(values, trues, strict=True):
        bins.setdefault(bin_of(p), []).append((p, true))
    return bins


def error(values, trues, bin_of):
    total = 0.0
    for members in binned(values, trues, bin_of).values():
        confidence = math.fsum(p for p, _ in members) / len(members)
        accuracy = sum(true for _, true in members) / len(members)
        total += len(members) / len(values) * abs(accuracy - confidence)
    return total


def squared_error(values, trues, bin_of):
    total = 0.0
    for members in binned(values, trues, bin_of).values():
        n_b = len(members)
        if n_b == 1:
            continue
        confidence = math.fsum(p for p, _ in members) / n_b
        accuracy = sum(true for _, true in members) / n_b
        total += n_b / len(values) * ((confidence - accuracy) ** 2 - accuracy * (1 - accuracy) / (n_b - 1))
    return total


def top_values(probs, labels):
    tops = [top(row) for row in probs]
    return [p for _, p in tops], [k == y for (k, _), y in zip(tops, labels, strict=True)]


def class_values(probs, labels, k):
    return [row[k] for row in probs], [y == k for y in labels]


def by_width(num_bins):
    return lambda p: width_bin(p, num_bins)


def by_mass(values, num_bins):
    uppers = mass_uppers(values, num_bins)
    return lambda p: mass_bin(p, uppers)


def ece(probs, labels, num_bins=15):
    probs, labels = as_lists(probs, labels)
    return error(*top_values(probs, labels), by_width(num_bins))


def ace(probs, labels, num_bins=15, classwise=False):
    probs, labels = as_lists(probs, labels)
    if not classwise:
        values, trues = top_values(probs, labels)
        return error(values, trues, by_mass(values, num_bins))
    return tace(probs, labels, num_bins, threshold=-1.0)


def sce(probs, labels, num_bins=15):
    probs, labels = as_lists(probs, labels)
    classes = range(len(probs[0]))
    return sum(error(*class_values(probs, labels, k), by_width(num_bins)) for k in classes) / len(classes)


def tace(probs, labels, num_bins=15, threshold=0.01):
    probs, labels = as_lists(probs, labels)
    total = 0.0
    for k in range(len(probs[0])):
        pairs = zip(*class_values(probs, labels, k), strict=True)
        kept = [(p, true) for p, true in pairs if p > threshold]
        if kept:
            values, trues = zip(*kept, strict=True)
            total += error(values, trues, by_mass(values, num_bins))
    return total / len(probs[0])


def dce(probs, labels, num_bins=15, classwise=False, squared=False):
    probs, labels = as_lists(probs, labels)
    if classwise:
        pairs = [class_values(probs, labels, k) for k in range(len(probs[0]))]
    else:
        pairs = [top_values(probs, labels)]
    sums = [squared_error(values, trues, by_mass(values, num_bins)) for values, trues in pairs]
    if squared:
        return sum(sums) / len(sums)
    return math.sqrt(sum(max(s, 0.0) for s in sums) / len(sums))


def accuracy(probs, labels):
    _, trues = top_values(*as_lists(probs, labels))
    return sum(trues) / len(trues)


def gap(probs, labels):
    values, trues = top_values(*as_lists(probs, labels))
    return sum(trues) / len(trues) - math.fsum(values) / len(values)


def nll(probs, labels):
    probs, labels = as_lists(probs, labels)
    each = [-math.log(row[y]) if row[y] > 0 else math.inf for row, y in zip(probs, labels, strict=True)]
    return math.fsum(each) / len(each) if math.inf not in each else math.inf


def brier(probs, labels):
    probs, labels = as_lists(probs, labels)
    return math.fsum(
        (p - (k == y)) ** 2 for row, y in zip(probs, labels, strict=True) for k, p in enumerate(row)
    ) / len(probs)


def total_variation(p, q):
    return math.fsum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2


def skce(probs, labels, estimator="unbiased", bandwidth=None):
    probs, labels = as_lists(probs, labels)
    n = len(probs)
    if bandwidth is None:
        distances = [total_variation(probs[i], probs[j]) for i in range(n) for j in range(i + 1, n)]
        bandwidth = float(np.median(distances)) if n > 1 else 1.0

    def h(i, j):
        distance = total_variation(probs[i], probs[j])
        if bandwidth == 0:
            kernel = float(distance == 0)
        else:
            kernel = math.exp(-distance / bandwidth)
        return kernel * math.fsum(
            ((labels[i] == k) - probs[i][k]) * ((labels[j] == k) - probs[j][k]) for k in range(len(probs[0]))
        )

    pairs = {
        "biased": [(i, j) for i in range(n) for j in range(n)],
        "unbiased": [(i, j) for i in range(n) for j in range(i + 1, n)],
        "linear": [(i, i + 1) for i in range(0, n - 1, 2)],
    }[estimator]
    return math.fsum(h(i, j) for i, j in pairs) / len(pairs)


def reliability(probs, labels, num_bins=15):
    """(count, accuracy, confidence) of each bin; nan for an empty bin."""
    bins = binned(*top_values(*as_lists(probs, labels)), by_width(num_bins))
    rows = []
    for m in range(num_bins):
        members = bins.get(m, [])
        size = len(members) or math.nan
        rows.append(
            (len(members), sum(true for _, true in members) / size, math.fsum(p for p, _ in members) / size)
        )
    return rows


def class_gap(probs, labels, group=None, num_groups=None):
    probs, labels = as_lists(probs, labels)
    group = labels if group is None else [int(g) for g in group]
    values, trues = top_values(probs, labels)
    gaps = []
    for k in range(num_groups or len(probs[0])):
        terms = [true - p for p, true, g in zip(values, trues, group, strict=True) if g == k]
        gaps.append(math.fsum(terms) / len(terms) if terms else math.nan)
    return gaps


def diversity(probs):
    """(disagreement, kl, cosine) of probabilities (M, N, C)."""
    probs = [[[float(p) for p in row] for row in member] for member in probs]
    members, n = len(probs), len(probs[0])
    different, kl, cosine, pairs = 0, 0.0, 0.0, 0
    for a in range(members):
        for b in range(members):
            if a == b:
                continue
            pairs += n
            for p, q in zip(probs[a], probs[b], strict=True):
                different += top(p)[0] != top(q)[0]
                kl += sum(
                    (math.inf if v == 0 else u * math.log(u / v)) for u, v in zip(p, q, strict=True) if u > 0
                )
                cosine += sum(u * v for u, v in zip(p, q, strict=True)) / math.hypot(*p) / math.hypot(*q)
    return different / pairs, kl / pairs, cosine / pairs
