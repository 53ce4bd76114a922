import numpy as np
import pytest
import torch

from calmix import InputError, data
from calmix.data import DataSet, Part, dataset_digest, from_arrays, kind_of
from tests.own import arrays


@pytest.mark.parametrize(
    ("kind", "shape", "dtype"),
    [
        ("image", (3, 9, 9), torch.uint8),
        ("vector", (5,), torch.float32),
        ("tensor", (2, 4, 3), torch.float32),
        ("tokens", (7,), torch.int64),
    ],
)
def test_kinds(kind, shape, dtype):
    values = arrays(kind)
    whole = from_arrays(values)
    assert (kind_of(whole.train), whole.train.shape, whole.train.inputs.dtype) == (kind, shape, dtype)
    taken = whole.train.take(torch.tensor([4, 1]))
    (rows,) = taken.read([torch.tensor([1])])
    expected = torch.from_numpy(np.asarray(values["x_train"][1:2])).to(dtype)
    assert torch.equal(rows, expected.permute(0, 3, 1, 2) if kind == "image" else expected)


def test_grey_images_have_a_channel():
    values = arrays()
    for name in ("x_train", "x_test"):
        values[name] = values[name][..., 0]
    assert from_arrays(values).train.shape == (1, 9, 9)


def test_labels_may_be_names_and_groups_any_values():
    names = np.array(["cat", "dog", "eel"])
    values = arrays("vector")
    values |= {"y_train": names[values["y_train"]], "y_test": names[values["y_test"]]}
    values |= {"groups_train": np.arange(60) % 2 * 10, "groups_test": np.arange(20) % 2 * 10}
    whole = from_arrays(values)
    assert whole.classes == ("cat", "dog", "eel")
    assert whole.train.labels[:4].tolist() == [0, 1, 2, 0]
    assert whole.group_names == ("0", "10")
    assert whole.train.groups[:3].tolist() == [0, 1, 0]


def test_a_validation_part():
    values = arrays("vector")
    whole = from_arrays({**values, "x_val": values["x_test"], "y_val": values["y_test"]})
    assert len(whole.validation) == 20


def changed(kind="vector", **changes):
    values = arrays(kind)
    for name, change in changes.items():
        values[name] = change(values[name].copy()) if callable(change) else change
    return values


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (changed(x_train=put((3, 1), np.nan)), r"x_train \[3, 1\] is nan .*fill it in, or drop the row"),
        (changed(x_test=put((0, 2), np.inf)), r"x_test \[0, 2\] is inf"),
        (changed(y_train=put(5, -1)), r"y_train\[5\] of the train part is -1, out of range for 3 classes"),
        (changed(y_test=put(4, 9)), r"y_test\[4\] of the test part is 9, out of range .*give 0 to 2"),
        (changed(y_train=lambda y: y + 0.5), "y_train is float64"),
        (changed(y_train=lambda y: y[:-1]), "x_train has 60 rows, but y_train has 59"),
        (changed(x_train=lambda x: x[:, :4]), "the test part has examples of shape"),
        (changed(x_train=lambda x: x[:, 0]), r"x_train has the shape \(60,\)"),
        (changed(x_train=lambda x: x.astype(complex)), "x_train is complex128"),
        (changed("tokens", x_train=put((2, 1), -5)), r"x_train\[2, 1\] is -5: token ids start at 0"),
        (changed(x_val=np.zeros((3, 5))), "only one of x_val and y_val"),
        ({"x_train": np.zeros((3, 2))}, "lacks y_train"),
        (changed(y_train=np.zeros(60, int), y_test=np.zeros(20, int)), "has 1 class"),
        (changed(groups_train=np.zeros((60, 2), int)), "groups_train is int64"),
        (changed(y_test=np.array(["a"] * 20)), "is 'a', which is no class"),
    ],
)
def test_bad_arrays_are_refused_with_their_place(values, message):
    with pytest.raises(InputError, match=message):
        from_arrays(values)


def test_a_data_set_of_parts_is_checked_too():
    part = Part(torch.zeros(4, 2), torch.tensor([0, 1, 2, 0]))
    with pytest.raises(InputError, match=r"labels\[2\] of the train part is 2"):
        data.check_dataset(DataSet("mine", ("a", "b"), part, part))
    grouped = Part(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 1, 2]))
    with pytest.raises(InputError, match=r"groups\[3\] of the train part is 2"):
        data.check_dataset(DataSet("mine", ("a", "b"), grouped, grouped, ("x", "y")))


def test_the_digest_is_that_of_the_content():
    first, again = (dataset_digest(from_arrays(arrays("vector"), name=name)) for name in ("a", "b"))
    assert first == again
    others = [
        from_arrays(changed(x_train=put((3, 1), 7.0))),
        from_arrays(changed(y_test=put(0, 1))),
        from_arrays(arrays("vector"), classes=("a", "b", "c")),
        from_arrays(changed(x_val=np.zeros((2, 5)), y_val=np.zeros(2, int))),
    ]
    assert len({first, *map(dataset_digest, others)}) == 5
