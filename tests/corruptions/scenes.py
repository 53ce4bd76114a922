"""Made-up photographs, and what it means for two pictures to agree."""

import numpy as np
from scipy import ndimage


def photographs(count=4, height=32, width=32, channels=3, seed=0):
    """Soft colours, hard edges, grain, and a patch each of black, white and flat grey."""
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


def assert_agree(found, expected, share=0.02):
    """No value is more than one grey level off, and at most `share` of them are off at all."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype == np.uint8
    off = np.abs(found.astype(int) - expected)
    assert off.max() <= 1
    assert (off > 0).mean() <= share
