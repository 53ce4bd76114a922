"""Downloads that are resumed and verified, and tar archives that are unpacked safely."""

import hashlib
import http.client
import lzma
import os
import queue
import tarfile
import tempfile
import threading
import urllib.error
import urllib.parse
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.request import Request, urlopen

from calmix.errors import InputError

Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes received and the total."""

BLOCK = 1 << 20


@dataclass(frozen=True)
class Remote:
    """A published file: its address, MD5 sum and size."""

    url: str
    md5: str
    size: int

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def fetch(remote: Remote, folder: Path, *, progress: Progress | None = None, timeout: float = 5.0) -> Path:
    """The path of the file in `folder`, downloaded unless a valid copy is there.

    Bytes are written to `<name>.part`, which a later call resumes; it is renamed once its size and MD5 sum
    are right. The server must answer within `timeout` seconds.
    """
    path = folder / remote.name
    if path.is_file() and not _mismatch(path, remote):
        return path
    part = folder / f"{remote.name}.part"
    reason = _transfer(remote, part, progress, timeout)
    if (size := part.stat().st_size) < remote.size:
        raise InputError(
            f"{remote.url}: stopped after {size:,} of {remote.size:,} bytes{reason}; try again to resume"
        )
    if mismatch := _mismatch(part, remote):
        part.unlink()
        raise InputError(f"{remote.url}: {mismatch}; deleted, try again")
    os.replace(part, path)
    return path


def unpack(archive: Path, folder: str) -> Path:
    """Extract the files of `folder` in a tar archive into a folder of that name next to the archive.

    Nothing is extracted from an archive with links, devices, or paths outside of the target.
    """
    target = archive.parent / folder
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                unsafe = f"{archive}: unsafe, its member {member.name!r} is"
                if path.is_absolute() or ".." in path.parts:
                    raise InputError(f"{unsafe} outside of the target folder")
                if not (member.isfile() or member.isdir()):
                    raise InputError(f"{unsafe} a link or a device")
            with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".unpack-") as temporary:
                extract(tar, Path(temporary))
                target.mkdir(exist_ok=True)
                for file in Path(temporary, folder).glob("*"):
                    os.replace(file, target / file.name)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{archive}: not a tar archive, or truncated ({error})") from error
    return target


def extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract all members, with the `data` filter of Python 3.10.12, 3.11.4 and later."""
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    tar.extractall(folder)


def _transfer(remote: Remote, part: Path, progress: Progress | None, timeout: float) -> str:
    """Append the missing bytes to `part`; returns the reason if it stopped early."""
    done = part.stat().st_size if part.is_file() else 0
    if done >= remote.size:
        return ""
    request = Request(remote.url, headers={"Range": f"bytes={done}-"} if done else {})
    with _open(request, remote, part, timeout) as response:
        if response.status != 206:  # the server ignores the range and sends the whole file
            done = 0
        part.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "ab" if done else "wb") as file:
            try:
                while done <= remote.size and (block := response.read(BLOCK)):
                    file.write(block)
                    done += len(block)
                    if progress:
                        progress(remote.name, done, remote.size)
                file.flush()
                os.fsync(file.fileno())
            except (OSError, http.client.HTTPException) as error:
                return f" ({error})"
    return ""


def _open(request: Request, remote: Remote, part: Path, timeout: float) -> http.client.HTTPResponse:
    """The server's response; in a thread, as a DNS lookup without network can hang for minutes."""
    answers: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()
    timed_out = threading.Event()

    def send() -> None:
        try:
            response: http.client.HTTPResponse = urlopen(request, timeout=30)
        except Exception as error:
            answers.put(error)
        else:
            response.close() if timed_out.is_set() else answers.put(response)

    threading.Thread(target=send, daemon=True).start()
    try:
        answer = answers.get(timeout=timeout)
    except queue.Empty:
        timed_out.set()
        answer = TimeoutError(f"no response in {timeout:g} s")
    if isinstance(answer, urllib.error.HTTPError):
        answer.close()
        if answer.code == 416:  # the partial file is longer than the server's
            part.unlink(missing_ok=True)
        raise InputError(f"{remote.url}: HTTP status {answer.code} {answer.reason}")
    if isinstance(answer, Exception):
        reason = answer.reason if isinstance(answer, urllib.error.URLError) else answer
        raise InputError(
            f"cannot reach {urllib.parse.urlsplit(remote.url).netloc} ({reason}); download {remote.url} "
            f"on another machine, copy it to {part.parent}, and try again"
        )
    return answer


def _mismatch(path: Path, remote: Remote) -> str:
    """How the size or MD5 sum of a file differs; empty if it does not."""
    if (size := path.stat().st_size) != remote.size:
        return f"expected {remote.size:,} bytes, got {size:,}"
    with open(path, "rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return "" if md5 == remote.md5 else f"expected MD5 sum {remote.md5}, got {md5}"
