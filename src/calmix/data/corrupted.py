"""Corrupted test sets: computed batch by batch, or in folders of the layout of CIFAR-10-C and CIFAR-100-C.

`<name>.npy` holds uint8 (5 N, H, W, C), severity s in rows (s - 1) N to s N, and `labels.npy` the N labels
five times. A folder written by calmix has its seed and a digest of the images in `corruptions.json`.
"""

import contextlib
import difflib
import hashlib
import itertools
import json
import math
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from numpy.lib import format as npy
from torch import Tensor

from calmix.corruptions.constants import CORRUPTIONS, SEVERITIES, check_severity, constants
from calmix.corruptions.dispatch import corrupt
from calmix.corruptions.draws import block_length
from calmix.corruptions.frost import frost_source
from calmix.data.dataset import Draws, Examples, Part
from calmix.errors import InputError
from calmix.files import read_npy_header, replacing
from calmix.locks import lock
from calmix.records import read_json
from calmix.workers import init_worker

Images = npt.NDArray[np.uint8]
Folder = str | os.PathLike[str]
PROVENANCE = "corruptions.json"


def open_corrupted(folder: Folder, name: str, severity: int) -> Images:
    """The images of one corruption and severity, uint8 (N, H, W, C), memory-mapped."""
    check_severity(severity)
    path = Path(folder) / f"{name}.npy"
    shape, dtype = _header(path)
    if dtype != np.uint8 or len(shape) != 4 or shape[-1] not in (1, 3) or shape[0] % len(SEVERITIES):
        raise InputError(f"{path} must be uint8 (5 N, height, width, 3 or 1), got {dtype} {shape}")
    labels = Path(folder) / "labels.npy"
    if labels.exists() and _header(labels)[0] != shape[:1]:
        raise InputError(f"{path} has {shape[0]} images, but {labels} has {_header(labels)[0][0]} labels")
    count = shape[0] // len(SEVERITIES)
    images: Images = np.load(path, mmap_mode="r", allow_pickle=False)
    return images[(severity - 1) * count : severity * count]


def corrupted_labels(folder: Folder) -> npt.NDArray[np.int64]:
    """The N labels of a folder's images, the same for every corruption and severity."""
    path = Path(folder) / "labels.npy"
    shape, dtype = _header(path)
    if dtype.kind not in "ui" or len(shape) != 1 or shape[0] % len(SEVERITIES):
        raise InputError(f"{path} must be integers (5 N,), got {dtype} {shape}")
    repeated = np.load(path, allow_pickle=False).reshape(len(SEVERITIES), -1)
    if (repeated != repeated[0]).any():
        raise InputError(f"{path} must repeat the same labels for each of the five severities")
    return repeated[0].astype(np.int64)  # type: ignore[no-any-return]


def read_corrupted(folder: Path, name: str, severity: int, index: Tensor, labels: Tensor) -> Part:
    """The images at `index` of a folder's test set, whose labels must be `labels`."""
    images = open_corrupted(folder, name, severity)
    if len(index) and int(index.max()) >= len(images):
        raise InputError(f"{folder} has {len(images)} images of {name}, but index has {int(index.max())}")
    folder_labels = torch.from_numpy(corrupted_labels(folder))[index]
    if not torch.equal(folder_labels, labels):
        i = int((folder_labels != labels).nonzero()[0, 0])
        raise InputError(
            f"{folder}: image {int(index[i])} has the label {int(folder_labels[i])}, but {int(labels[i])} in "
            "the test set: the folder is of another test set or in another order"
        )
    return Part(torch.from_numpy(images[index.numpy()]), labels)


def write_corrupted(
    images: Images | torch.Tensor,
    labels: Sequence[int] | npt.NDArray[Any] | torch.Tensor,
    out: Folder,
    *,
    names: Sequence[str] = CORRUPTIONS,
    seed: int = 0,
    jobs: int = 1,
    frost_folder: Folder | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Corrupt uint8 images (N, H, W, C) at all five severities and write the official layout to `out`.

    Files are written atomically, and complete ones are kept: a second call resumes an interrupted first. A
    folder with another seed or other images raises an error. `jobs` processes work on chunks of the images,
    of which few are in memory at a time. `progress(name, done, total)` counts images.
    """
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim != 4 or images.dtype != np.uint8 or len(images) == 0:
        raise InputError(f"images must be uint8 (N, H, W, 3 or 1), got {images.dtype} {images.shape}")
    if labels.shape != (len(images),) or labels.dtype.kind not in "ui" or labels.min() < 0:
        raise InputError(f"labels must be {len(images)} integers from 0, got {labels.dtype} {labels.shape}")
    for name in names:
        constants(name, 1, size=32)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with lock(out):
        try:
            _write(images, labels, out, names, seed, jobs, frost_folder, progress)
        finally:
            (out / ".lock").unlink(missing_ok=True)  # the official layout has no such file


def _write(
    images: Images,
    labels: npt.NDArray[Any],
    out: Path,
    names: Sequence[str],
    seed: int,
    jobs: int,
    frost_folder: Folder | None,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    shape = (len(SEVERITIES) * len(images), *images.shape[1:])
    missing = [name for name in names if not _is_complete(out / f"{name}.npy", shape, np.dtype(np.uint8))]
    _write_provenance(out, images, seed, frost_source(frost_folder) if "frost" in missing else None)
    dtype = next(np.dtype(kind) for kind in ("u1", "i2", "i8") if labels.max() <= np.iinfo(kind).max)
    if not _is_complete(out / "labels.npy", shape[:1], dtype):
        with replacing(out / "labels.npy") as file:
            np.save(file, np.tile(labels.astype(dtype), len(SEVERITIES)))

    length = 16 * block_length(*images.shape[1:3])
    starts = range(0, len(images), length)
    tasks = (
        (images[start : start + length], name, severity, start, {"seed": seed, "frost_folder": frost_folder})
        for name in missing
        for severity in SEVERITIES
        for start in starts
    )
    done, total = 0, shape[0] * len(missing)
    with contextlib.closing(_corrupt_chunks(tasks, jobs)) as chunks:
        for name in missing:
            with replacing(out / f"{name}.npy") as file:
                npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
                for chunk in itertools.islice(chunks, len(SEVERITIES) * len(starts)):
                    file.write(chunk.data)
                    done += len(chunk)
                    if progress:
                        progress(name, done, total)


def _corrupt_chunk(images: Images, name: str, severity: int, start: int, options: dict[str, Any]) -> Images:
    return corrupt(images, name, severity, start=start, **options)


def _corrupt_chunks(tasks: Iterable[tuple[Any, ...]], jobs: int) -> Generator[Images, None, None]:
    """The result of each task, in order; with several jobs, a few tasks run ahead."""
    if jobs == 1:
        yield from itertools.starmap(_corrupt_chunk, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_init_worker) as pool:
        futures = (pool.submit(_corrupt_chunk, *task) for task in tasks)
        ahead = deque(itertools.islice(futures, 3 * jobs))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(itertools.islice(futures, 1))


def _init_worker() -> None:
    init_worker()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)


def _write_provenance(out: Path, images: Images, seed: int, frost: str | None) -> None:
    """Create the folder with its provenance; an existing folder must have the same."""
    path = out / PROVENANCE
    new: dict[str, Any] = {"seed": seed, "shape": list(images.shape), "images": _digest(images)}
    if path.exists():
        old = read_json(path)
        if not isinstance(old, dict):
            raise InputError(f"{path} must hold an object, so it is damaged: choose another folder")
        for key, value in new.items():
            if old.get(key) != value:
                raise InputError(f"{out} has {key}={old.get(key)} instead of {value}: choose another folder")
        new = old | new
    elif files := sorted(out.glob("*.npy")):
        raise InputError(f"{out} has {files[0].name}, which calmix did not write: choose another folder")
    if frost:
        new["frost"] = frost
    with replacing(path) as file:
        file.write(json.dumps(new, indent=1).encode())


def _digest(images: Images) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for start in range(0, len(images), 1024):
        digest.update(np.ascontiguousarray(images[start : start + 1024]).data)
    return digest.hexdigest()


def _is_complete(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    try:
        return _header(path) == (shape, dtype)
    except InputError:
        return False


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array on disk; the file must have their size."""
    if not path.is_file():
        names = sorted(file.stem for file in path.parent.glob("*.npy"))
        near = difflib.get_close_matches(path.stem, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'no .npy files'}"
        raise InputError(f"{path} does not exist; {hint}")
    with path.open("rb") as file:
        try:
            shape, dtype = read_npy_header(file)
        except ValueError as error:
            raise InputError(f"{path} is not a .npy file of numbers ({error}); get it again") from error
        expected = file.tell() + math.prod(shape) * dtype.itemsize
    size = path.stat().st_size
    if size != expected:
        raise InputError(f"{path}: expected {expected:,} bytes, got {size:,}; get it again")
    return shape, dtype


@dataclass(frozen=True)
class Corrupted:
    """The images of `part`, corrupted as they are read, so that a large data set is never in memory.

    The draws of an image depend on its index in the part, not on the batches.
    """

    part: Examples
    name: str
    severity: int
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.part.shape) != 3:
            raise InputError(f"{self.name} needs images, got examples of shape {self.part.shape}")

    def __len__(self) -> int:
        return len(self.part)

    @property
    def labels(self) -> Tensor:
        return self.part.labels

    @property
    def groups(self) -> Tensor | None:
        return self.part.groups

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape

    def take(self, index: Tensor) -> "Corrupted":
        return replace(self, part=self.part.take(index))

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        for index, images in zip(batches, self.part.read(batches, draws), strict=True):
            start = int(index[0])
            if not torch.equal(index, torch.arange(start, start + len(index))):
                raise InputError(
                    "batches must be consecutive examples in order, as in test_batches; take() a subset first"
                )
            pixels = images.permute(0, 2, 3, 1).contiguous()
            corrupted = corrupt(pixels, self.name, self.severity, seed=self.seed, start=start)
            yield corrupted.permute(0, 3, 1, 2)
