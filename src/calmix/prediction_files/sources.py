"""Files and standard input as bytes, with limits on their size."""

import gzip
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from calmix.errors import InputError
from calmix.memory import free_memory

CHUNK = 1 << 20
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Source:
    """Something to read: its name for messages, the bytes it has (where known), and how to open it."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]
    path: Path | None = None  # of a file that can be read in place

    def text(self) -> io.TextIOWrapper:
        """Opened as UTF-8 text, with its line ends."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline="")


def open_source(path: str | os.PathLike[str], *, zipped: bool) -> Source:
    """A file; standard input and `.gz` files are read into memory."""
    if str(path) == STANDARD_INPUT:
        return _in_memory("standard input", _standard_input, zipped=zipped)
    path = Path(path)
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "not a file" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}")
    if zipped:
        return _in_memory(str(path), lambda: open(path, "rb"), zipped=True)
    return Source(str(path), path.stat().st_size, lambda: open(path, "rb"), path)


def _standard_input() -> IO[bytes]:
    buffer: IO[bytes] | None = getattr(sys.stdin, "buffer", None)
    if buffer is None:
        raise InputError("standard input has no bytes to read")
    return buffer


def _in_memory(name: str, opened: Callable[[], IO[bytes]], *, zipped: bool) -> Source:
    limit, parts, total = free_memory() / 2, [], 0
    file = opened()
    stream: IO[bytes] = gzip.GzipFile(fileobj=file) if zipped else file  # type: ignore[assignment]
    try:
        while part := stream.read(CHUNK):
            total += len(part)
            if total > limit:
                raise InputError(f"{name}: more than {total:,} bytes are too many for this machine")
            parts.append(part)
    finally:
        if file is not getattr(sys.stdin, "buffer", None):
            file.close()
    content = b"".join(parts)
    return Source(name, total, lambda: io.BytesIO(content))
