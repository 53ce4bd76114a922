"""Corruptions of CIFAR-10 compared with the reference, if CALMIX_DATA has it."""

import os
from pathlib import Path

import numpy as np
import pytest

from calmix.corruptions.constants import ALL_CORRUPTIONS
from calmix.corruptions.dispatch import _FIXED, corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree

BATCH = Path(os.environ.get("CALMIX_DATA", ""), "cifar-10-batches-bin", "test_batch.bin")
pytestmark = pytest.mark.skipif(not BATCH.is_file(), reason="needs CIFAR-10 in CALMIX_DATA")


def cifar(count):
    rows = np.fromfile(BATCH, np.uint8, count * 3073).reshape(count, 3073)
    return np.ascontiguousarray(rows[:, 1:].reshape(count, 3, 32, 32).transpose(0, 2, 3, 1))


def psnr(corrupted, images):
    return 10 * np.log10(255**2 / np.mean((corrupted.astype(float) - images) ** 2))


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("name", sorted(_FIXED))
def test_deterministic_corruptions_equal_reference(name, severity):
    images = cifar(64)
    assert_agree(corrupt(images, name, severity), reference.corrupted(images, name, severity))


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("name", [name for name in ALL_CORRUPTIONS if name not in {*_FIXED, "frost"}])
def test_psnr_of_random_corruptions_is_that_of_the_reference_with_legacy_draws(name, severity):
    images = cifar(1000 if name != "glass_blur" else 200)
    draw, values = reference.Legacy(severity), reference.parameters(name, severity)
    expected = np.stack([getattr(reference, name)(image, draw, *values) for image in images])
    assert psnr(corrupt(images, name, severity), images) == pytest.approx(psnr(expected, images), abs=0.5)
