import io
import pickle
import zipfile

import numpy as np
import pytest
import torch

import calmix
from calmix import memory
from calmix.predictions import Predictions, iter_predictions, load_predictions, pool, save_predictions

LOGITS = torch.tensor([[[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], [[0.0, 0.0, 0.0], [3.0, 1.0, -2.0]]])
LABELS = torch.tensor([0, 1])


def test_save_and_load(tmp_path):
    path = tmp_path / "test.npz"
    save_predictions(path, LOGITS, LABELS, ids=["a", "b"], groups=[7, 9])
    loaded = load_predictions(path)
    assert torch.equal(loaded.logits, LOGITS)
    assert torch.equal(loaded.labels, LABELS)
    assert loaded.ids.tolist() == ["a", "b"]
    assert loaded.groups["group"].tolist() == [7, 9]
    assert sorted(np.load(path, allow_pickle=False).files) == ["groups_group", "ids", "labels", "logits"]
    assert [p.name for p in tmp_path.iterdir()] == ["test.npz"]


def test_matrix_is_one_member(tmp_path):
    np.savez(tmp_path / "one.npz", logits=LOGITS[0].numpy(), labels=LABELS.numpy())
    assert load_predictions(tmp_path / "one.npz").logits.shape == (1, 2, 3)


def test_probs_are_stored_as_logarithms(tmp_path):
    probs = np.array([[[1.0, 0.0], [0.25, 0.75]]])
    np.savez(tmp_path / "p.npz", probs=probs, labels=np.array([0, 1]))
    loaded = load_predictions(tmp_path / "p.npz")
    assert loaded.logits[0, 0, 1] == -torch.inf
    np.testing.assert_allclose(pool(loaded.logits), probs[0], rtol=1e-15)


def test_npy_files_of_logits_and_labels(tmp_path):
    np.save(tmp_path / "test_logits.npy", LOGITS.numpy())
    np.save(tmp_path / "test_labels.npy", LABELS.numpy())
    assert torch.equal(load_predictions(tmp_path / "test_logits.npy").logits, LOGITS)
    np.save(tmp_path / "scores.npy", LOGITS.numpy())
    np.save(tmp_path / "labels.npy", LABELS.numpy())
    with pytest.raises(calmix.InputError, match="the file's name implies neither"):
        load_predictions(tmp_path / "scores.npy")
    assert torch.equal(load_predictions(tmp_path / "scores.npy", values="logits").logits, LOGITS)


def write_table(path, text):
    path.write_text(text)
    return path


def test_csv_with_class_names(tmp_path):
    path = write_table(tmp_path / "t.csv", "id,cat,dog,label,group\nx,0.9,0.1,cat,old\ny,0.2,0.8,dog,young\n")
    loaded = load_predictions(path, values="probs")
    np.testing.assert_allclose(loaded.logits.exp()[0], [[0.9, 0.1], [0.2, 0.8]])
    assert loaded.labels.tolist() == [0, 1]
    assert loaded.classes == ("cat", "dog")
    assert loaded.ids.tolist() == ["x", "y"]
    assert loaded.groups["group"].tolist() == ["old", "young"]


def test_csv_members_are_matched_by_id(tmp_path):
    text = "member,id,0,1,label\na,x,1,2,0\na,y,3,4,1\nb,y,7,8,1\nb,x,5,6,0\n"
    loaded = load_predictions(write_table(tmp_path / "t.csv", text), values="logits")
    assert loaded.logits.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert loaded.labels.tolist() == [0, 1]


def test_csv_members_without_id_are_matched_by_order(tmp_path):
    text = "member,0,1,label\nb,1,2,0\na,5,6,0\nb,3,4,1\na,7,8,1\n"
    loaded = load_predictions(write_table(tmp_path / "t.csv", text), values="logits")
    assert loaded.logits.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]


def test_numbered_columns_are_ordered_by_number(tmp_path):
    loaded = load_predictions(write_table(tmp_path / "t.csv", "1,0,label\n5,6,1\n"), values="logits")
    assert loaded.logits.tolist() == [[[6, 5]]]


def test_csv_of_several_blocks(tmp_path):
    logits = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    rows = "".join(f"{a!r},{b!r},1\n" for a, b in logits.tolist())
    loaded = load_predictions(write_table(tmp_path / "t.csv", "0,1,label\n" + rows), values="logits")
    np.testing.assert_array_equal(loaded.logits[0].float(), logits)


def test_parquet_equals_csv(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"member": ["a", "b"], "id": [3, 3], "0": [1.0, 2.0], "1": [0.5, 0.25], "label": [1, 1]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    loaded = load_predictions(tmp_path / "t.parquet", values="logits")
    assert loaded.logits.tolist() == [[[1.0, 0.5]], [[2.0, 0.25]]]
    assert loaded.labels.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1,label\n", "no rows"),
        ("", "is empty"),
        ("0,1,label\n1,2\n", "line 2: 2 columns"),
        ("0,1,label\n1,2,0\n1,two,0\n", "line 3: 'two' in column '1'"),
        ("1,2,label\n1,2,1\n", "from 0"),
        ("0,0,label\n1,2,1\n", "two columns"),
        ("0,1,label\n1,2,cat\n", "label 'cat' of row 0"),
        ("0,1,label\n1,2,2\n", "label 2 of example 0 is outside 0..1"),
        ("0,1,label\n1,nan,0\n", "example 0, member 0 are not finite"),
        ("member,0,1,label\na,1,2,0\na,1,2,0\nb,1,2,0\n", "a: 2, b: 1"),
        ("member,id,0,1,label\na,x,1,2,0\nb,y,1,2,0\n", "must have one row with the id 'x'"),
        ("member,0,1,label\na,1,2,0\nb,1,2,1\n", "disagree on the label of example 0"),
        ("only,label\n1,0\n", "one column per class"),
    ],
)
def test_bad_csv_raises(tmp_path, text, message):
    path = write_table(tmp_path / "bad.csv", text)
    with pytest.raises(calmix.InputError, match=message) as caught:
        load_predictions(path, values="logits")
    assert "bad.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"scores": np.zeros((2, 3)), "labels": np.zeros(2, int)}, "'scores'"),
        ({"logits": np.zeros((2, 3)), "probs": np.zeros((2, 3)), "labels": np.zeros(2, int)}, "either"),
        ({"logits": np.zeros((2, 3)), "labels": np.zeros(3, int)}, r"shape \(2,\), got \(3,\)"),
        ({"logits": np.zeros((2, 3)), "labels": np.zeros((2, 3), int)}, "argmax"),
        ({"logits": np.zeros((2, 3)), "labels": np.full(2, 0.5)}, "integers"),
        ({"logits": np.zeros((2, 3)), "labels": np.array([0, -1])}, "label -1 of example 1"),
        ({"logits": np.zeros(3), "labels": np.zeros(3, int)}, "shape"),
        ({"logits": np.zeros((2, 3), complex), "labels": np.zeros(2, int)}, "numbers"),
        ({"logits": np.full((2, 3), np.inf), "labels": np.zeros(2, int)}, "not finite"),
        ({"logits": np.full((2, 3), -np.inf), "labels": np.zeros(2, int)}, "not finite"),
        ({"probs": np.full((2, 3), 0.5), "labels": np.zeros(2, int)}, "sum 1.5.; if these are logits"),
        ({"probs": np.array([[1.5, -0.5]]), "labels": np.zeros(1, int)}, "at least 0"),
        ({"probs": np.array([[np.nan, 1.0]]), "labels": np.zeros(1, int)}, "example 0, member 0"),
        ({"logits": np.zeros((2, 3)), "labels": np.zeros(2, int), "ids": np.zeros(5)}, "ids"),
    ],
)
def test_bad_npz_raises(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(calmix.InputError, match=message) as caught:
        load_predictions(tmp_path / "bad.npz")
    assert "bad.npz" in str(caught.value)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


def npy(header_shape, data=b""):
    """A .npy file that promises `header_shape` float64 values and holds `data`."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f8", "fortran_order": False, "shape": header_shape}
    )
    return file.getvalue() + data


def test_malicious_and_truncated_files_raise(tmp_path):
    good = tmp_path / "good.npz"
    save_predictions(good, LOGITS, LABELS)
    bad = tmp_path / "bad.npz"
    with zipfile.ZipFile(bad, "w") as archive:
        objects = io.BytesIO()
        np.save(objects, np.array([Bomb()], dtype=object), allow_pickle=True)
        archive.writestr("logits.npy", objects.getvalue())
        archive.writestr("labels.npy", npy((1,)))
    with pytest.raises(calmix.InputError, match=r"bad\.npz.*unpickled"):
        load_predictions(bad)
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("logits.npy", npy((10**6, 10**6)))
        archive.writestr("labels.npy", npy((1,)))
    with pytest.raises(calmix.InputError, match="truncated"):
        load_predictions(bad)
    bad.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(calmix.InputError, match=r"bad\.npz"):
        load_predictions(bad)
    whole = good.read_bytes()
    for length in range(0, len(whole), 37):
        bad.write_bytes(whole[:length])
        with pytest.raises(calmix.InputError, match=r"bad\.npz"):
            load_predictions(bad)
    objects = tmp_path / "logits.npy"
    np.save(objects, np.array([Bomb()], dtype=object), allow_pickle=True)
    np.save(tmp_path / "labels.npy", LABELS.numpy())
    with pytest.raises(calmix.InputError, match=r"logits\.npy"):
        load_predictions(objects)
    objects.write_bytes(npy((10, 10), b"short"))
    with pytest.raises(calmix.InputError, match=r"logits\.npy"):
        load_predictions(objects)


def test_oversized_csv_field_and_broken_npy_header_raise(tmp_path):
    wide = tmp_path / "wide.csv"
    wide.write_text("label,0,1\n0," + "1" * 200_000 + ",0\n")
    with pytest.raises(calmix.InputError, match="wide"):
        load_predictions(wide)
    np.save(tmp_path / "labels.npy", np.zeros(2, dtype=int))
    np.save(tmp_path / "logits.npy", np.zeros((2, 2)))
    content = (tmp_path / "logits.npy").read_bytes()
    (tmp_path / "logits.npy").write_bytes(content.replace(b"}", b"("))
    with pytest.raises(calmix.InputError, match="logits"):
        load_predictions(tmp_path / "logits.npy")


def test_memory_limits_the_size_of_an_array_where_it_is_known(tmp_path, monkeypatch):
    path = tmp_path / "test.npz"
    save_predictions(path, np.zeros((100_000, 3)), np.zeros(100_000, dtype=int))
    monkeypatch.setattr(memory, "free_memory", lambda: 10.0)
    with pytest.raises(calmix.InputError, match=r"'logits': needs .* of memory, and .* are free"):
        load_predictions(path)


def test_flipped_byte_raises(tmp_path):
    path = tmp_path / "test.npz"
    save_predictions(path, torch.randn(1, 500, 10), torch.zeros(500, dtype=torch.long))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(calmix.InputError, match="CRC"):
        load_predictions(path)


def test_values_must_agree_with_the_file(tmp_path):
    save_predictions(tmp_path / "t.npz", LOGITS, LABELS)
    with pytest.raises(calmix.InputError, match="values is 'probs', but the array's name implies 'logits'"):
        load_predictions(tmp_path / "t.npz", values="probs")
    with pytest.raises(calmix.InputError, match="got 'softmax'"):
        load_predictions(tmp_path / "t.npz", values="softmax")


def test_missing_and_unknown_files_raise(tmp_path):
    with pytest.raises(calmix.InputError, match="no such file"):
        load_predictions(tmp_path / "none.npz")
    (tmp_path / "t.pkl").write_bytes(b"")
    with pytest.raises(calmix.InputError, match=r"got '\.pkl'"):
        load_predictions(tmp_path / "t.pkl")
    with pytest.raises(calmix.InputError, match=r"must be one of \.npz"):
        save_predictions(tmp_path / "t.pt", LOGITS, LABELS)


def test_bad_predictions_are_not_written(tmp_path):
    with pytest.raises(calmix.InputError, match="label 3"):
        save_predictions(tmp_path / "t.npz", LOGITS, torch.tensor([0, 3]))
    assert not list(tmp_path.iterdir())


FORMATS = ("npz", "csv", "tsv", "parquet", "jsonl", "csv.gz", "tsv.gz", "jsonl.gz")


def example(*, members=2, labels=True, classes=("cat", "hot_dog", "[emu]")):
    draw = torch.Generator().manual_seed(0)
    return Predictions(
        torch.randn(members, 30, 3, generator=draw),
        torch.arange(30) % 3 if labels else None,
        ids=[f"row {i}" for i in range(30)],
        groups={"age": np.arange(30) % 4, "sex": np.array(["f", "m"] * 15)},
        classes=classes,
    )


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("classes", [("cat", "hot_dog", "[emu]"), None])
@pytest.mark.parametrize("values", ["logits", "probs"])
def test_every_format_round_trips(tmp_path, suffix, members, labels, classes, values):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    before = example(members=members, labels=labels, classes=classes)
    save_predictions(tmp_path / f"t.{suffix}", before, values=values)
    after = load_predictions(tmp_path / f"t.{suffix}")
    if values == "logits":
        assert torch.equal(after.logits.float(), before.logits)
    torch.testing.assert_close(after.logits.softmax(2).float(), before.logits.softmax(2))
    assert (after.labels is None) if not labels else torch.equal(after.labels, before.labels)
    assert after.ids.tolist() == before.ids.tolist()
    assert after.classes == classes
    for name, column in before.groups.items():
        assert after.groups[name].astype(str).tolist() == column.astype(str).tolist()


def test_npy_round_trips_with_its_labels(tmp_path):
    save_predictions(tmp_path / "test_logits.npy", LOGITS, LABELS)
    loaded = load_predictions(tmp_path / "test_logits.npy")
    assert torch.equal(loaded.logits, LOGITS)
    assert torch.equal(loaded.labels, LABELS)
    with pytest.raises(calmix.InputError, match="implies 'logits'"):
        save_predictions(tmp_path / "test_logits.npy", LOGITS.softmax(2), LABELS, values="probs")


def test_probs_are_told_not_guessed(tmp_path):
    probs = LOGITS.softmax(2)
    with pytest.raises(calmix.InputError, match="these logits are probabilities"):
        save_predictions(tmp_path / "t.npz", probs, LABELS)
    save_predictions(tmp_path / "t.npz", probs, LABELS, values="probs")
    assert np.load(tmp_path / "t.npz")["probs"].shape == (2, 2, 3)
    save_predictions(tmp_path / "b.npz", np.array([0.25, 0.5]), [0, 1], "probs")
    np.testing.assert_allclose(np.load(tmp_path / "b.npz")["probs"], [[[0.75, 0.25], [0.5, 0.5]]])
    with pytest.raises(calmix.InputError, match="hold labels"):
        save_predictions(tmp_path / "t.npz", Predictions(LOGITS), LABELS)
    with pytest.raises(calmix.InputError, match="got 'softmax'"):
        save_predictions(tmp_path / "t.npz", LOGITS, LABELS, values="softmax")


def test_impossible_classes_survive_text(tmp_path):
    logits = np.array([[0.0, -np.inf, 1.0], [2.0, 1.0, -np.inf]])
    for suffix in FORMATS:
        save_predictions(tmp_path / f"t.{suffix}", logits, LABELS)
        np.testing.assert_array_equal(load_predictions(tmp_path / f"t.{suffix}").logits[0], logits)


def test_the_same_predictions_are_the_same_bytes(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        save_predictions(tmp_path / name, example())
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_blocks_are_the_whole(tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    whole = example(members=1)
    save_predictions(tmp_path / f"t.{suffix}", whole)
    blocks = list(iter_predictions(tmp_path / f"t.{suffix}", rows=7))
    assert [len(block) for block in blocks] == [7, 7, 7, 7, 2]
    assert torch.equal(torch.cat([block.logits for block in blocks], 1).float(), whole.logits)
    assert torch.equal(torch.cat([block.labels for block in blocks]), whole.labels)
    assert all(block.classes == whole.classes for block in blocks)
    with pytest.raises(calmix.InputError, match="rows is 0"):
        iter_predictions(tmp_path / f"t.{suffix}", rows=0)


def test_blocks_of_members_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    save_predictions(tmp_path / "t.parquet", example(members=2))
    with pytest.raises(calmix.InputError, match="would not hold all members"):
        list(iter_predictions(tmp_path / "t.parquet"))
