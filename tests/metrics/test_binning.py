"""The sums that are had for less are those of the terms, value by value."""

import numpy as np
import pytest
import torch

from calmix.metrics.binning import (
    Statistic,
    equal_width,
    every_class,
    every_class_sums,
    top_label,
    top_label_sums,
)
from calmix.metrics.errors import mean_error, unit_interval
from calmix.metrics.sample import BinaryBlock, Block


def beside_edges(num_bins, classes):
    """float32 values on the edges, next to them, near 0, and as far above 1 as a row may be."""
    edges = np.arange(num_bins + 1, dtype=np.float32) / np.float32(num_bins)
    near = [np.nextafter(edges, np.float32(side), dtype=np.float32).clip(0) for side in (-1, 2)]
    values = np.concatenate([edges, *near, np.float32([1e-30, 1e-45, 1.0005])])
    values = np.resize(values, -(-len(values) // classes) * classes).reshape(-1, classes)
    return torch.from_numpy(np.concatenate([np.roll(values, k, 1) for k in range(classes)]))


def sums_of(terms, shape, block, sizes=True):
    statistic = Statistic(shape, terms, mean_error, unit_interval, None, sizes)
    sums = statistic.zeros()
    statistic.add(sums, block)
    return sums[:, :-1]


@pytest.mark.parametrize("num_bins", [1, 10, 15, 100])
@pytest.mark.parametrize("classes", [1, 2, 7, 130])
def test_sums_of_every_class(num_bins, classes):
    probs = beside_edges(num_bins, classes)
    labels = torch.arange(len(probs)) % max(2, classes)
    block = (BinaryBlock if classes == 1 else Block)(probs, labels, labels)
    shortcut = every_class_sums(classes, num_bins)
    terms = every_class(equal_width(num_bins), num_bins)
    expected = sums_of(terms, (classes, num_bins), block, sizes=False)
    torch.testing.assert_close(shortcut(block), expected, rtol=1e-14, atol=0)


def test_sums_of_every_class_are_refused_where_a_float64_has_too_few_bits():
    assert every_class_sums(1000, 15) is not None
    assert every_class_sums(1000, 1000) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [1, 2, 7])
def test_sums_of_the_top_label(dtype, classes):
    probs = beside_edges(15, classes).to(dtype)
    labels = torch.where(torch.arange(len(probs)) % 3 == 0, 0, probs.argmax(1) if classes > 1 else 1)
    block = (BinaryBlock if classes == 1 else Block)(probs, labels, labels)
    expected = sums_of(top_label(equal_width(15)), (1, 15), block)
    torch.testing.assert_close(top_label_sums(equal_width(15), 15)(block), expected, rtol=1e-14, atol=0)
    assert 0 < expected[2].sum() < expected[0].sum() == len(probs)
