import contextlib
import hashlib
import io
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from calmix import InputError
from calmix.data.archives import Remote, extract, fetch, unpack

CONTENT = np.random.default_rng(0).bytes(3_000_000)


@contextlib.contextmanager
def serving(content=CONTENT, *, ranges=True, stop_after=None, status=None, delay=0.0):
    """A server on this machine; yields what `fetch` wants, and the Range headers that were asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(delay)
            asked.append(self.headers.get("Range"))
            begin = int(asked[-1][len("bytes=") : -1]) if ranges and asked[-1] else 0
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
        yield Remote(url, hashlib.md5(CONTENT).hexdigest(), len(CONTENT)), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_shows_progress_and_leaves_the_file_alone(tmp_path):
    seen = []
    with serving() as (remote, _):
        path = fetch(remote, tmp_path / "new", progress=lambda *step: seen.append(step))
    assert path.read_bytes() == CONTENT
    assert names(tmp_path / "new") == ["file.bin"]
    assert seen[-1] == ("file.bin", 3_000_000, 3_000_000)
    done = [step[1] for step in seen]
    assert len(done) >= 3
    assert done == sorted(done)


def test_a_half_finished_download_is_kept_and_gone_on_with(tmp_path):
    broke_off = pytest.raises(InputError, match="broke off after 1,300,000 of 3,000,000 bytes")
    with serving(stop_after=1_300_000) as (remote, _), broke_off:
        fetch(remote, tmp_path)
    assert names(tmp_path) == ["file.bin.part"]
    seen = []
    with serving() as (remote, asked):
        path = fetch(remote, tmp_path, progress=lambda name, done, size: seen.append(done))
    assert asked == ["bytes=1300000-"]
    assert seen[0] > 1_300_000
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["file.bin"]


def test_a_server_without_ranges_starts_anew(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1_000])
    with serving(ranges=False) as (remote, _):
        assert fetch(remote, tmp_path).read_bytes() == CONTENT


def test_a_whole_but_unnamed_download_needs_no_server(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    with serving() as (remote, asked):
        assert fetch(remote, tmp_path).read_bytes() == CONTENT
    assert asked == []


def test_a_sound_file_is_not_fetched_again_and_a_damaged_one_is(tmp_path):
    path = tmp_path / "file.bin"
    with serving() as (remote, asked):
        path.write_bytes(CONTENT)
        fetch(remote, tmp_path)
        assert asked == []
        path.write_bytes(CONTENT[:-1] + b"?")
        assert fetch(remote, tmp_path).read_bytes() == CONTENT
        assert asked == [None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), "MD5 sum [0-9a-f]{32} found, [0-9a-f]{32} expected"),
        (CONTENT + b"more", "3,000,004 bytes found, 3,000,000 expected"),
    ],
)
def test_wrong_bytes_are_named_and_thrown_away(tmp_path, content, message):
    with serving(content) as (remote, _), pytest.raises(InputError, match=message):
        fetch(remote, tmp_path)
    assert names(tmp_path) == []


def test_a_refusal_is_passed_on(tmp_path):
    with (
        serving(status=404) as (remote, _),
        pytest.raises(InputError, match="the server answered 404 Not Found"),
    ):
        fetch(remote, tmp_path)


def test_a_beginning_that_the_server_does_not_know_is_thrown_away(tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:2_000])
    with serving(CONTENT[:500]) as (remote, _), pytest.raises(InputError, match="answered 416"):
        fetch(remote, tmp_path)
    assert names(tmp_path) == []


def test_without_network_the_answer_is_immediate_and_says_what_to_do(tmp_path):
    with serving() as (remote, _):
        pass  # nobody listens there any more
    began = time.monotonic()
    with pytest.raises(
        InputError, match=r"no network: 127.0.0.1:\d+ cannot be reached .*; fetch http://127"
    ) as caught:
        fetch(remote, tmp_path / "data")
    assert time.monotonic() - began < 1
    assert f"put it into {tmp_path / 'data'}" in str(caught.value)
    assert names(tmp_path) == []


def test_a_server_that_keeps_silent_is_not_waited_for(tmp_path):
    waited = pytest.raises(InputError, match=r"no network: .*no answer in 0.1 s")
    with serving(delay=0.5) as (remote, _), waited:
        fetch(remote, tmp_path, patience=0.1)


def make_archive(path, members):
    """`members`: name -> bytes, or a TarInfo for anything that is no plain file."""
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


def test_unpacking_puts_whole_files_beside_the_archive(tmp_path):
    folder = special("set", tarfile.DIRTYPE)
    folder.mode = 0o755
    archive = make_archive(tmp_path / "a.tar.gz", {"set": folder, "set/one": b"1", "set/two": b"22"})
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "one").write_bytes(b"damaged")
    assert unpack(archive, "set") == tmp_path / "set"
    assert (tmp_path / "set" / "one").read_bytes() == b"1"
    assert (tmp_path / "set" / "two").read_bytes() == b"22"
    assert names(tmp_path) == ["a.tar.gz", "set"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what newer ones say of that
def test_a_python_without_safeguards_unpacks_too(tmp_path, monkeypatch):
    now = tarfile.TarFile.extractall
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.setattr(tarfile.TarFile, "extractall", lambda tar, path: now(tar, path))
    archive = make_archive(tmp_path / "a.tar.gz", {"set/one": b"1"})
    assert (unpack(archive, "set") / "one").read_bytes() == b"1"


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="this Python has no safeguards")
def test_safeguards_that_there_are_are_on(tmp_path):
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
def test_an_archive_that_reaches_out_is_refused_whole(tmp_path, evil):
    inside = tmp_path / "root"
    inside.mkdir()
    archive = make_archive(inside / "a.tar.gz", {"set/good": b"good", **evil})
    with pytest.raises(InputError, match=r"a.tar.gz: refused, its member '.*evil'"):
        unpack(archive, "set")
    assert names(inside) == ["a.tar.gz"]
    assert names(tmp_path) == ["root"]


def test_a_truncated_archive_is_named_and_leaves_nothing(tmp_path):
    archive = make_archive(tmp_path / "a.tar.gz", {"set/one": CONTENT})
    archive.write_bytes(archive.read_bytes()[:-1_000_000])
    with pytest.raises(InputError, match=r"a.tar.gz: not a whole tar archive"):
        unpack(archive, "set")
    assert names(tmp_path) == ["a.tar.gz"]
