"""Data sets from map-style torch Datasets, read once into tensors."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from calmix.data.arrays import check_dataset
from calmix.data.dataset import DataSet, Part
from calmix.errors import InputError


def from_datasets(train: Any, test: Any, *, validation: Any = None, name: str = "datasets") -> DataSet:
    """A data set from objects with `len(d)` and `d[i] -> (input, label)`.

    uint8 tensors (C, H, W), uint8 arrays and PIL images (H, W, C) are images; floats of any shape are taken
    as they are; whole numbers (L,) are tokens. All inputs must have one shape: random crops and flips belong
    into the recipe, not into the Dataset, which is read once. Class names are those of `train.classes`.

    >>> rows = [(torch.ones(3) * i, i % 2) for i in range(4)]
    >>> from_datasets(rows, rows).train.shape
    (3,)
    """
    parts = {
        part: None if source is None else _read(f"{name}: {part}", source)
        for part, source in (("train", train), ("test", test), ("validation", validation))
    }
    whole_train, whole_test = parts["train"], parts["test"]
    assert whole_train is not None
    assert whole_test is not None
    names = getattr(train, "classes", None)
    count = int(whole_train.labels.max()) + 1
    classes = tuple(map(str, range(count) if names is None else names))
    whole = DataSet(name, classes, whole_train, whole_test, validation=parts["validation"])
    check_dataset(whole)
    return whole


def _read(where: str, source: Any) -> Part:
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        raise InputError(
            f"{where} must be a map-style Dataset, with len() and [i], got {type(source).__name__}"
        )
    if not len(source):
        raise InputError(f"{where} has no examples")
    inputs, labels = [], []
    for i in range(len(source)):
        pair = source[i]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"{where}[{i}] must be (input, label), got {type(pair).__name__}")
        inputs.append(_tensor(f"{where}[{i}]", pair[0]))
        try:
            label = float(pair[1])
        except (TypeError, ValueError):
            label = 0.5
        if label != int(label):
            raise InputError(f"{where}[{i}] has the label {pair[1]!r}: give a whole number")
        labels.append(int(label))
        if inputs[-1].shape != inputs[0].shape or inputs[-1].dtype != inputs[0].dtype:
            raise InputError(
                f"{where}[{i}] is {inputs[-1].dtype} {tuple(inputs[-1].shape)}, [0] is {inputs[0].dtype} "
                f"{tuple(inputs[0].shape)}: bring all to one shape"
            )
    return Part(torch.stack(inputs), torch.tensor(labels))


def _tensor(where: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value.dtype == torch.uint8 and value.ndim == 3:
            return value.permute(1, 2, 0)
    else:
        value = torch.from_numpy(np.array(value))
    if value.dtype == torch.uint8 and value.ndim == 2:
        return value.unsqueeze(-1)  # type: ignore[no-any-return]
    if value.dtype == torch.uint8 and value.ndim == 3:
        return value  # type: ignore[no-any-return]
    if value.is_floating_point() and value.ndim:
        return value.float()  # type: ignore[no-any-return]
    if value.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8) and value.ndim == 1:
        return value.long()  # type: ignore[no-any-return]
    raise InputError(
        f"{where} is {value.dtype} {tuple(value.shape)}: give images (uint8), floats, or token ids (L,)"
    )
