import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from calmix import InputError
from calmix.data import from_datasets, kind_of


def test_tensors_of_every_kind():
    y = torch.arange(6) % 2
    for x, kind, shape in (
        (torch.rand(6, 3, 4, 5), "tensor", (3, 4, 5)),
        (torch.rand(6, 4).double(), "vector", (4,)),
        (torch.randint(9, (6, 4)), "tokens", (4,)),
        (torch.randint(255, (6, 3, 4, 5), dtype=torch.uint8), "image", (3, 4, 5)),
        (torch.randint(255, (6, 4, 5), dtype=torch.uint8), "image", (1, 4, 5)),
    ):
        whole = from_datasets(TensorDataset(x, y), TensorDataset(x, y))
        assert (kind_of(whole.train), whole.train.shape) == (kind, shape)
        (rows,) = whole.train.read([torch.tensor([2])])
        assert torch.equal(rows, x[2:3].reshape(rows.shape).to(rows.dtype))


def test_pil_images_are_channels_last_and_classes_are_named():
    class Pictures(list):
        classes = ("dark", "bright")

    rows = Pictures([(Image.fromarray(np.full((4, 5, 3), 90 * i, np.uint8)), i) for i in range(2)])
    whole = from_datasets(rows, rows)
    assert (whole.train.shape, whole.classes) == ((3, 4, 5), ("dark", "bright"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no examples"),
        (3, "map-style Dataset"),
        ([torch.zeros(2)], r"must be \(input, label\)"),
        ([(torch.zeros(2), 0), (torch.zeros(3), 1)], r"\[1\] is .*bring all to one shape"),
        ([(torch.zeros(2), "a")], "has the label 'a': give a whole number"),
        ([(torch.zeros(2, dtype=torch.bool), 0)], "give images"),
        ([(torch.tensor([0.0, float("nan")]), 0), (torch.zeros(2), 1)], "is nan"),
    ],
)
def test_what_cannot_be_read(rows, message):
    with pytest.raises(InputError, match=message):
        from_datasets(rows, rows)
