import numpy as np
import pytest

from calmix import InputError
from calmix.data import kind_of, load_path
from tests.own import arrays

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore")


def saved(folder, kind, column, **features):
    values = arrays(kind)
    parts = {
        part: datasets.Dataset.from_dict({column: list(values[f"x_{part}"]), "label": values[f"y_{part}"]})
        for part in ("train", "test")
    }
    whole = datasets.DatasetDict(parts)
    if features:
        whole = whole.cast_column("label", datasets.ClassLabel(**features))
    whole.save_to_disk(folder)
    return values


def test_tokens_and_class_names(tmp_path):
    values = saved(tmp_path / "saved", "tokens", "input_ids", names=["a", "b", "c"])
    whole = load_path(tmp_path / "saved")
    assert (kind_of(whole.train), whole.classes) == ("tokens", ("a", "b", "c"))
    assert np.array_equal(whole.train.inputs.numpy(), values["x_train"])
    assert whole.test.labels.tolist() == values["y_test"].tolist()


def test_what_is_missing_is_said(tmp_path):
    saved(tmp_path / "saved", "vector", "sentence")
    with pytest.raises(InputError, match="no column of inputs among sentence, label"):
        load_path(tmp_path / "saved")
    datasets.Dataset.from_dict({"x": [[1.0]], "label": [0]}).save_to_disk(tmp_path / "one")
    with pytest.raises(InputError, match="must have the splits train and test, and has one split"):
        load_path(tmp_path / "one")
