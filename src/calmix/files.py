"""Atomic writes, headers of `.npy` files, and archives of arrays that are read without trust."""

import contextlib
import io
import lzma
import math
import os
import secrets
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from calmix.errors import InputError
from calmix.memory import check_fits

SMALL = 1 << 20  # bytes that are read at once, whatever memory is free
# What the readers of NumPy and of zip archives raise for files that are damaged.
READ_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    EOFError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary binary file that replaces `path` if the block ends without an error.

    The temporary file is in the same folder and is flushed to disk before it is renamed; the folder is
    flushed after. On any error the old content of `path` stays, and the temporary file is removed. An error
    of the file itself, such as a full disk, names `path`.

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
        with naming(path), _new(part) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with naming(path):
            os.replace(part, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def append(path: Path, content: bytes) -> None:
    """Add `content` to the end of a file; an error names `path`."""
    with naming(path), open(path, "ab") as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Flush a folder's names to the disk, where the system can: a rename survives a loss of power then."""
    with contextlib.suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An `OSError` of the block that names no file, or the temporary one, names `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename is not None and not str(error.filename).endswith(".part")):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array, without its data; `ValueError` for other files and for pickled objects."""
    shape, _, dtype = _header(file)
    return shape, dtype


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type."""
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_columns, dtype = read(file)
    except ValueError:
        raise
    except READ_ERRORS as error:
        raise ValueError(f"its header cannot be read: {error or type(error).__name__}") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its header has the shape {shape}, which is none")
    return shape, by_columns, dtype


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an archive; refused by their headers where they claim more than is there, or than the
    free memory holds. `InputError` whatever is wrong."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            check_fits(str(path), sum(archive.getinfo(f"{name}.npy").file_size for name in names))
            return {name: read_member(archive, name, str(path)) for name in names}
    except InputError:
        raise
    except READ_ERRORS as error:
        raise InputError(f"{path} cannot be read: {error or type(error).__name__}") from None


def read_member(archive: zipfile.ZipFile, name: str, source: str) -> npt.NDArray[Any]:
    """One array of an archive; not read if its header promises more than the file or the memory holds."""
    info = archive.getinfo(f"{name}.npy")
    # Others than NumPy's own compressions unpack a block of the file whole, however large it becomes.
    if info.file_size <= SMALL and info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with archive.open(info) as opened:
            file = io.BytesIO(opened.read(info.file_size))
        shape, by_columns, dtype = _header(file)
        _check_whole(source, name, shape, dtype, info)
        array = np.frombuffer(file.getbuffer(), dtype, math.prod(shape), file.tell())
        return array.reshape(shape, order="F" if by_columns else "C")
    with archive.open(info) as opened:
        _check_whole(source, name, *read_npy_header(opened), info)
    check_fits(f"{source}: {name!r}", info.file_size)
    with archive.open(info) as opened:
        array = np.asarray(npy.read_array(opened, allow_pickle=False))
        opened.read()  # to the end, where the archive's checksum is compared
        return array


def _check_whole(
    source: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], info: zipfile.ZipInfo
) -> None:
    size = math.prod(shape) * dtype.itemsize
    if size > info.file_size:
        raise InputError(f"{source}: {name!r} is truncated: {info.file_size:,} of {size:,} bytes")


def _new(part: Path) -> IO[bytes]:
    return open(part, "xb")
