"""Predictions of pixels: every pixel is a row, in any kind of array."""

import numpy as np
import pytest
import torch

from calmix import metrics
from calmix.errors import InputError
from calmix.metrics.trailing import class_rows, from_class_rows
from tests.metrics.samples import calibrated

METRICS = [f for f in metrics.SCALARS.values() if f is not metrics.skce] + [metrics.smooth_ece]
RECORDS = [metrics.brier_parts, metrics.refinement]


def images(ignored=255):
    """Probabilities (4, 3, 5, 6) and labels (4, 5, 6), some of which are to be ignored; their rows."""
    rows, labels = calibrated(4 * 5 * 6, 3, temperature=0.5)
    probs = rows.view(4, 5, 6, 3).movedim(-1, 1).contiguous()
    kept = torch.arange(120) % 7 != 0
    return probs, labels.masked_fill(~kept, ignored).view(4, 5, 6), rows[kept], labels[kept]


def test_rows_and_back():
    values = torch.arange(120.0).view(2, 3, 4, 5)
    rows = class_rows(values)
    assert rows[0].tolist() == values[0, :, 0, 0].tolist()
    assert rows[-1].tolist() == values[1, :, 3, 4].tolist()
    assert torch.equal(from_class_rows(rows, values.shape), values)
    np.testing.assert_array_equal(class_rows(values.numpy()), rows.numpy())


@pytest.mark.parametrize("metric", METRICS + RECORDS)
def test_pixels_are_rows(metric):
    probs, labels, rows, row_labels = images()
    expected = metric(rows, row_labels)
    assert metric(probs, labels, ignore_index=255) == expected
    assert metric(probs.numpy(), labels.numpy().astype(np.uint8), ignore_index=255) == expected
    assert metric(probs, labels.numpy(), ignore_index=255) == expected
    flat = labels.flatten()
    assert metric(class_rows(probs), flat, ignore_index=255) == expected
    assert metric(probs[:, :, 0, 0], labels[:, 0, 0].clamp(max=2)) == metric(
        probs[:, :, :1, 0], labels[:, :1, 0].clamp(max=2)
    )


def test_curves_groups_and_weights_of_pixels():
    probs, labels, rows, row_labels = images()
    kept = labels.flatten() != 255
    group = torch.arange(120).view(4, 5, 6) % 4
    weights = torch.rand(4, 5, 6, generator=torch.Generator().manual_seed(0))
    by_group = metrics.class_gap(probs, labels, group=group, ignore_index=255)
    assert torch.equal(by_group, metrics.class_gap(rows, row_labels, group=group.flatten()[kept]))
    assert torch.equal(
        metrics.reliability(probs, labels, ignore_index=255).count,
        metrics.reliability(rows, row_labels).count,
    )
    assert torch.equal(
        metrics.selective(probs, labels, ignore_index=255).risk, metrics.selective(rows, row_labels).risk
    )
    weighted = metrics.ece(probs, labels, weights=weights, ignore_index=255)
    assert weighted == metrics.ece(rows, row_labels, weights=weights.flatten()[kept])


def test_what_does_not_match_is_named():
    probs, labels, *_ = images()
    with pytest.raises(InputError, match=r"labels has shape \(4, 5, 5\), .*one for each pixel, \(4, 5, 6\)"):
        metrics.ece(probs, labels[..., :5])
    with pytest.raises(InputError, match=r"weights has shape \(4,\)"):
        metrics.ece(probs, labels, weights=torch.ones(4))
    with pytest.raises(InputError, match=r"labels\[0\] is 255"):
        metrics.ece(probs, labels)
    with pytest.raises(InputError, match="labels are all 255, the ignore_index"):
        metrics.ece(probs, torch.full_like(labels, 255), ignore_index=255)
    with pytest.raises(InputError, match=r"ignore_index is 2\.5"):
        metrics.ece(probs, labels, ignore_index=2.5)
    for call in (metrics.bootstrap, metrics.null):
        with pytest.raises(InputError, match=r"probs must have the axes \(examples, classes\)"):
            call(metrics.ece, probs, labels)
