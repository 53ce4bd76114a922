import stat

import pytest

from calmix.files import replacing


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
