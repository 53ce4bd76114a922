"""Folders of corrupted images in the official layout of CIFAR-10-C and CIFAR-100-C, written and read.

`<name>.npy` holds uint8 (5 N, H, W, C), severity s in rows (s - 1) N to s N, and `labels.npy` the N labels
five times. A folder that calmix wrote also says in `corruptions.json` what it was made from.
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
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch
from numpy.lib import format as npy

from calmix.corruptions.constants import CORRUPTIONS, SEVERITIES, constants
from calmix.corruptions.corrupt import corrupt
from calmix.corruptions.draws import block_length
from calmix.corruptions.frost import frost_source
from calmix.errors import InputError
from calmix.files import replacing

Images = npt.NDArray[np.uint8]
Folder = str | os.PathLike[str]
RECORD = "corruptions.json"


def open_corrupted(folder: Folder, name: str, severity: int) -> Images:
    """The images of one corruption and severity, uint8 (N, H, W, C), mapped from the file, not read yet."""
    if severity not in SEVERITIES:
        raise InputError(f"severity={severity!r} is no severity; give one of 1, 2, 3, 4, 5")
    path = Path(folder) / f"{name}.npy"
    shape, dtype = _header(path)
    if dtype != np.uint8 or len(shape) != 4 or shape[-1] not in (1, 3) or shape[0] % len(SEVERITIES):
        raise InputError(f"{path} holds {dtype} {shape}; expected uint8 (5 N, height, width, 3 or 1)")
    labels = Path(folder) / "labels.npy"
    if labels.exists() and _header(labels)[0] != shape[:1]:
        raise InputError(f"{path} holds {shape[0]} images, but {labels} {_header(labels)[0]} labels")
    count = shape[0] // len(SEVERITIES)
    images: Images = np.load(path, mmap_mode="r", allow_pickle=False)
    return images[(severity - 1) * count : severity * count]


def corrupted_labels(folder: Folder) -> npt.NDArray[np.int64]:
    """The N labels of a folder's images, the same for every corruption and severity."""
    path = Path(folder) / "labels.npy"
    shape, dtype = _header(path)
    if dtype.kind not in "ui" or len(shape) != 1 or shape[0] % len(SEVERITIES):
        raise InputError(f"{path} holds {dtype} {shape}; expected whole numbers (5 N,)")
    repeated = np.load(path, allow_pickle=False).reshape(len(SEVERITIES), -1)
    if (repeated != repeated[0]).any():
        raise InputError(f"{path} does not repeat the same labels for each of the five severities")
    return repeated[0].astype(np.int64)  # type: ignore[no-any-return]


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

    A file appears when it is whole, and one that is there already is kept: a second call goes on where the
    first was stopped. A folder made with another seed or from other images is refused. `jobs` processes work
    on pieces of the set, few of which are in memory at a time. `progress(name, done, total)` counts images.
    """
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim != 4 or images.dtype != np.uint8 or len(images) == 0:
        raise InputError(f"images is {images.dtype} {images.shape}; give uint8 (N, height, width, 3 or 1)")
    if labels.shape != (len(images),) or labels.dtype.kind not in "ui" or labels.min() < 0:
        raise InputError(
            f"labels is {labels.dtype} {labels.shape}; give {len(images)} whole numbers from 0 on"
        )
    for name in names:
        constants(name, 1, size=32)
    out = Path(out)
    shape = (len(SEVERITIES) * len(images), *images.shape[1:])
    missing = [name for name in names if not _holds(out / f"{name}.npy", shape, np.dtype(np.uint8))]
    _keep_record(out, images, seed, frost_source(frost_folder) if "frost" in missing else None)
    dtype = next(np.dtype(kind) for kind in ("u1", "i2", "i8") if labels.max() <= np.iinfo(kind).max)
    if not _holds(out / "labels.npy", shape[:1], dtype):
        with replacing(out / "labels.npy") as file:
            np.save(file, np.tile(labels.astype(dtype), len(SEVERITIES)))

    length = 16 * block_length(*images.shape[1:3])
    starts = range(0, len(images), length)
    tasks = (
        (images[start : start + length], name, severity, seed, start, frost_folder)
        for name in missing
        for severity in SEVERITIES
        for start in starts
    )
    done, total = 0, shape[0] * len(missing)
    with contextlib.closing(_pieces(tasks, jobs)) as pieces:
        for name in missing:
            with replacing(out / f"{name}.npy") as file:
                npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
                for piece in itertools.islice(pieces, len(SEVERITIES) * len(starts)):
                    file.write(piece.data)
                    done += len(piece)
                    if progress:
                        progress(name, done, total)


Task = tuple[Images, str, int, int, int, Folder | None]


def _piece(
    images: Images, name: str, severity: int, seed: int, start: int, frost_folder: Folder | None
) -> Images:
    return corrupt(images, name, severity, seed=seed, start=start, frost_folder=frost_folder)


def _pieces(tasks: Iterable[Task], jobs: int) -> Generator[Images, None, None]:
    """What each task gives, in order; with several jobs, a few tasks run ahead of the one that is wanted."""
    if jobs == 1:
        yield from itertools.starmap(_piece, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_use_one_thread) as pool:
        futures = (pool.submit(_piece, *task) for task in tasks)
        ahead = deque(itertools.islice(futures, 3 * jobs))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(itertools.islice(futures, 1))


def _use_one_thread() -> None:
    cv2.setNumThreads(1)
    torch.set_num_threads(1)


def _keep_record(out: Path, images: Images, seed: int, frost: str | None) -> None:
    """Make the folder, or see that it was made from the same; write down what it is made from."""
    path = out / RECORD
    new: dict[str, Any] = {"seed": seed, "shape": list(images.shape), "images": _digest(images)}
    if path.exists():
        old: dict[str, Any] = json.loads(path.read_text())
        for key, value in new.items():
            if old.get(key) != value:
                raise InputError(
                    f"{out} was made with {key}={old.get(key)}, not {value}; choose another folder"
                )
        new = old | new
    elif files := sorted(out.glob("*.npy")):
        raise InputError(f"{out} holds {files[0].name}, which calmix did not write; choose another folder")
    if frost:
        new["frost"] = frost
    out.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(json.dumps(new, indent=1).encode())


def _digest(images: Images) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for start in range(0, len(images), 1024):
        digest.update(np.ascontiguousarray(images[start : start + 1024]).data)
    return digest.hexdigest()


def _holds(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    try:
        return _header(path) == (shape, dtype)
    except InputError:
        return False


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array on disk; the file has to be as long as they say."""
    if not path.is_file():
        there = sorted(file.stem for file in path.parent.glob("*.npy"))
        near = difflib.get_close_matches(path.stem, there, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(there) or 'no .npy files'}"
        raise InputError(f"{path} is missing; {hint}")
    with path.open("rb") as file:
        try:
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[
                npy.read_magic(file)
            ]
            shape, _, dtype = read(file)
        except (ValueError, KeyError) as error:
            raise InputError(f"{path} is no .npy file ({error}); get it again") from error
        if dtype.hasobject:
            raise InputError(f"{path} holds pickled objects, which are never read; get it again")
        expected = file.tell() + math.prod(shape) * dtype.itemsize
    found = path.stat().st_size
    if found != expected:
        raise InputError(f"{path} has {found:,} bytes, expected {expected:,}; get it again")
    return shape, dtype
