"""Augmentation of 256 colour images of 32 x 32: transforms beside Pillow, mixers beside torch.lerp.

AugMix is compared with the same operations by Pillow as public loaders do them, image by image: arrays of
floats in and out of every operation, or (lean) converted once a chain.
"""

from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from benchmarks.timing import Row, cpu_seconds
from calmix.augment import AugMix, CAMixup, CutMix, ForgettingMixup, Mixup, crop_flip
from calmix.augment.operations import OPERATIONS

BATCH, CLASSES, MEMBERS = 256, 100, 4


def rows(full: bool = False) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(0)
    images = smooth_images(BATCH)
    yield from augmix_beside_pillow(images, repeats=10 if full else 4, at_least=(10_000, 10))
    yield from augmix_beside_pillow(smooth_images(16, 224), repeats=5 if full else 2, at_least=(None, 5))

    (seconds,) = cpu_seconds(lambda: crop_flip(images, generator=generator), repeats=20)
    yield Row("crop and flip", BATCH / seconds, "images/s", at_least=30_000)

    labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    other = images.flip(0)
    mixup, cutmix = Mixup(CLASSES), CutMix(CLASSES)
    lerp, mixed, cut = cpu_seconds(
        lambda: torch.lerp(images, other, 0.3),
        lambda: mixup(images, labels, generator=generator),
        lambda: cutmix(images, labels, generator=generator),
        repeats=20,
    )
    yield Row("Mixup", mixed / lerp, "lerps", at_most=2.5)
    yield Row("CutMix", cut / lerp, "lerps")

    camixup = CAMixup(CLASSES, members=MEMBERS)
    logits = torch.randn(MEMBERS, 2500, CLASSES, generator=generator)
    truth = torch.randint(0, CLASSES, (2500,), generator=generator)
    camixup.update(logits, truth)
    forgetting = ForgettingMixup(CLASSES, 47_500, members=MEMBERS)
    index = torch.randperm(47_500, generator=generator)[:BATCH]
    many, many_labels = images.repeat(MEMBERS, 1, 1, 1), labels.repeat(MEMBERS)
    all_classes, some_classes, forgotten = cpu_seconds(
        lambda: mixup(many, many_labels, generator=generator),
        lambda: camixup(images, labels, generator=generator),
        lambda: forgetting(images, labels, index=index, generator=generator),
        repeats=20,
    )
    yield Row("CAMixup, 4 members, beside Mixup of 4 x 256", some_classes / all_classes, "times", at_most=1.2)
    yield Row("ForgettingMixup, 4 members, beside the same", forgotten / all_classes, "times", at_most=1.2)

    single = CAMixup(CLASSES)

    def forget() -> None:
        forgetting.observe(logits[:, :BATCH], labels, index)
        forgetting.update()

    one, four, counted = cpu_seconds(
        lambda: single.update(logits[:1], truth),
        lambda: camixup.update(logits, truth),
        forget,
        repeats=20,
    )
    yield Row("CAMixup.update, 1 member, 2,500 x 100", one * 1e3, "ms", at_most=5)
    yield Row("CAMixup.update, 4 members, 2,500 x 100", four * 1e3, "ms")
    yield Row("ForgettingMixup.observe and update, 4 members, 47,500", counted * 1e3, "ms")


def augmix_beside_pillow(
    images: Tensor, *, repeats: int, at_least: tuple[float | None, float]
) -> Iterator[Row]:
    """Images per second of both, with limits of ours and of the ratio."""
    count, size = len(images), f"{images.shape[-2]} x {images.shape[-1]}"
    generator, draw = torch.Generator().manual_seed(0), np.random.default_rng(0)
    augmix = AugMix()
    arrays = [image.astype(np.float64) for image in images.permute(0, 2, 3, 1).numpy()]
    ours, usual, lean = cpu_seconds(
        lambda: augmix(images, generator=generator),
        lambda: [augmix_one(array, draw, keep_pictures=False) for array in arrays],
        lambda: [augmix_one(array, draw, keep_pictures=True) for array in arrays],
        repeats=repeats,
    )
    yield Row(f"AugMix, {size}", count / ours, "images/s", at_least=at_least[0])
    yield Row(f"AugMix by Pillow, {size}", count / usual, "images/s")
    yield Row("  ours relative to it", usual / ours, "x", at_least=at_least[1])
    yield Row(f"AugMix by Pillow, lean, {size}", count / lean, "images/s")
    yield Row("  ours relative to it", lean / ours, "x")


def smooth_images(count: int, side: int = 32) -> Tensor:
    """Images with the gradients of photographs rather than the noise of dice, in [0, 1]."""
    coarse = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    return torch.nn.functional.interpolate(coarse, side, mode="bicubic").clamp(0, 1)


def augmix_one(clean: np.ndarray, draw: np.random.Generator, *, keep_pictures: bool) -> np.ndarray:
    """The same AugMix as a loader would do it, one image (H, W, C) after another.

    Public loaders take arrays of floats in and out of every operation; `keep_pictures` converts once a chain.
    """
    blend = np.zeros_like(clean)
    for weight in draw.dirichlet([1.0] * 3):
        chain = to_picture(clean)
        for _ in range(draw.integers(1, 4)):
            chain = operate(chain, draw.choice(OPERATIONS), draw.uniform(0.1, 3), draw.choice((-1, 1)))
            if not keep_pictures:
                chain = to_picture(np.asarray(chain) / 255.0)
        blend += weight * (np.asarray(chain) / 255.0)
    keep = draw.beta(1.0, 1.0)
    return keep * clean + (1 - keep) * blend


def to_picture(image: np.ndarray) -> Image.Image:
    return Image.fromarray(np.clip(image * 255, 0, 255).astype(np.uint8))


def operate(picture: Image.Image, operation: str, level: float, sign: int) -> Image.Image:
    """One operation of AugMix by Pillow, as `calmix.augment.operations.apply` states it."""
    width, height = picture.size

    def affine(*matrix: float) -> Image.Image:
        return picture.transform(
            picture.size, Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR
        )

    match operation:
        case "autocontrast":
            return ImageOps.autocontrast(picture)
        case "equalize":
            return ImageOps.equalize(picture)
        case "posterize":
            return ImageOps.posterize(picture, 4 - int(4 * level / 10))
        case "solarize":
            return ImageOps.solarize(picture, 256 - int(256 * level / 10))
        case "rotate":
            return picture.rotate(sign * int(30 * level / 10), resample=Image.Resampling.BILINEAR)
        case "shear_x":
            return affine(1, sign * 0.3 * level / 10, 0, 0, 1, 0)
        case "shear_y":
            return affine(1, 0, 0, sign * 0.3 * level / 10, 1, 0)
        case "translate_x":
            return affine(1, 0, sign * int(width / 3 * level / 10), 0, 1, 0)
        case "translate_y":
            return affine(1, 0, 0, 0, 1, sign * int(height / 3 * level / 10))
    raise ValueError(operation)
