"""ImageNet, and anything laid out as `train/<class>/*.jpg`, `val/<class>/*.jpg`: decoded when needed."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from calmix.data.dataset import DataSet, Draws
from calmix.errors import InputError
from calmix.seeds import derive

SUFFIXES = (".jpg", ".jpeg", ".png")
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Colour images in files: names and labels are in memory, the images of a batch are decoded by a worker.

    `files` are paths below `folder`, as bytes: a million names in one array. With draws (training) an image
    is a random resized crop of `size` x `size` pixels, flipped half of the time, which depends on the draws
    and its position alone, not on the number of workers; without (testing) it is the centre of the image
    resized so that its shorter side is 256/224 of `size`.
    """

    folder: Path
    files: NDArray[np.bytes_]
    labels: Tensor
    groups: Tensor | None = None
    size: int = 224
    workers: int = 0

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    def take(self, index: Tensor) -> "ImageFiles":
        groups = None if self.groups is None else self.groups[index]
        return replace(self, files=self.files[index.cpu().numpy()], labels=self.labels[index], groups=groups)

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        loader = DataLoader(
            _Decoded(self, [index.numpy() for index in batches], draws),
            batch_size=None,
            num_workers=self.workers,
            generator=torch.Generator(),  # else it would draw from the global one
        )
        for images in loader:
            if isinstance(images, InputError):
                raise images
            yield images


def load_folder(root: str | os.PathLike[str], *, size: int = 224, workers: int | None = None) -> DataSet:
    """The JPEG and PNG images below `root/train` and `root/val`; classes are the folders' names, sorted.

    `workers` processes decode them, one for each CPU and at most eight unless told; 0: this process does.
    """
    root = Path(root)
    if workers is None:
        workers = min(
            8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
    classes = class_names(root / "train")
    if unknown := set(class_names(root / "val")) - set(classes):
        raise InputError(f"{root / 'val' / min(unknown)}: a class that {root / 'train'} does not have")
    train, test = (_scan(root / part, classes, size, workers) for part in ("train", "val"))
    return DataSet("folder", classes, train, test)


def class_names(folder: Path) -> tuple[str, ...]:
    """The folders in `folder`, sorted by name; hidden ones do not count."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; images are expected in {folder}/<class>/*.jpg")
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != ".")
    if not names:
        raise InputError(f"{folder}: no class in it; images are expected in {folder}/<class>/*.jpg")
    return tuple(names)


def _scan(folder: Path, classes: tuple[str, ...], size: int, workers: int) -> ImageFiles:
    files: list[bytes] = []
    counts = []
    for name in classes:
        before = len(files)
        if (folder / name).is_dir():
            found = (entry.name for entry in os.scandir(folder / name))
            files += sorted(
                os.fsencode(f"{name}/{file}") for file in found if file.lower().endswith(SUFFIXES)
            )
        counts.append(len(files) - before)
    if not files:
        raise InputError(f"{folder}: no image in it; looked for {', '.join(SUFFIXES)} in {folder}/<class>")
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor(counts))
    return ImageFiles(folder, np.array(files), labels, size=size, workers=workers)


class _Decoded(Dataset[Tensor | InputError]):
    """Batch i as uint8 `(..., B, 3, size, size)`, or the error, which a worker would bury in a traceback."""

    def __init__(self, part: ImageFiles, batches: list[NDArray[np.int64]], draws: Draws | None) -> None:
        self.part, self.batches, self.draws = part, batches, draws

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> Tensor | InputError:
        index, size = self.batches[i], self.part.size
        images = np.empty((index.size, size, size, 3), dtype=np.uint8)
        try:
            for row, position in enumerate(index.flat):
                path = self.part.folder / os.fsdecode(self.part.files[position])
                images[row] = decode(path, size, self._random(row // index.shape[-1], int(position)))
        except InputError as error:
            return error
        return torch.from_numpy(images.transpose(0, 3, 1, 2).copy()).view(*index.shape, 3, size, size)

    def _random(self, row: int, position: int) -> Random | None:
        if self.draws is None:
            return None
        return Random(derive(self.draws.seed, "crop", self.draws.members[row], self.draws.epoch, position))


def decode(path: Path, size: int, random: Random | None) -> NDArray[np.uint8]:
    """One image file as `(size, size, 3)`: a random resized crop and flip, or the centre if random is None.

    Crop and bilinear resize are one step. A JPEG whose crop is at least twice as large as `size` is decoded
    at a half, a quarter or an eighth, never below what the crop needs: 2 to 4 times faster, and above
    40 dB from the whole.
    """
    try:
        with Image.open(path) as image:
            width, height = image.size
            box = random_box(width, height, random) if random else central_box(width, height, size)
            across, down = size / (box[2] - box[0]), size / (box[3] - box[1])
            image.draft(None, (math.ceil(width * across), math.ceil(height * down)))
            x, y = image.width / width, image.height / height
            box = (box[0] * x, box[1] * y, box[2] * x, box[3] * y)
            resized = _rgb(image).resize((size, size), Image.Resampling.BILINEAR, box=box)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: cannot be decoded as an image ({error}); mend or remove it") from error
    pixels = np.asarray(resized)
    return pixels[:, ::-1] if random and random.random() < 0.5 else pixels


def random_box(width: int, height: int, random: Random) -> Box:
    """8 to 100 % of the area, aspect 3:4 to 4:3, anywhere; after ten misses the largest one in the middle."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(-1, 1) * math.log(4 / 3))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(random.random() * (width - w + 1)), int(random.random() * (height - h + 1))
            return left, top, left + w, top + h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def central_box(width: int, height: int, size: int) -> Box:
    """What remains of the image when its shorter side becomes 256/224 of `size` and the middle is cut out."""
    shorter = round(size * 256 / 224)
    scale = shorter / min(width, height)
    box = []
    for length in (width, height):
        resized = shorter if length == min(width, height) else int(scale * length)
        first = round((resized - size) / 2)
        box.append((first * length / resized, (first + size) * length / resized))
    (left, right), (top, bottom) = box
    return left, top, right, bottom


def _rgb(image: Image.Image) -> Image.Image:
    """Grey, palette, CMYK as RGB, without transparency; of 16-bit grey the upper byte (Pillow would clip)."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode == "P":
        image = image.convert("RGBA")
    return image.convert("RGB")
