"""Hugging Face data sets that were saved on disk (the extra `huggingface`)."""

from pathlib import Path
from typing import Any

import numpy as np

from calmix.data.arrays import from_arrays
from calmix.data.dataset import DataSet
from calmix.errors import InputError

FILES = ("dataset_dict.json", "state.json")
LABELS = ("label", "labels", "fine_label", "target")
INPUTS = ("image", "img", "input_ids", "features", "x", "inputs", "pixel_values")


def is_saved_dataset(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return any((folder / name).is_file() for name in FILES)


def load_saved(folder: Path) -> DataSet:
    """The splits train, test and, where there is one, validation of a `DatasetDict`.

    The label is the column `label` (or `labels`, `target`), the input the column `image`, `input_ids`,
    `features` or `x`; tokens must be padded to one length.
    """
    try:
        from datasets import ClassLabel, DatasetDict, load_from_disk
    except ImportError:
        raise InputError(f"{folder} is a Hugging Face data set: pip install 'calmix[huggingface]'") from None
    try:
        saved: Any = load_from_disk(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder} cannot be read by datasets.load_from_disk: {error}") from None
    if not isinstance(saved, DatasetDict) or not {"train", "test"} <= saved.keys():
        got = ", ".join(saved) if isinstance(saved, DatasetDict) else "one split"
        raise InputError(f"{folder} must have the splits train and test, and has {got}: save a DatasetDict")
    columns = saved["train"].column_names
    label, value = _column(folder, columns, LABELS, "labels"), _column(folder, columns, INPUTS, "inputs")
    feature = saved["train"].features[label]
    classes = list(feature.names) if isinstance(feature, ClassLabel) else None
    arrays: dict[str, Any] = {}
    for part, split in (("train", "train"), ("val", "validation"), ("test", "test")):
        if split not in saved:
            continue
        rows = [np.asarray(row) for row in saved[split][value]]
        if len({row.shape for row in rows}) != 1:
            raise InputError(f"{folder}: {value} of {split} has rows of different shapes: resize or pad them")
        arrays[f"x_{part}"] = np.stack(rows)
        arrays[f"y_{part}"] = np.asarray(saved[split][label])
    return from_arrays(arrays, name=folder.name, classes=classes)


def _column(folder: Path, columns: list[str], known: tuple[str, ...], what: str) -> str:
    for name in known:
        if name in columns:
            return name
    raise InputError(
        f"{folder}: no column of {what} among {', '.join(columns)}; rename it to {known[0]!r} "
        "(Dataset.rename_column)"
    )
