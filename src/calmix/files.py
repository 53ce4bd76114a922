"""Files appear whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the name `path` only once the block has ended well.

    The bytes are written beside it and reach the disk before the name does; when anything fails, what stood
    at `path` before is untouched and nothing else is left behind.

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


def _new(part: Path, path: Path) -> IO[bytes]:
    """The file beside `path`; where it cannot be made, the error names `path`."""
    try:
        return open(part, "xb")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
