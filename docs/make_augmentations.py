"""Draw docs/augmentations.png: every augmentation on the same few photographs.

    python docs/make_augmentations.py [IMAGE ...]

Without arguments the photographs are the two that come with scikit-learn.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor

from calmix.augment import (
    AugMix,
    Batch,
    CAMixup,
    CutMix,
    Mixup,
    RegMixup,
    crop_flip,
    one_hot,
    random_resized_crop,
    smooth_labels,
)
from calmix.augment.operations import OPERATIONS, apply

SIZE = 64
LEVEL = 3.0


def main(paths: list[str]) -> None:
    images = photographs(paths)
    labels = torch.arange(len(images))
    columns: list[tuple[str, Tensor, Tensor | None]] = [("clean", images, one_hot(labels, len(images)))]
    columns += [("crop and flip", crop_flip(images, pad=8, generator=seeded(1)), None)]
    columns += [("resized crop", random_resized_crop(images, SIZE, generator=seeded()), None)]
    for number, name in enumerate(OPERATIONS):
        kind, level = torch.full((len(images),), number), torch.full((len(images),), LEVEL)
        columns += [(name.replace("_", " "), apply((images * 255).byte(), kind, level) / 255, None)]
    columns += [(f"AugMix {i}", AugMix()(images, generator=seeded(i)), None) for i in (1, 2)]

    mixup = Mixup(len(images), partner="reversed")
    plan = mixup.plan(labels, generator=seeded(2))
    columns += [mixed("Mixup", plan(images)), mixed("AugMixup", plan(columns[-1][1]))]
    columns += [mixed("CutMix", CutMix(len(images))(images, labels, generator=seeded(3)))]
    regmixup = RegMixup(len(images))(images, labels, generator=seeded(3))
    columns += [
        ("RegMixup's\nmixed rows", *(part[0, len(images) :] for part in (regmixup.inputs, regmixup.targets)))
    ]
    camixup = CAMixup(len(images))
    camixup.active[0, : len(images) // 2] = True
    columns += [mixed("CAMixup,\nupper half on", camixup(images, labels, generator=seeded(3)))]
    columns += [("label\nsmoothing 0.2", images, smooth_labels(one_hot(labels, len(images)), 0.2))]

    half = len(columns) // 2
    figure = plt.figure(figsize=(1.1 * half, 2.7 * len(images)))
    bands = figure.subfigures(2, 1, squeeze=False)[:, 0]
    for band, part in zip(bands, (columns[:half], columns[half:]), strict=True):
        axes = band.subplots(len(images), half)
        band.subplots_adjust(0.005, 0.04, 0.995, 0.92, 0.04, 0.2)
        for column, (title, pictures, targets) in enumerate(part):
            axes[0, column].set_title(title, fontsize=8)
            for row, axis in enumerate(axes[:, column]):
                axis.imshow(pictures[row].clamp(0, 1).permute(1, 2, 0))
                axis.set(xticks=[], yticks=[])
                if targets is not None:
                    axis.set_xlabel(" ".join(f"{share:.2f}" for share in targets[row]), fontsize=6)
    figure.savefig(Path(__file__).with_name("augmentations.png"), dpi=72, pil_kwargs={"optimize": True})


def mixed(title: str, batch: Batch) -> tuple[str, Tensor, Tensor]:
    return title, batch.inputs[0], batch.targets[0]


def photographs(paths: list[str]) -> Tensor:
    """(N, 3, SIZE, SIZE) in [0, 1]: central squares of the files, or four of the sample images."""
    if paths:
        pictures = [Image.open(path).convert("RGB") for path in paths]
        squares = [picture.crop(central(picture)) for picture in pictures]
    else:
        china, flower = (Image.fromarray(image) for image in load_sample_images().images)
        boxes = [(china, (60, 40, 360, 340)), (flower, (180, 60, 540, 420)), (china, (330, 120, 630, 420))]
        squares = [picture.crop(box) for picture, box in [*boxes, (flower, (330, 0, 640, 310))]]
    resized = [np.asarray(square.resize((SIZE, SIZE), Image.Resampling.BILINEAR)) for square in squares]
    return torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2) / 255


def central(picture: Image.Image) -> tuple[int, int, int, int]:
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return left, top, left + side, top + side


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


if __name__ == "__main__":
    main(sys.argv[1:])
