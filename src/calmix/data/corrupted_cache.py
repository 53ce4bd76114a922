"""Corrupted test images, generated once and kept in the user's cache for all runs on the same images."""

import contextlib
import hashlib
import os
import time
from pathlib import Path

import numpy as np
import torch

from calmix import files
from calmix.corruptions import corrupt, frost_source
from calmix.data.corrupted import Corrupted
from calmix.data.dataset import Examples, Part

CACHE_VARIABLE = "CALMIX_CACHE"
LIMIT = 4 * 2**30  # bytes; the files that were used least recently go first
CHUNK = 1000  # images corrupted at a time
ABANDONED_SECONDS = 3600.0  # after which nobody writes a temporary file any more


def cache_folder() -> Path:
    """CALMIX_CACHE, or `calmix` in the user's cache folder."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "calmix"


class CorruptedCache:
    """Corrupted versions of the images of `part`, read from the cache or generated and kept there.

    Where nothing can be written, and for images that are decoded from files, they are generated as needed.
    """

    def __init__(self, part: Examples, *, seed: int, folder: Path | None = None, limit: int = LIMIT) -> None:
        self.part, self.seed, self.limit = part, seed, limit
        self.root = (folder or cache_folder()) / "corrupted"
        self.digest = _digest(part) if isinstance(part, Part) else None

    def __call__(self, name: str, severity: int) -> Examples:
        generated = Corrupted(self.part, name, severity, seed=self.seed)
        if self.digest is None or not isinstance(self.part, Part):
            return generated
        frost = f"-{frost_source().split()[0]}" if name == "frost" else ""
        path = self.root / f"{self.digest}-seed{self.seed}" / f"{name}{frost}-{severity}.npy"
        try:
            if not path.exists():
                self._write(path, self.part, name, severity)
            images = np.load(path, mmap_mode="r", allow_pickle=False)
            if images.shape != tuple(self.part.inputs.shape) or images.dtype != np.uint8:
                raise ValueError
            os.utime(path)
        except files.READ_ERRORS:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return generated
        return Part(torch.from_numpy(np.array(images)), self.part.labels, self.part.groups)

    def _write(self, path: Path, part: Part, name: str, severity: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        images = part.inputs.contiguous()
        self._make_room(images.numel())
        chunks = [
            np.asarray(corrupt(images[i : i + CHUNK], name, severity, seed=self.seed, start=i))
            for i in range(0, len(images), CHUNK)
        ]
        with files.replacing(path) as file:
            np.save(file, np.concatenate(chunks))

    def _make_room(self, size: int) -> None:
        """Delete the files that were used least recently until `size` bytes fit, and what killed processes
        left."""
        for part in self.root.glob("*/.*.part"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
                    part.unlink()
        kept = sorted(self.root.glob("*/*.npy"), key=lambda path: path.stat().st_mtime)
        total = sum(path.stat().st_size for path in kept) + size
        for path in kept:
            if total <= self.limit:
                return
            total -= path.stat().st_size
            path.unlink(missing_ok=True)


def _digest(part: Part) -> str:
    digest = hashlib.sha256(str(tuple(part.inputs.shape)).encode())
    digest.update(part.inputs.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
