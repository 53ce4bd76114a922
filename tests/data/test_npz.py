import numpy as np
import pytest

from calmix import InputError
from calmix.data import load_npz, load_path
from tests.own import arrays, write_npz


def test_classes_are_named_in_the_file(tmp_path):
    path = write_npz(tmp_path / "mine.npz", classes=np.array(["a", "b", "c"]))
    assert load_npz(path).classes == ("a", "b", "c")
    assert load_path(path).name == "mine.npz"


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_npz(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("x")
    with pytest.raises(InputError, match=r"cannot be read as \.npz"):
        load_npz(tmp_path / "text.npz")
    np.savez(tmp_path / "object.npz", x_train=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="holds Python objects"):
        load_npz(tmp_path / "object.npz")
    np.savez(tmp_path / "near.npz", **arrays("vector"), x_tset=np.zeros(3))
    with pytest.raises(InputError, match="did you mean 'x_test'"):
        load_npz(tmp_path / "near.npz")


def test_paths_that_are_no_data(tmp_path):
    for name, message in (("none", "no such file or folder"), ("", "is no data set")):
        with pytest.raises(InputError, match=message):
            load_path(tmp_path / name)
