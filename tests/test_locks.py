import errno
import multiprocessing
import os

import pytest

from calmix import InputError, locks
from calmix.locks import clear_leftovers, lock, remove_leftovers


def test_leftovers_of_killed_processes_are_removed_by_the_next_holder(tmp_path):
    (tmp_path / "predictions").mkdir()
    left = [tmp_path / ".checkpoint.pt.0123abcd.part", tmp_path / "predictions" / ".test.npz.0.part"]
    left.append(tmp_path / "checkpoint.previous.tmp")
    for path in left:
        path.write_bytes(b"half")
    (tmp_path / ".unpack-x" / "inner").mkdir(parents=True)
    kept = tmp_path / "archive.tar.gz.part"  # a download that is resumed
    kept.write_bytes(b"half")
    with lock(tmp_path):
        assert not any(path.exists() for path in left)
        assert not (tmp_path / ".unpack-x").exists()
        assert kept.exists()


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (tmp_path / ".unpack-y").symlink_to(tmp_path / "precious")
    remove_leftovers(tmp_path)
    assert (tmp_path / "precious" / "file").exists()
    assert not (tmp_path / ".unpack-y").is_symlink()


def sleep(ready, end):
    ready.set()
    end.wait(30)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_what_a_holder_is_writing_is_no_leftover(tmp_path):
    """Another process may gather the members while one that was started again writes its history."""
    part = tmp_path / ".metrics.jsonl.0123abcd.part"
    with lock(tmp_path):
        part.write_bytes(b"half")
        clear_leftovers(tmp_path)
        assert part.exists()
    clear_leftovers(tmp_path)
    assert not part.exists()


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    fork = multiprocessing.get_context("fork")
    ready, end = fork.Event(), fork.Event()
    with lock(tmp_path):
        child = fork.Process(target=sleep, args=(ready, end))
        child.start()
        assert ready.wait(30)
    with lock(tmp_path):  # which the child would hold
        assert child.is_alive()
    end.set()
    child.join()


def test_only_the_descriptor_of_the_lock_is_closed(tmp_path, monkeypatch):
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    (tmp_path / ".lock").touch()

    class Held:
        lock_file = str(tmp_path / ".lock")

    monkeypatch.setattr(locks, "_held", {other: Held()})
    locks._close_inherited()
    os.fstat(other)
    own = os.open(tmp_path / ".lock", os.O_RDWR)
    monkeypatch.setattr(locks, "_held", {own: Held()})
    locks._close_inherited()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(own)
    os.close(other)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_needs_no_lock(tmp_path, monkeypatch, number):
    def refuse(self):
        raise OSError(number, os.strerror(number), str(tmp_path / ".lock"))

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with lock(tmp_path):
        pass
    monkeypatch.setattr(locks, "is_read_only", lambda error: False)
    with pytest.raises(OSError, match=os.strerror(number)), lock(tmp_path):
        pass


def test_the_holder_is_named(tmp_path):
    with lock(tmp_path), pytest.raises(InputError, match=f"{os.getpid()} on"), lock(tmp_path):
        pass
