"""Data sets in `.npz` files."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from calmix.data.arrays import from_arrays
from calmix.data.dataset import DataSet
from calmix.errors import InputError, one_of

KEYS = ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test")
GROUPS = ("groups_train", "groups_val", "groups_test")


def load_npz(path: Path) -> DataSet:
    """The arrays of a `.npz` file as a data set; see `from_arrays`. `classes` holds names as strings."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise InputError(
                    f"{path} is one array: save x_train, y_train, x_test and y_test with np.savez"
                )
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = "it holds Python objects" if "pickle" in str(error) else str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read as .npz: {reason}; write it again with np.savez") from None
    for name in arrays:
        one_of(f"array in {path}", name, (*KEYS, *GROUPS, "classes"))
    classes = arrays.pop("classes", None)
    return from_arrays(
        arrays, name=path.name, classes=None if classes is None else [str(name) for name in classes]
    )
