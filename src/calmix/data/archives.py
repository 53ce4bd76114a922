"""Downloads: resumed, verified before they get their name, and unpacked so that nothing lands outside."""

import hashlib
import http.client
import os
import queue
import tarfile
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from calmix.errors import InputError

Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes that are here and the bytes there will be."""

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


def fetch(remote: Remote, folder: Path, *, progress: Progress | None = None, patience: float = 5.0) -> Path:
    """The file in `folder`, downloaded unless a sound one is there already.

    Bytes gather in `<name>.part`, which a later call goes on with; only a file of the right size and sum gets
    its name. The server has `patience` seconds to answer.
    """
    path = folder / remote.name
    if path.is_file() and not _flaw(path, remote):
        return path
    part = folder / f"{remote.name}.part"
    reason = _transfer(remote, part, progress, patience)
    if (found := part.stat().st_size) < remote.size:
        raise InputError(
            f"{remote.url}: broke off after {found:,} of {remote.size:,} bytes{reason}; "
            f"the same command goes on from there"
        )
    if flaw := _flaw(part, remote):
        part.unlink()
        raise InputError(f"{remote.url}: {flaw}; thrown away, the same command starts anew")
    os.replace(part, path)
    return path


def unpack(archive: Path, folder: str) -> Path:
    """The files which a tar archive has in `folder`, put into a folder of that name beside the archive.

    An archive that holds anything but plain files and folders, or a path that leads out, is refused whole.
    """
    target = archive.parent / folder
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    raise InputError(
                        f"{archive}: refused, its member {member.name!r} leads out of the folder"
                    )
                if not (member.isfile() or member.isdir()):
                    raise InputError(f"{archive}: refused, its member {member.name!r} is a link or a device")
            with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".unpack-") as aside:
                extract(tar, Path(aside))
                target.mkdir(exist_ok=True)
                for file in Path(aside, folder).glob("*"):
                    os.replace(file, target / file.name)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{archive}: not a whole tar archive ({error})") from error
    return target


def extract(tar: tarfile.TarFile, folder: Path) -> None:
    """All members, with the safeguards that Python has from 3.10.12 and 3.11.4 on; before, there are none."""
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    tar.extractall(folder)


def _transfer(remote: Remote, part: Path, progress: Progress | None, patience: float) -> str:
    """Append what is missing to `part`; returns why it ended early, if it did."""
    done = part.stat().st_size if part.is_file() else 0
    if done >= remote.size:
        return ""
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={done}-"} if done else {})
    with _open(request, remote, part, patience) as response:
        if response.status != 206:  # the server sends the whole file, whatever was asked for
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


def _open(
    request: urllib.request.Request, remote: Remote, part: Path, patience: float
) -> http.client.HTTPResponse:
    """The server's answer; in a thread, since without network the look-up of a name can hang for minutes."""
    answers: queue.SimpleQueue[http.client.HTTPResponse | Exception] = queue.SimpleQueue()
    given_up = threading.Event()

    def ask() -> None:
        try:
            response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=30)
        except Exception as error:
            answers.put(error)
        else:
            response.close() if given_up.is_set() else answers.put(response)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=patience)
    except queue.Empty:
        given_up.set()
        answer = TimeoutError(f"no answer in {patience:g} s")
    if isinstance(answer, urllib.error.HTTPError):
        answer.close()
        if answer.code == 416:  # what is here is no beginning of what the server has
            part.unlink(missing_ok=True)
        raise InputError(f"{remote.url}: the server answered {answer.code} {answer.reason}")
    if isinstance(answer, Exception):
        reason = answer.reason if isinstance(answer, urllib.error.URLError) else answer
        raise InputError(
            f"no network: {urllib.parse.urlsplit(remote.url).netloc} cannot be reached ({reason}); fetch "
            f"{remote.url} elsewhere, put it into {part.parent}, and give the same command again"
        )
    return answer


def _flaw(path: Path, remote: Remote) -> str:
    """What is wrong with a file, or nothing."""
    if (found := path.stat().st_size) != remote.size:
        return f"{found:,} bytes found, {remote.size:,} expected"
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    if digest.hexdigest() != remote.md5:
        return (
            f"MD5 sum {digest.hexdigest()} found, {remote.md5} expected ({found:,} bytes, as they should be)"
        )
    return ""
