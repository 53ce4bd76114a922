"""Loading relative to reading, batches relative to a gather, decoding relative to Pillow; synthetic files."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from benchmarks.timing import Row, cpu_seconds
from calmix import data
from calmix.augment import crop_flip
from calmix.data.folder import decode, random_box
from calmix.sources.cifar import CIFAR10


def rows(full: bool = False) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_cifar(root / CIFAR10.folder)
        yield from loading(root)
        part = data.load("cifar10", root).train
    assert isinstance(part, data.Part)
    yield from batches(part)
    yield from decoding()


def make_cifar(folder: Path) -> None:
    folder.mkdir()
    random = np.random.default_rng(0)
    for file, count in (CIFAR10.train | CIFAR10.test).items():
        records = random.integers(0, 256, (count, CIFAR10.record), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(folder / file)


def loading(root: Path) -> Iterator[Row]:
    paths = [root / CIFAR10.folder / file for file in CIFAR10.train | CIFAR10.test]
    load, as_bytes, as_arrays = cpu_seconds(
        lambda: data.load("cifar10", root),
        lambda: [path.read_bytes() for path in paths],
        lambda: [np.fromfile(path, dtype=np.uint8) for path in paths],
        repeats=15,
    )
    yield Row("CIFAR-10 to tensors / reading its bytes", load / min(as_bytes, as_arrays), "x", at_most=1.5)


def batches(part: data.Part) -> Iterator[Row]:
    def ours() -> None:
        for _ in data.train_batches(part):
            pass

    def bare() -> None:
        stored = part.inputs.permute(0, 3, 1, 2)
        for index in torch.randperm(len(part)).split(128)[:-1]:
            stored.index_select(0, index).float().div_(255)

    def augmented() -> None:
        generator = torch.Generator().manual_seed(0)
        for batch in data.train_batches(part, as_bytes=True):
            data.as_floats(crop_flip(batch.inputs, pad=4, flip=True, generator=generator))

    seconds, gather, with_crops = cpu_seconds(ours, bare, augmented)
    yield Row("batches of 128 / the bare gather and division", seconds / gather, "x", at_most=1.5)
    yield Row("batches of 128 with crop and flip", len(part) / with_crops, "images/s", at_least=20_000)


def decoding() -> Iterator[Row]:
    """An image of ImageNet's usual size, and one four times as large in each direction."""
    y, x = np.mgrid[0:375, 0:500]
    waves = np.stack([np.sin(x / 9 + y / 7), np.cos(x / 5 - y / 11), np.sin(x * y / 3000)], axis=2)
    noise = np.random.default_rng(0).normal(0, 12, waves.shape)
    image = Image.fromarray((127.5 + 100 * waves + noise).clip(0, 255).astype(np.uint8))
    with tempfile.TemporaryDirectory() as folder:
        for scale, limit in ((1, 1.2), (4, 0.6)):
            path = Path(folder) / f"{scale}.jpg"
            image.resize((500 * scale, 375 * scale), Image.Resampling.BICUBIC).save(path, quality=90)

            def ours(path: Path = path) -> None:
                for seed in range(20):
                    decode(path, 224, Random(seed))

            def bare(path: Path = path) -> None:
                for seed in range(20):
                    with Image.open(path) as opened:
                        box = random_box(*opened.size, Random(seed))
                        np.asarray(
                            opened.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR, box=box)
                        )

            seconds, pillow = cpu_seconds(ours, bare)
            name = f"decoding {500 * scale} x {375 * scale} JPEG / Pillow's decode and resize"
            yield Row(name, seconds / pillow, "x", at_most=limit)
