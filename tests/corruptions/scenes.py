"""Synthetic photographs, and the comparison of two images."""

import numpy as np
from scipy import ndimage


def photographs(count=4, height=32, width=32, channels=3, seed=0):
    """Smooth colours, hard edges, noise, and patches of black, white and grey."""
    rng = np.random.default_rng(seed)
    soft = ndimage.gaussian_filter(
        rng.normal(size=(count, height, width, channels)), (0, 4, 4, 0), mode="wrap"
    )
    soft *= 660
    edges = 60 * (np.add.outer(np.arange(height), 2 * np.arange(width)) % 23 < 9)[..., None]
    scene = 110 + soft + edges + rng.normal(0, 4, soft.shape)
    for k, level in enumerate((0, 255, 128)):
        scene[:, 8 * k : 8 * k + 6, : width // 3] = level
    return np.clip(scene, 0, 255).astype(np.uint8)


def assert_agree(actual, expected, fraction=0.02):
    """No value differs by more than one grey level, and at most a `fraction` of them differ."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype == np.uint8
    difference = np.abs(actual.astype(int) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() <= fraction
