import numpy as np
import pytest
from scipy import stats

from calmix.corruptions import noise
from calmix.corruptions.constants import constants
from calmix.corruptions.corrupt import corrupt
from tests.corruptions import reference
from tests.corruptions.scenes import assert_agree, photographs


class EveryWord:
    """Draws that go through all 65,536 words in order."""

    def words(self, *shape):
        assert shape == (256, 256, 1)
        return np.arange(65536, dtype=np.uint16).reshape(1, *shape)


def flat(level):
    return np.full((1, 256, 256, 1), level, np.uint8)


@pytest.mark.parametrize("name", ["gaussian_noise", "speckle_noise"])
@pytest.mark.parametrize("severity", [1, 5])
def test_the_same_draws_give_the_reference(name, severity):
    images = photographs()
    values = constants(name, severity, size=32)
    one_by_one = [
        getattr(reference, name)(image, reference.OneOf(7, name, severity, i, 64), *values)
        for i, image in enumerate(images)
    ]
    assert_agree(corrupt(images, name, severity, seed=7), np.stack(one_by_one), share=0.001)


@pytest.mark.parametrize("photons", [500, 12, 3])
@pytest.mark.parametrize("level", [0, 1, 100, 255])
def test_shot_noise_has_the_probabilities_of_poisson(photons, level):
    found = np.bincount(noise.shot_noise(flat(level), EveryWord(), photons).ravel(), minlength=256) / 65536
    counts = np.arange(2000)
    levels = np.floor(np.minimum(counts / photons, 1) * 255).astype(int)
    expected = np.bincount(levels, stats.poisson.pmf(counts, level / 255 * photons), minlength=256)
    np.testing.assert_allclose(found, expected, atol=1.5 / 65536)


def test_impulse_noise_hits_one_in_a_hundred_half_black_half_white():
    found = noise.impulse_noise(flat(77), EveryWord(), 0.01)
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == [0, 77, 255]
    assert counts.tolist() == [328, 65536 - 656, 328]


def test_impulse_noise_hits_channels_apart():
    hit = corrupt(np.full((64, 32, 32, 3), 77, np.uint8), "impulse_noise", 5) != 77
    assert hit.all(axis=-1).mean() < 0.001
    assert hit.mean() == pytest.approx(0.07, rel=0.03)


def test_gaussian_noise_on_mid_grey_has_its_standard_deviation_and_truncates():
    noisy = corrupt(np.full((64, 32, 32, 3), 128, np.uint8), "gaussian_noise", 3).astype(float)
    assert noisy.std() == pytest.approx(0.08 * 255, rel=0.01)
    assert noisy.mean() == pytest.approx(127.5, abs=0.2)


@pytest.mark.parametrize("name", ["speckle_noise", "shot_noise"])
def test_black_stays_black(name):
    assert not corrupt(np.zeros((2, 32, 32, 3), np.uint8), name, 5).any()
