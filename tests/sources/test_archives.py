import contextlib
import hashlib
import io
import os
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from calmix import InputError
from calmix.sources.archives import Remote, extract, fetch, unpack

CONTENT = np.random.default_rng(0).bytes(3_000_000)


@contextlib.contextmanager
def serving(content=CONTENT, *, supports_ranges=True, stop_after=None, status=None, delay=0.0):
    """A local server; yields its `Remote` and the Range headers of the requests."""
    ranges = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(delay)
            ranges.append(self.headers.get("Range"))
            begin = int(ranges[-1][len("bytes=") : -1]) if supports_ranges and ranges[-1] else 0
            if begin >= len(content):
                self.send_error(416)
                return
            self.send_response(status or (206 if begin else 200))
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            end = len(content) if stop_after is None else begin + stop_after
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content[begin:end])

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/file.bin"
        yield Remote(url, hashlib.md5(CONTENT).hexdigest(), len(CONTENT)), ranges
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_download_reports_progress_and_leaves_only_the_file(tmp_path):
    steps = []
    with serving() as (remote, _):
        path = fetch(remote, tmp_path / "new", progress=lambda *step: steps.append(step))
    assert path.read_bytes() == CONTENT
    assert names(tmp_path / "new") == ["file.bin"]
    assert steps[-1] == ("file.bin", 3_000_000, 3_000_000)
    done = [step[1] for step in steps]
    assert len(done) >= 3
    assert done == sorted(done)


def test_interrupted_download_is_resumed(tmp_path):
    interrupted = pytest.raises(InputError, match="stopped after 1,300,000 of 3,000,000 bytes")
    with serving(stop_after=1_300_000) as (remote, _), interrupted:
        fetch(remote, tmp_path)
    assert names(tmp_path) == ["file.bin.part"]
    steps = []
    with serving() as (remote, ranges):
        path = fetch(remote, tmp_path, progress=lambda name, done, size: steps.append(done))
    assert ranges == ["bytes=1300000-"]
    assert steps[0] > 1_300_000
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["file.bin"]


def test_server_without_ranges_restarts_the_download(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1_000])
    with serving(supports_ranges=False) as (remote, _):
        assert fetch(remote, tmp_path).read_bytes() == CONTENT


def test_complete_part_file_is_renamed_without_a_request(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    with serving() as (remote, ranges):
        assert fetch(remote, tmp_path).read_bytes() == CONTENT
    assert ranges == []


def test_only_a_damaged_file_is_downloaded_again(tmp_path):
    path = tmp_path / "file.bin"
    with serving() as (remote, ranges):
        path.write_bytes(CONTENT)
        fetch(remote, tmp_path)
        assert ranges == []
        path.write_bytes(CONTENT[:-1] + b"?")
        assert fetch(remote, tmp_path).read_bytes() == CONTENT
        assert ranges == [None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), "expected MD5 sum [0-9a-f]{32}, got [0-9a-f]{32}"),
        (CONTENT + b"more", "expected 3,000,000 bytes, got 3,000,004"),
    ],
)
def test_wrong_content_raises_and_is_deleted(tmp_path, content, message):
    with serving(content) as (remote, _), pytest.raises(InputError, match=message):
        fetch(remote, tmp_path)
    assert names(tmp_path) == []


def test_http_error_raises(tmp_path):
    with (
        serving(status=404) as (remote, _),
        pytest.raises(InputError, match="HTTP status 404 Not Found"),
    ):
        fetch(remote, tmp_path)


def test_part_file_longer_than_the_remote_one_is_deleted(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:2_000])
    with serving(CONTENT[:500]) as (remote, _), pytest.raises(InputError, match="HTTP status 416"):
        fetch(remote, tmp_path)
    assert names(tmp_path) == []


def test_unreachable_server_raises_at_once_with_instructions(tmp_path):
    with serving() as (remote, _):
        pass  # the server is stopped
    start = time.monotonic()
    with pytest.raises(InputError, match=r"cannot reach 127.0.0.1:\d+ .*; download http://127") as caught:
        fetch(remote, tmp_path / "data")
    assert time.monotonic() - start < 1
    assert f"copy it to {tmp_path / 'data'}" in str(caught.value)
    assert names(tmp_path) == []


def test_slow_server_times_out(tmp_path):
    timeout = pytest.raises(InputError, match=r"cannot reach .*no response in 0.1 s")
    with serving(delay=0.5) as (remote, _), timeout:
        fetch(remote, tmp_path, timeout=0.1)


def make_archive(path, members):
    """`members`: name -> bytes, or a TarInfo for other than plain files."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_unpack_replaces_files_next_to_the_archive(tmp_path):
    folder = special("set", tarfile.DIRTYPE)
    folder.mode = 0o755
    archive = make_archive(tmp_path / "a.tar.gz", {"set": folder, "set/one": b"1", "set/two": b"22"})
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "one").write_bytes(b"damaged")
    assert unpack(archive, "set") == tmp_path / "set"
    assert (tmp_path / "set" / "one").read_bytes() == b"1"
    assert (tmp_path / "set" / "two").read_bytes() == b"22"
    assert names(tmp_path) == ["a.tar.gz", "set"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer versions warn without a filter
def test_extract_on_python_without_filters(tmp_path, monkeypatch):
    extractall = tarfile.TarFile.extractall
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extractall", lambda tar, path: extractall(tar, path))
    archive = make_archive(tmp_path / "a.tar.gz", {"set/one": b"1"})
    assert (unpack(archive, "set") / "one").read_bytes() == b"1"


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python has no filters")
def test_extract_filters_members(tmp_path):
    archive = make_archive(tmp_path / "a.tar.gz", {"../evil": b"x"})
    with tarfile.open(archive) as tar, pytest.raises(tarfile.OutsideDestinationError):
        extract(tar, tmp_path / "inside")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "evil",
    [
        {"../evil": b"x"},
        {"set/../../evil": b"x"},
        {"/tmp/calmix-evil": b"x"},
        {"set/evil": special("set/evil", tarfile.SYMTYPE, "/etc/passwd")},
        {"set/evil": special("set/evil", tarfile.LNKTYPE, "../outside")},
        {"set/evil": special("set/evil", tarfile.FIFOTYPE)},
    ],
)
def test_unsafe_archive_raises_and_nothing_is_extracted(tmp_path, evil):
    inside = tmp_path / "root"
    inside.mkdir()
    archive = make_archive(inside / "a.tar.gz", {"set/good": b"good", **evil})
    with pytest.raises(InputError, match=r"a.tar.gz: unsafe, its member '.*evil'"):
        unpack(archive, "set")
    assert names(inside) == ["a.tar.gz"]
    assert names(tmp_path) == ["root"]


def test_truncated_archive_raises_and_leaves_nothing(tmp_path):
    archive = make_archive(tmp_path / "a.tar.gz", {"set/one": CONTENT})
    archive.write_bytes(archive.read_bytes()[:-1_000_000])
    with pytest.raises(InputError, match=r"a.tar.gz: not a tar archive, or truncated"):
        unpack(archive, "set")
    assert names(tmp_path) == ["a.tar.gz"]


def test_a_damaged_lzma_archive_is_an_input_error(tmp_path):
    path = tmp_path / "a.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        info = tarfile.TarInfo("folder/file")
        info.size = 5000
        tar.addfile(info, io.BytesIO(os.urandom(5000)))
    content = path.read_bytes()
    for place in range(40, len(content) - 40, 700):
        path.write_bytes(content[:place] + b"\0" * 30 + content[place + 30 :])
        with pytest.raises(InputError, match=r"a\.tar\.xz"):
            unpack(path, "folder")
