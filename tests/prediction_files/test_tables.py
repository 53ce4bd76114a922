"""Columns of tables: those of text files with pyarrow and without, of Parquet and of JSON."""

import gzip
import io
import json
import sys

import numpy as np
import pytest

from calmix import InputError, load_predictions


@pytest.fixture(params=["pyarrow", "numpy"])
def reader(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    else:
        pytest.importorskip("pyarrow")


def load(tmp_path, text, values=None, name="t.csv", **options):
    (tmp_path / name).write_text(text)
    return load_predictions(tmp_path / name, values, **options)


@pytest.mark.parametrize(
    ("header", "classes", "values"),
    [
        ("0,1", None, "logits"),
        ("p_0,p_1", None, None),
        ("prob_cat,prob_dog", ("cat", "dog"), None),
        ("logit.cat,logit.dog", ("cat", "dog"), None),
        ("class0,class1", None, "logits"),
        ("cat,dog", ("cat", "dog"), "logits"),
        ("prob_hot_dog,prob_cat", ("hot_dog", "cat"), None),
    ],
)
def test_class_columns_by_their_names(reader, tmp_path, header, classes, values):
    numbers = "0.25,0.75" if header.startswith("p") else "1.5,-2"
    names = classes or ("0", "1")
    loaded = load(tmp_path, f"{header},label\n{numbers},{names[0]}\n{numbers},{names[1]}\n", values)
    assert loaded.classes == classes
    assert loaded.labels.tolist() == [0, 1]
    assert loaded.logits.shape == (1, 2, 2)


def test_prefixed_numbers_are_ordered_by_number(reader, tmp_path):
    names = [f"logit_{k}" for k in range(11)]
    shuffled = names[::-1]
    text = ",".join([*shuffled, "label"]) + "\n" + ",".join(str(int(n[6:]) / 2) for n in shuffled) + ",10\n"
    loaded = load(tmp_path, text)
    assert loaded.logits[0, 0].tolist() == [k / 2 for k in range(11)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p_0,p_1,age,label\n0.5,0.5,30,1\n", r"column 'age' holds numbers.*ignore='age'"),
        ("0,1,age,label\n0.5,0.6,30,1\n", "column 'age' holds numbers"),
        ("cat,dog,emu,label\n1,2,3,cat\n1,2,3,dog\n", "column 'emu' holds numbers"),
        ("cat,dog,label\n1,2,cat\n1,2,cat\n", r"needs one column per class"),
        ("prob_a,prob_b,logit_a,logit_b,label\n1,2,3,4,0\n", "'prob_' and 'logit_'"),
        ("p_1,p_2,label\n0.5,0.5,1\n", "from 0"),
        ("p_0,p_1,label\n0.5,x,1\n", "line 2: 'x' in column 'p_1' is not a number"),
        ("p_0,p_1,label\n0.5,,1\n", "line 2: '' in column 'p_1' is not a number"),
        ("p_0,p_1,label\n0.5,0.5,1\n0.5,0.5\n", "line 3: 2 columns where the header has 3"),
        ("p_0,p_0,label\n0.5,0.5,1\n", "two columns are named 'p_0'"),
        ("p_0,p_1,label\n0.5,0.5,2.5\n", "label '2.5' of row 0"),
        ("p_0,p_1,label\n0.5,0.5,\n", "label '' of row 0"),
        ("p_0,p_1,label\n0.2,0.5,1\n", "sum 0.7"),
        ("p_0,p_1,label\n0.49,0.5,1\n", "normalise=True"),
        ("p_0,p_1,label\n0.5,0.5,99999999999999999999999\n", "outside"),
    ],
)
def test_what_is_refused(reader, tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load(tmp_path, text, "probs" if text.startswith("p_") else "logits" if text[0] in "0c" else None)


def test_named_columns(reader, tmp_path):
    text = "key,truth,yes,no,weight,age\nk1,yes,0.9,0.1,7,30\nk2,no,0.2,0.8,7,40\n"
    options = {"label": "truth", "classes": ["no", "yes"], "id": "key", "group": "age"}
    loaded = load(tmp_path, text, "probs", **options)
    np.testing.assert_allclose(loaded.logits.exp()[0], [[0.1, 0.9], [0.8, 0.2]])
    assert loaded.labels.tolist() == [1, 0]
    assert loaded.ids.tolist() == ["k1", "k2"]
    assert loaded.groups["age"].tolist() == ["30", "40"]
    ignored = load(tmp_path, text, "probs", label="truth", id="key", ignore=["weight", "age"])
    assert ignored.classes == ("yes", "no")
    for option in ("label", "id", "group", "ignore", "positive", "member"):
        with pytest.raises(InputError, match=f"column {option}= .*did you mean 'truth'"):
            load(tmp_path, text, "probs", **{option: "thruth"})
    with pytest.raises(InputError, match="at least two"):
        load(tmp_path, text, "probs", classes=["yes"])
    with pytest.raises(InputError, match="twice"):
        load(tmp_path, text, "probs", classes=["yes", "yes"])
    with pytest.raises(InputError, match="label must be the name of a column"):
        load(tmp_path, text, "probs", label=3)


@pytest.mark.parametrize(
    ("labels", "options", "expected", "classes"),
    [
        ("01", {}, [0, 1], None),
        (["False", "TRUE"], {}, [0, 1], None),
        (["0.0", "1.0"], {}, [0, 1], None),
        (["good", "bad"], {}, [0, 1], ("good", "bad")),
        (["no", "yes"], {"classes": ["no", "yes"]}, [0, 1], ("no", "yes")),
    ],
)
def test_one_positive_column(reader, tmp_path, labels, options, expected, classes):
    text = f"prob_bad,age,label\n0.25,9,{labels[0]}\n1,9,{labels[1]}\n"
    loaded = load(tmp_path, text, positive="prob_bad", **options)
    np.testing.assert_allclose(loaded.logits.exp()[0], [[0.75, 0.25], [0, 1]])
    assert loaded.labels.tolist() == expected
    assert loaded.classes == classes


def test_one_positive_column_that_cannot_be_used(reader, tmp_path):
    with pytest.raises(InputError, match=r"classes=\[negative, positive\]"):
        load(tmp_path, "p,label\n0.5,yes\n0.5,no\n", positive="p")
    with pytest.raises(InputError, match="is no probability"):
        load(tmp_path, "p,label\n1.5,1\n", positive="p")
    logits = load(tmp_path, "p,label\n1.5,1\n", "logits", positive="p").logits
    assert logits.tolist() == [[[0, 1.5]]]


def test_quotes_byte_order_mark_and_line_ends(reader, tmp_path):
    text = '\ufeffid,"prob_a,b",prob_c,label\r\n"x ""1""\nmore",0.25,0.75,"a,b"\r\n\r\ny,0.5,0.5,c\r\n'
    (tmp_path / "t.csv").write_bytes(text.encode())
    loaded = load_predictions(tmp_path / "t.csv")
    assert loaded.classes == ("a,b", "c")
    assert loaded.labels.tolist() == [0, 1]
    assert loaded.ids[1] == "y"


def test_whole_numbers_may_be_followed_by_others(reader, tmp_path):
    rows = "1,0,0\n" * 3000 + "0.25,0.75,1\n"
    loaded = load(tmp_path, "p_0,p_1,label\n" + rows)
    assert loaded.logits.exp()[0, -1].tolist() == pytest.approx([0.25, 0.75])


def test_text_that_begins_with_numbers_is_text(reader, tmp_path):
    loaded = load(tmp_path, "p_0,p_1,site,label\n" + "0.5,0.5,7,0\n" * 50 + "0.25,0.75,8b,1\n")
    assert loaded.logits.shape == (1, 51, 2)
    assert loaded.labels.tolist() == [0] * 50 + [1]


def test_wide_tables_are_read_by_numpy(tmp_path):
    names = [f"logit_{k}" for k in range(3000)]
    text = ",".join([*names, "label"]) + "\n" + ",".join(map(str, range(3000))) + ",7\n"
    loaded = load(tmp_path, text)
    assert loaded.logits[0, 0].tolist() == list(range(3000))
    assert loaded.labels.tolist() == [7]


def test_standard_input(monkeypatch):
    class Standard:
        buffer = io.BytesIO(b"p_0,p_1,label\n0.5,0.5,1\n")

    monkeypatch.setattr(sys, "stdin", Standard())
    assert load_predictions("-", format="csv").labels.tolist() == [1]
    with pytest.raises(InputError, match="standard input has no suffix"):
        load_predictions("-")
    with pytest.raises(InputError, match="unknown format 'cvs'; did you mean 'csv'"):
        load_predictions("-", format="cvs")


def test_a_large_gz_is_refused(tmp_path, monkeypatch):
    from calmix.prediction_files import sources

    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"0" * 10_000_000))
    monkeypatch.setattr(sources, "free_memory", lambda: 4e6)
    with pytest.raises(InputError, match="too many for this machine"):
        load_predictions(tmp_path / "bomb.csv.gz")


def parquet(tmp_path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    files.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_parquet_types(tmp_path):
    import datetime

    columns = {
        "p_0": np.array([0.25, 0.5], np.float32),
        "p_1": np.array([0.75, 0.5], np.float32),
        "label": [True, False],
        "when": [datetime.datetime(2020, 1, 1)] * 2,
        "correct": [True, True],
    }
    loaded = load_predictions(parquet(tmp_path, columns))
    assert loaded.logits.dtype.itemsize == 4
    assert loaded.labels.tolist() == [1, 0]
    with pytest.raises(InputError, match="class columns must be numbers, but 'when' is timestamp"):
        load_predictions(tmp_path / "t.parquet", "probs", classes=["p_0", "when"])
    with pytest.raises(InputError, match="column 'p_0' has empty values"):
        load_predictions(parquet(tmp_path, columns | {"p_0": [0.5, None]}))


def test_parquet_lists(tmp_path):
    loaded = load_predictions(parquet(tmp_path, {"logits": [[1.0, 2.0], [3.0, 5.0]], "label": [1, 0]}))
    assert loaded.logits.tolist() == [[[1, 2], [3, 5]]]
    members = load_predictions(parquet(tmp_path, {"logits": [[[1.0, 2.0], [3.0, 5.0]]], "label": [1]}))
    assert members.logits.tolist() == [[[1, 2]], [[3, 5]]]
    with pytest.raises(InputError, match="different lengths"):
        load_predictions(parquet(tmp_path, {"logits": [[1.0, 2.0], [3.0]], "label": [1, 0]}))
    with pytest.raises(InputError, match="must hold numbers"):
        load_predictions(parquet(tmp_path, {"logits": [["a", "b"]], "label": [1]}))


def test_parquet_is_refused_by_its_header(tmp_path, monkeypatch):
    from calmix.prediction_files import parquet as module

    path = parquet(tmp_path, {"p_0": [0.5], "p_1": [0.5], "label": [1]})

    def small(name, size):
        raise InputError(f"{name} needs {size} bytes")

    monkeypatch.setattr(module, "check_fits", small)
    with pytest.raises(InputError, match=r"t\.parquet needs \d+ bytes"):
        load_predictions(path)


def lines(tmp_path, rows):
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return tmp_path / "t.jsonl"


@pytest.mark.parametrize(
    "row",
    [
        {"prob_a": 0.25, "prob_b": 0.75, "label": "b", "note": {"any": "thing"}},
        {"probs": {"a": 0.25, "b": 0.75}, "label": "b"},
        {"probs": [0.25, 0.75], "label": 1},
    ],
)
def test_json_rows(tmp_path, row):
    loaded = load_predictions(lines(tmp_path, [row, row]))
    np.testing.assert_allclose(loaded.logits.exp()[0], [[0.25, 0.75]] * 2)
    assert loaded.labels.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2]], "line 1: must be an object"),
        ([{"p_0": 0.5, "p_1": 0.5}, {"p_0": 1}], "row 1 has no 'p_1'"),
        ([{"p_0": 0.5, "p_1": "x"}], "must be a number, got 'x'"),
        ([{"p_0": 0.5, "p_1": 0.5, "label": [1]}], r"must be text or a number, got \[1\]"),
        ([{"probs": [0.5, 0.5]}, {"probs": [1]}], "lists of numbers, of the same length"),
        ([{"probs": {"a": 1}}, {"probs": 1}], "object by class"),
        ([{"p_0": 0.5, "p_1": 0.5, "label": 10**30}], "too large"),
    ],
)
def test_json_that_is_refused(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        load_predictions(lines(tmp_path, rows))


def sample(doc, scores, target, **more):
    """A line as the harness writes it: numbers as text."""
    pairs = [[str(score), "False"] for score in scores]
    arguments = {f"gen_args_{i}": {"arg_0": "Q", "arg_1": f" option {i}"} for i in range(len(scores))}
    row = {"doc_id": doc, "doc": {"q": "?"}, "target": str(target), "arguments": arguments}
    return row | {"resps": [[pair] for pair in pairs], "filtered_resps": pairs, "acc": 1.0, **more}


def test_logs_of_a_harness(tmp_path):
    rows = [
        sample(0, [-1.5, -2.5, -9.0], 1),
        sample(1, [-3.0, -1.0], "option 0"),
        sample(2, [-3, -1, -2], "C"),
    ]
    loaded = load_predictions(lines(tmp_path, rows))
    assert loaded.logits.tolist() == [[[-1.5, -2.5, -9], [-3, -1, -np.inf], [-3, -1, -2]]]
    assert loaded.labels.tolist() == [1, 0, 2]
    assert loaded.ids.tolist() == ["0", "1", "2"]
    twice = [sample(0, [-1, -2], 0, filter="none"), sample(0, [-1, -2], 0, filter="other")]
    assert len(load_predictions(lines(tmp_path, twice))) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"doc_id": 4, "target": "5", "resps": [["five"]], "filtered_resps": ["five", "5"]},
            "multiple-choice",
        ),
        ({"doc_id": 4, "target": "0", "resps": [["five"]]}, "at least two options"),
        (sample(4, [-1, -2], 2), "target 2 of document 4 is outside its 2 options"),
        (sample(4, [-1, -2], "[0, 1]"), "neither the number"),
        (sample(4, ["nan", -2], 1), "not finite"),
    ],
)
def test_logs_that_are_refused(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        load_predictions(lines(tmp_path, [row]))


def test_arrays_have_no_columns(tmp_path):
    np.savez(
        tmp_path / "t.npz",
        logits=np.eye(3) * 4,
        groups_age=[1, 2, 3],
        groups=[0, 0, 1],
        classes=["a", "b", "c"],
    )
    loaded = load_predictions(tmp_path / "t.npz", group="age")
    assert loaded.labels is None
    assert loaded.classes == ("a", "b", "c")
    assert loaded.groups["group"].tolist() == [0, 0, 1]
    assert load_predictions(tmp_path / "t.npz", classes=["x", "y", "z"]).classes == ("x", "y", "z")
    with pytest.raises(InputError, match="label names a column of a table"):
        load_predictions(tmp_path / "t.npz", label="y")
    with pytest.raises(InputError, match="no group 'sex'; the groups are 'age', 'group'"):
        load_predictions(tmp_path / "t.npz", group="sex")


def test_texts_of_many_blocks_are_stripped_and_in_order(reader, tmp_path, monkeypatch):
    from calmix.prediction_files import text

    monkeypatch.setattr(text, "LEAST_BLOCK", 512)
    monkeypatch.setattr(text, "BLOCK_PER_COLUMN", 1)
    rows = [f"0.25,0.75, {'cat' if i % 3 else 'dog'} ,row {i}\n" for i in range(200)]
    predictions = load(tmp_path, "prob_cat,prob_dog,label,id\n" + "".join(rows))
    assert predictions.labels.tolist() == [0 if i % 3 else 1 for i in range(200)]
    assert predictions.ids.tolist() == [f"row {i}" for i in range(200)]


def test_a_short_row_of_the_sample_is_named(reader, tmp_path):
    with pytest.raises(InputError, match="line 3: 2 columns where the header has 3"):
        load(tmp_path, "0,1,label\n0.5,0.5,1\n0.5,0.5\n", "probs")


def test_more_columns_than_pyarrow_is_fast_for(tmp_path, monkeypatch):
    from calmix.prediction_files import text

    pytest.importorskip("pyarrow")
    body = "prob_a,prob_b,label\n0.25,0.75,a\n0.5,0.5,b\n"
    narrow = load(tmp_path, body)
    monkeypatch.setattr(text, "WIDE", 2)
    wide = load(tmp_path, body)
    assert wide.labels.tolist() == narrow.labels.tolist() == [0, 1]
    np.testing.assert_array_equal(wide.logits, narrow.logits)
