"""Atomic writes, and headers of `.npy` files."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary binary file that replaces `path` if the block ends without an error.

    The temporary file is in the same folder and is flushed to disk before it is renamed. On any error the
    old content of `path` stays, and the temporary file is removed.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with replacing(Path(folder.name) / "answer") as file:
    ...     _ = file.write(b"42")
    >>> (Path(folder.name) / "answer").read_bytes()
    b'42'
    >>> folder.cleanup()
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with _new(part, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, without its data; `ValueError` for other files and for pickled objects."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled")
    return shape, dtype


def _new(part: Path, path: Path) -> IO[bytes]:
    """Create the temporary file; an error names `path` instead."""
    try:
        return open(part, "xb")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
