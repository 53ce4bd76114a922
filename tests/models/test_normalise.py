import pytest
import torch

from calmix.errors import InputError
from calmix.models.normalise import Normalise


def test_by_hand():
    x = torch.tensor([[[1.0]], [[2.0]]]).expand(3, 2, 1, 1)
    got = Normalise(2, mean=(0.5, 1.0), std=(0.5, 4.0))(x)
    torch.testing.assert_close(got, torch.tensor([[[1.0]], [[0.25]]]).expand(3, 2, 1, 1))
    torch.testing.assert_close(
        Normalise(2, mean=None, std=(0.5, 4.0))(x)[0, :, 0, 0], torch.tensor([2.0, 0.5])
    )
    assert Normalise(2, mean=None, std=None)(x) is x


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="mean has 3 values for 1 channels"):
        Normalise(1, mean=(0.1, 0.2, 0.3), std=None)
    with pytest.raises(InputError, match="std must be above 0"):
        Normalise(2, mean=None, std=(1.0, 0.0))


def test_a_grey_image_is_not_taken_for_a_coloured_one():
    with pytest.raises(InputError, match="takes inputs of 3 channels, and got 1"):
        Normalise(3, mean=(0.1, 0.2, 0.3), std=None)(torch.rand(2, 1, 4, 4))
