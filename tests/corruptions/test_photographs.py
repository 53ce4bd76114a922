"""On real photographs, where CALMIX_DATA names a folder with CIFAR-10: as strong as the plain reference."""

import os
from pathlib import Path

import numpy as np
import pytest

from calmix.corruptions.constants import ALL_CORRUPTIONS, constants
from calmix.corruptions.corrupt import _FIXED, corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree

BATCH = Path(os.environ.get("CALMIX_DATA", ""), "cifar-10-batches-bin", "test_batch.bin")
pytestmark = pytest.mark.skipif(not BATCH.is_file(), reason="CALMIX_DATA names no folder with CIFAR-10")


def cifar(count):
    rows = np.fromfile(BATCH, np.uint8, count * 3073).reshape(count, 3073)
    return np.ascontiguousarray(rows[:, 1:].reshape(count, 3, 32, 32).transpose(0, 2, 3, 1))


def psnr(found, images):
    return 10 * np.log10(255**2 / np.mean((found.astype(float) - images) ** 2))


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("name", sorted(_FIXED))
def test_deterministic_types_agree_with_the_reference(name, severity):
    images = cifar(64)
    values = constants(name, severity, size=32)
    expected = np.stack([getattr(reference, name)(image, *values) for image in images])
    assert_agree(corrupt(images, name, severity), expected)


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("name", [name for name in ALL_CORRUPTIONS if name not in {*_FIXED, "frost"}])
def test_random_types_are_as_strong_as_the_reference_with_numpys_own_draws(name, severity):
    images = cifar(1000 if name != "glass_blur" else 200)
    values = [int(v) if float(v).is_integer() else v for v in constants(name, severity, size=32)]
    draw = reference.Legacy(severity)
    expected = np.stack([getattr(reference, name)(image, draw, *values) for image in images])
    assert psnr(corrupt(images, name, severity), images) == pytest.approx(psnr(expected, images), abs=0.5)
