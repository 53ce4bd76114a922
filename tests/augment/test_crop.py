import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.augment import crop_flip
from calmix.errors import InputError


def every_crop(image: torch.Tensor, pad: int, flip: bool) -> list[torch.Tensor]:
    """All that may come out of one image (C, H, W)."""
    _, height, width = image.shape
    padded = torch.nn.functional.pad(image, (pad, pad, pad, pad))
    crops = [padded[:, y : y + height, x : x + width] for y in range(2 * pad + 1) for x in range(2 * pad + 1)]
    return crops + [crop.flip(-1) for crop in crops] if flip else crops


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(2, 5),
    st.integers(2, 5),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 99),
)
def test_each_result_is_a_crop_of_its_own_image(channels, height, width, pad, flip, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 3, channels, height, width, generator=generator)
    before = images.clone()
    cropped = crop_flip(images, pad=pad, flip=flip, generator=generator)
    assert torch.equal(images, before)
    for image, result in zip(images.flatten(0, 1), cropped.flatten(0, 1), strict=True):
        assert any(torch.equal(result, crop) for crop in every_crop(image, pad, flip))


def test_all_offsets_and_flips_come_alike():
    image = torch.arange(1.0, 10).view(1, 3, 3)
    results = crop_flip(image.expand(9000, 1, 3, 3), pad=1, generator=torch.Generator().manual_seed(0))
    crops = torch.stack(every_crop(image, 1, True))
    seen = (results.unsqueeze(1) == crops).flatten(2).all(2).sum(0)
    assert seen.sum() == 9000
    assert ((seen - 500).abs() < 100).all()  # 18 kinds, 500 each, standard deviation 22


def test_the_generator_decides():
    images = torch.rand(20, 1, 6, 6)
    first, again, other = (crop_flip(images, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="pad = -1"):
        crop_flip(torch.rand(2, 1, 4, 4), pad=-1)
    with pytest.raises(InputError, match="height"):
        crop_flip(torch.rand(4, 4))


@pytest.mark.parametrize("flip", [True, False])
def test_bytes_are_cropped_as_floats_are(flip):
    images = torch.randint(256, (2, 5, 3, 6, 4), dtype=torch.uint8)
    cropped, floats = (
        crop_flip(given, pad=2, flip=flip, generator=torch.Generator().manual_seed(0))
        for given in (images, images.float())
    )
    assert cropped.dtype == torch.uint8
    assert torch.equal(cropped.float(), floats)
