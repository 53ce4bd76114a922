import numpy as np
import pytest
import torch
from PIL import Image

from calmix.augment import random_resized_crop
from calmix.augment.resized_crop import draw_boxes, resize
from calmix.errors import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [8, 20, 50])
def test_resize_equals_pillow(size):
    images = torch.rand(6, 1, 30, 40, generator=seeded())
    boxes = torch.tensor(
        [[0, 0, 30, 40], [5, 3, 20, 30], [10, 20, 7, 5], [0, 39, 30, 1], [2, 2, size % 28, 9], [29, 0, 1, 40]]
    )
    for image, (top, left, height, width), ours in zip(
        images, boxes, resize(images, boxes, size), strict=True
    ):
        picture = Image.fromarray(image[0].numpy())
        box = tuple(int(v) for v in (left, top, left + width, top + height))
        theirs = picture.crop(box).resize((size, size), Image.Resampling.BILINEAR)
        np.testing.assert_allclose(ours[0].numpy(), np.asarray(theirs), atol=1e-5)


def test_boxes_lie_inside_and_have_the_area_and_shape_asked_for():
    top, left, height, width = draw_boxes(20_000, 60, 80, (0.1, 0.3), (0.5, 2.0), seeded()).unbind(1)
    assert top.min() == 0
    assert left.min() == 0
    assert (top + height).max() == 60
    assert (left + width).max() == 80
    share = height * width / (60 * 80)
    assert 0.09 < share.min() < 0.11
    assert 0.29 < share.max() < 0.31
    shape = width / height
    assert 0.47 < shape.min() < 0.53
    assert 1.9 < shape.max() < 2.1
    assert abs((shape < 1).float().mean() - 0.5) < 0.02  # log-uniform: lying as often as standing


def test_a_shape_that_cannot_fit_becomes_the_largest_central_box():
    box = draw_boxes(1, 100, 20, (0.9, 1.0), (1.0, 2.0), seeded())
    assert box.tolist() == [[40, 0, 20, 20]]


def test_the_whole_image_at_its_own_size_is_the_identity():
    images = torch.rand(2, 3, 16, 16, generator=seeded())
    whole = random_resized_crop(images, 16, scale=(1.0, 1.0), ratio=(1.0, 1.0), generator=seeded())
    torch.testing.assert_close(whole, images)


def test_shapes_and_determinism():
    images = torch.rand(2, 3, 3, 20, 30, generator=seeded())
    first, again = (random_resized_crop(images, 12, generator=seeded(5)) for _ in range(2))
    assert first.shape == (2, 3, 3, 12, 12)
    assert torch.equal(first, again)
    assert first.min() >= 0
    assert first.max() <= 1 + 1e-6


@pytest.mark.parametrize(
    "bad", [{"scale": (0.0, 1.0)}, {"scale": (0.5, 1.5)}, {"ratio": (2.0, 1.0)}, {"size": 0}]
)
def test_bad_input_is_named(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        random_resized_crop(torch.rand(2, 3, 8, 8), **{"size": 8, **bad})


def test_whole_numbers_are_refused():
    with pytest.raises(InputError, match="uint8"):
        random_resized_crop(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), 8)
