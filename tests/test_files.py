import io
import os
import stat
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from calmix import InputError, files
from calmix.files import append, read_npy_header, read_npz, replacing


def write_and_fail(file):
    file.write(b"half")
    raise OSError("disk full")


def test_failed_write_keeps_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="disk full"), replacing(path) as file:
        write_and_fail(file)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["numbers"]


def test_error_names_the_path_of_the_caller(tmp_path):
    path = tmp_path / "missing" / "page.html"
    with pytest.raises(FileNotFoundError) as caught, replacing(path):
        pass
    assert caught.value.filename == str(path)


def test_permissions_are_those_of_a_plain_file(tmp_path):
    with replacing(tmp_path / "numbers") as file:
        file.write(b"1 2 3")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert stat.S_IMODE((tmp_path / "numbers").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def full(*_):
    raise OSError(28, "No space left on device")


def test_a_full_disk_names_the_file_that_was_to_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "numbers") as file:
        file.write(b"1")
    assert caught.value.filename == str(tmp_path / "numbers")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(OSError, match="No space left") as caught:
        append(tmp_path / "lines", b"1")
    assert caught.value.filename == str(tmp_path / "lines")


def test_errors_of_other_files_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "numbers"):
        (tmp_path / "nowhere").read_bytes()
    assert caught.value.filename == str(tmp_path / "nowhere")


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    flushed, sync = [], os.fsync

    def record(handle):
        flushed.append(stat.S_ISDIR(os.fstat(handle).st_mode) and (tmp_path / "numbers").exists())
        sync(handle)

    monkeypatch.setattr("os.fsync", record)
    with replacing(tmp_path / "numbers"):
        pass
    assert flushed == [False, True]


def header(shape, dtype="<f8"):
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("shape", ["(2.5,)", "('a',)", "(True,)", "(-1,)", "None", "(" * 300 + ")" * 300])
def test_header_shapes_that_are_none(shape):
    with pytest.raises(ValueError, match=r"shape|header|int"):
        read_npy_header(io.BytesIO(header(shape)))


def test_pickled_objects_are_refused():
    with pytest.raises(ValueError, match="never unpickled"):
        read_npy_header(io.BytesIO(header("(1,)", "|O")))


def write_archive(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_an_archive_of_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.eye(2))
    arrays = read_npz(tmp_path / "a.npz")
    assert arrays["x"].tolist() == [0, 1, 2]
    assert arrays["y"].shape == (2, 2)


def test_an_archive_that_claims_more_than_the_memory_is_refused_by_its_header(tmp_path, monkeypatch):
    write_archive(tmp_path / "bomb.npz", {"x.npy": header("(1_000_000,)") + bytes(8_000_000)})
    assert (tmp_path / "bomb.npz").stat().st_size < 10_000
    monkeypatch.setattr("calmix.memory.free_memory", lambda: 7_000_000)
    monkeypatch.setattr(files, "read_member", pytest.fail)
    with pytest.raises(InputError, match=r"needs 8\.0 MB of memory, and 7\.0 MB are free"):
        read_npz(tmp_path / "bomb.npz")


def test_an_archive_that_unpacks_to_more_than_it_claims_takes_no_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    write_archive(path, {"x.npy": header("(100,)") + bytes(200_000_000)})
    content = path.read_bytes()
    claimed = struct.pack("<I", 200_000_000 + len(header("(100,)")))
    assert content.count(claimed) == 2
    path.write_bytes(content.replace(claimed, struct.pack("<I", 800 + len(header("(100,)")))))
    tracemalloc.start()
    with pytest.raises(InputError, match="cannot be read"):
        read_npz(path)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_arrays_by_columns_can_be_written_to(tmp_path):
    by_columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.savez_compressed(tmp_path / "a.npz", x=by_columns, empty=np.empty((0, 4)), one=np.float32(7))
    arrays = read_npz(tmp_path / "a.npz")
    assert arrays["x"].tolist() == by_columns.tolist()
    assert (arrays["empty"].shape, float(arrays["one"])) == ((0, 4), 7)
    arrays["x"] += 1  # torch shares the memory of writable arrays


def test_an_archive_that_claims_more_than_it_has(tmp_path):
    write_archive(tmp_path / "a.npz", {"x.npy": header("(200_000_000, 10)") + bytes(1000)})
    with pytest.raises(InputError, match="is truncated"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_a_damaged_archive_is_an_input_error(tmp_path, method):
    path = tmp_path / "a.npz"
    write_archive(path, {"x.npy": header("(1000,)") + os.urandom(8000)}, method)
    content = path.read_bytes()
    for place in range(300, 5000, 490):
        path.write_bytes(content[:place] + b"\xff" * 20 + content[place + 20 :])
        with pytest.raises(InputError, match=r"a\.npz cannot be read"):
            read_npz(path)
