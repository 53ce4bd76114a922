import numpy as np
import pytest
from scipy import stats

from calmix.corruptions import noise
from calmix.corruptions.dispatch import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


class EveryWord:
    """Draws that are all 65,536 words in order."""

    def words(self, *shape):
        assert shape == (256, 256, 1)
        return np.arange(65536, dtype=np.uint16).reshape(1, *shape)


def flat(level):
    return np.full((1, 256, 256, 1), level, np.uint8)


@pytest.mark.parametrize("name", ["gaussian_noise", "speckle_noise"])
@pytest.mark.parametrize("severity", [1, 5])
def test_normal_noise_equals_reference(name, severity):
    images = photographs()
    expected = reference.corrupted(images, name, severity, seed=7)
    assert_agree(corrupt(images, name, severity, seed=7), expected, fraction=0.001)


@pytest.mark.parametrize("photons", [500, 12, 3])
@pytest.mark.parametrize("level", [0, 1, 100, 255])
def test_shot_noise_has_the_probabilities_of_poisson(photons, level):
    noisy = noise.shot_noise(flat(level), EveryWord(), photons)
    frequencies = np.bincount(noisy.ravel(), minlength=256) / 65536
    counts = np.arange(2000)
    levels = np.floor(np.minimum(counts / photons, 1) * 255).astype(int)
    expected = np.bincount(levels, stats.poisson.pmf(counts, level / 255 * photons), minlength=256)
    np.testing.assert_allclose(frequencies, expected, atol=1.5 / 65536)


def test_impulse_noise_of_one_percent_is_half_black_half_white():
    noisy = noise.impulse_noise(flat(77), EveryWord(), 0.01)
    values, counts = np.unique(noisy, return_counts=True)
    assert values.tolist() == [0, 77, 255]
    assert counts.tolist() == [328, 65536 - 656, 328]


def test_impulse_noise_of_channels_is_independent():
    changed = corrupt(np.full((64, 32, 32, 3), 77, np.uint8), "impulse_noise", 5) != 77
    assert changed.all(axis=-1).mean() < 0.001
    assert changed.mean() == pytest.approx(0.07, rel=0.03)


def test_gaussian_noise_has_its_standard_deviation_and_is_truncated():
    noisy = corrupt(np.full((64, 32, 32, 3), 128, np.uint8), "gaussian_noise", 3).astype(float)
    assert noisy.std() == pytest.approx(0.08 * 255, rel=0.01)
    assert noisy.mean() == pytest.approx(127.5, abs=0.2)


@pytest.mark.parametrize("name", ["speckle_noise", "shot_noise"])
def test_multiplicative_noise_keeps_black(name):
    assert not corrupt(np.zeros((2, 32, 32, 3), np.uint8), name, 5).any()
