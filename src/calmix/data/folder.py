"""ImageNet, and other folders `train/<class>/*.jpg`, `val/<class>/*.jpg`: images are decoded when needed."""

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from calmix.data.dataset import DataSet, Draws
from calmix.errors import InputError
from calmix.seeds import derive
from calmix.sources.folders import class_names
from calmix.workers import own_cpus

SUFFIXES = (".jpg", ".jpeg", ".png")
AHEAD = 2  # batches that are decoded while another is trained on
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Colour images in files: names and labels are in memory, images are decoded a few batches ahead.

    `files` are paths relative to `folder`, as bytes: a million names in one array. With draws (training) an
    image is a random resized crop of `size` x `size` pixels, flipped half of the time; it depends on the
    draws and the image's index alone, not on the number of workers. These are threads: Pillow lets others
    run while it decodes and resizes. Without draws (testing) it is the centre
    of the image, resized so that its shorter side is 256/224 of `size`.
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
        if not self.workers:
            for index in batches:
                images = self._empty(len(index))
                self._decode_into(images, index, draws)
                yield images
            return
        ahead: deque[tuple[Tensor, list[Future[None]]]] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="decode") as threads:
            try:
                for index in batches:
                    images, size = self._empty(len(index)), math.ceil(len(index) / self.workers)
                    pieces = zip(images.split(size), index.split(size), strict=True)
                    ahead.append((images, [threads.submit(self._decode_into, *p, draws) for p in pieces]))
                    if len(ahead) > AHEAD:
                        yield _finished(*ahead.popleft())
                while ahead:
                    yield _finished(*ahead.popleft())
            finally:
                threads.shutdown(cancel_futures=True)

    def _empty(self, count: int) -> Tensor:
        return torch.empty(count, *self.shape, dtype=torch.uint8)

    def _decode_into(self, images: Tensor, index: Tensor, draws: Draws | None) -> None:
        for image, position in zip(images.numpy(), index.tolist(), strict=True):
            random = None
            if draws:
                random = Random(derive(draws.seed, "crop", draws.member, draws.epoch, position))
            path = self.folder / os.fsdecode(self.files[position])
            image[:] = decode(path, self.size, random).transpose(2, 0, 1)


def _finished(images: Tensor, pieces: Sequence[Future[None]]) -> Tensor:
    for piece in pieces:
        piece.result()
    return images


def load_folder(root: str | os.PathLike[str], *, size: int = 224, workers: int | None = None) -> DataSet:
    """The JPEG and PNG images in `root/train` and `root/val`; classes are the sorted names of their folders.

    `workers` threads decode images, by default one per CPU and at most eight, fewer where other runs are
    trained at the same time; 0 decodes between the batches.
    """
    root = Path(root)
    if workers is None:
        workers = min(8, own_cpus())
    classes = class_names(root / "train")
    if unknown := set(class_names(root / "val")) - set(classes):
        raise InputError(f"{root / 'val' / min(unknown)}: a class without a folder in {root / 'train'}")
    train, test = (_scan(root / part, classes, size, workers) for part in ("train", "val"))
    return DataSet("folder", classes, train, test)


def _scan(folder: Path, classes: tuple[str, ...], size: int, workers: int) -> ImageFiles:
    files: list[bytes] = []
    counts = []
    for name in classes:
        entries = os.scandir(folder / name) if (folder / name).is_dir() else ()
        images = [entry.name for entry in entries if entry.name.lower().endswith(SUFFIXES)]
        files += sorted(os.fsencode(f"{name}/{image}") for image in images)
        counts.append(len(images))
    if not files:
        raise InputError(f"{folder}: no images; expected {', '.join(SUFFIXES)} in {folder}/<class>")
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor(counts))
    return ImageFiles(folder, np.array(files), labels, size=size, workers=workers)


def decode(path: Path, size: int, random: Random | None) -> NDArray[np.uint8]:
    """One image file as `(size, size, 3)`: a random resized crop and flip, or the centre if random is None.

    Crop and bilinear resize are one step. A JPEG whose crop is at least twice as large as `size` is decoded
    at half, quarter or eighth scale, never below the resolution of the crop: 2 to 4 times as fast, with a
    PSNR above 40 dB.
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
        raise InputError(f"{path}: cannot be decoded as an image ({error}); fix or remove it") from error
    pixels = np.asarray(resized)
    return pixels[:, ::-1] if random and random.random() < 0.5 else pixels


def random_box(width: int, height: int, random: Random) -> Box:
    """8 to 100 % of the area, aspect ratio 3:4 to 4:3, anywhere; after ten misses the largest central box."""
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
    """The box that remains if the shorter side is resized to 256/224 of `size` and the centre is cropped."""
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
    """RGB from grey, palette, CMYK, without alpha; the upper byte of 16-bit grey (Pillow would clip)."""
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode == "P":
        image = image.convert("RGBA")
    return image.convert("RGB")
