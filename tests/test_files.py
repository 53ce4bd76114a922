import stat

import pytest

from calmix.files import replacing


def write_half(file):
    file.write(b"half of the n")
    raise OSError("the disk is gone")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="disk is gone"), replacing(path) as file:
        write_half(file)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["numbers"]


def test_the_error_names_the_file_that_was_asked_for(tmp_path):
    wanted = tmp_path / "missing" / "page.html"
    with pytest.raises(FileNotFoundError) as told, replacing(wanted):
        pass
    assert told.value.filename == str(wanted)


def test_others_may_read_what_was_written(tmp_path):
    with replacing(tmp_path / "numbers") as file:
        file.write(b"1 2 3")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert stat.S_IMODE((tmp_path / "numbers").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
