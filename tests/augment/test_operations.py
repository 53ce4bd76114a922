"""Every operation beside Pillow's, on photographs' gradients and on noise, at levels of both signs."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from calmix.augment.operations import OPERATIONS, apply

COUNT = 48


def pillow(image: np.ndarray, operation: str, level: float) -> np.ndarray:
    picture = Image.fromarray(image.squeeze())
    width, height = picture.size
    strength = abs(level)
    sign = 1 if level > 0 else -1
    matrix = {
        "shear_x": (1, 0.3 * level / 10, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, 0.3 * level / 10, 1, 0),
        "translate_x": (1, 0, sign * int(width / 3 * strength / 10), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, sign * int(height / 3 * strength / 10)),
    }
    if operation in matrix:
        done = picture.transform(
            picture.size, Image.Transform.AFFINE, matrix[operation], resample=Image.Resampling.BILINEAR
        )
    elif operation == "rotate":
        done = picture.rotate(sign * int(30 * strength / 10), resample=Image.Resampling.BILINEAR)
    elif operation == "posterize":
        done = ImageOps.posterize(picture, 4 - int(4 * strength / 10))
    elif operation == "solarize":
        done = ImageOps.solarize(picture, 256 - int(256 * strength / 10))
    else:
        done = getattr(ImageOps, operation)(picture)
    return np.asarray(done).reshape(image.shape)


def pictures(channels: int, height: int, width: int) -> torch.Tensor:
    """Noise, gradients, a narrow range, two values and one value: (N, C, H, W) uint8."""
    generator = torch.Generator().manual_seed(channels)
    noise = torch.rand(COUNT // 2, channels, height, width, generator=generator)
    coarse = torch.rand(COUNT // 2, channels, 5, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    smooth[:6] = 0.3 + 0.2 * smooth[:6]
    smooth[6:10] = smooth[6:10].round()
    smooth[10:12] = 0.5
    return (torch.cat([noise, smooth]) * 255).round().byte()


@pytest.mark.parametrize(
    ("channels", "height", "width"), [(3, 32, 32), (1, 28, 28), (3, 24, 40), (3, 72, 96), (1, 300, 20)]
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_equals_pillow(operation, channels, height, width):
    images = pictures(channels, height, width)
    level = torch.empty(COUNT).uniform_(0.1, 10, generator=torch.Generator().manual_seed(1))
    level[::2] *= -1
    ours = apply(images, torch.full((COUNT,), OPERATIONS.index(operation)), level)
    theirs = np.stack(
        [
            pillow(image, operation, float(at)).transpose(2, 0, 1)
            for image, at in zip(images.permute(0, 2, 3, 1).numpy(), level, strict=True)
        ]
    )
    apart = np.abs(ours.numpy().astype(int) - theirs.astype(int))
    if operation in ("rotate", "shear_x", "shear_y"):
        assert np.mean(apart > 1) < 0.001
        assert np.mean(apart > 0) < 0.01
    elif operation == "autocontrast":  # what is a whole number Pillow's arithmetic may put just below it
        assert apart.max() <= 1
        assert np.mean(apart > 0) < 0.02
    else:
        assert apart.max() == 0


def test_each_image_has_its_own_operation_and_the_rest_stay():
    images = pictures(3, 16, 16)
    operation = torch.arange(COUNT) % (len(OPERATIONS) + 1)
    level = torch.linspace(1, 9, COUNT)
    mixed = apply(images, operation, level)
    for kind in range(len(OPERATIONS)):
        alone = apply(images, torch.full((COUNT,), kind), level)
        assert torch.equal(mixed[operation == kind], alone[operation == kind])
    stay = operation == len(OPERATIONS)
    assert torch.equal(mixed[stay], images[stay])


def test_input_is_not_modified():
    images = pictures(3, 8, 8)
    before = images.clone()
    apply(images, torch.arange(COUNT) % 9, torch.full((COUNT,), 5.0))
    assert torch.equal(images, before)


@pytest.mark.parametrize(("height", "width"), [(9, 7), (72, 96)])
def test_level_zero_geometry_is_the_identity(height, width):
    images = pictures(3, height, width)
    for kind in range(4, 9):
        assert torch.equal(apply(images, torch.full((COUNT,), kind), torch.zeros(COUNT)), images)
