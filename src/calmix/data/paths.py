"""Data sets by path: a `.npz` file, a folder of images, or a Hugging Face data set saved on disk."""

from pathlib import Path

from calmix.data.dataset import DataSet
from calmix.data.folder import load_folder
from calmix.data.huggingface import is_saved_dataset, load_saved
from calmix.data.npz import load_npz
from calmix.errors import InputError


def load_path(path: Path) -> DataSet:
    """What lies at `path`."""
    if path.suffix == ".npz":
        return load_npz(path)
    if path.is_dir() and is_saved_dataset(path):
        return load_saved(path)
    if (path / "train").is_dir() and (path / "val").is_dir():
        return load_folder(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    raise InputError(
        f"{path} is no data set: give a .npz file, a folder with train/<class> and val/<class>, or one that "
        "datasets' save_to_disk wrote; a Python file is given as file.py:function"
    )


def looks_like_path(text: str) -> bool:
    """Whether a text says a path rather than a data set's name."""
    return Path(text).suffix == ".npz" or "/" in text or "\\" in text or Path(text).is_dir()
