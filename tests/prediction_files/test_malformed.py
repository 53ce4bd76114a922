"""Malformed files: each is an `InputError` in words, exit code 2 of the command, and never a traceback."""

import datetime
import gzip
import io
import json
import struct
import zipfile

import numpy as np
import pytest

from calmix import InputError, load_predictions, save_predictions
from tests.scenarios import run_command

GOOD = {"logits": np.linspace(-2, 3, 30).reshape(10, 3), "labels": np.arange(10) % 3}
CSV = "logit_0,logit_1,label\n" + "".join(f"{k / 7},{-k / 3},{k % 2}\n" for k in range(10))


def npz(compression=zipfile.ZIP_STORED, **arrays):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            content = array if isinstance(array, bytes) else npy(array)
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def header(text):
    """A .npy file with this header and no data."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


def parquet_bytes(columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def truncated(suffix, content, step):
    for length in range(0, len(content) - 1, max(1, len(content) // step)):
        yield suffix, content[:length]


def flipped(suffix, content, count):
    draw = np.random.default_rng(0)
    for place in draw.choice(len(content), count, replace=False):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        yield suffix, bytes(changed)


def cases():
    """(suffix, bytes) of files that cannot be predictions."""
    draw = np.random.default_rng(0)
    for suffix in ("npz", "npy", "csv", "tsv", "parquet", "jsonl", "csv.gz", "tsv.gz", "jsonl.gz"):
        for size in (0, 1, 7, 1000):
            yield suffix, draw.bytes(size)
        yield suffix, b"\x00" * 100
        yield suffix, b"PK\x03\x04" + b"\x00" * 50
        yield suffix, b"PAR1" + b"\xff" * 40 + b"PAR1"
        yield suffix, b"\x1f\x8b\x08\x00" + b"\x00" * 20
    good = npz(**GOOD)
    yield from truncated("npz", good, 12)
    for extra in (
        {"labels": GOOD["labels"]},
        {"probs": GOOD["logits"], **GOOD},
        {"logits": GOOD["logits"][0]},
        {"logits": np.zeros((2, 2, 2, 2))},
        {"logits": np.zeros((3, 0))},
        {"logits": np.array([["a", "b"]])},
        {"logits": np.zeros((3, 3), complex)},
        {"logits": np.zeros((3, 3), "M8[s]")},
        {"logits": np.zeros(3, dtype=[("a", float), ("b", float)])},
        {"logits": np.full((3, 3), np.nan)},
        {"logits": np.array([[0, np.inf]])},
        {"probs": GOOD["logits"]},
        {"logits": np.full((9, 4), 0.25)},
        {"logits": GOOD["logits"], "labels": np.arange(10) - 5},
        {"logits": GOOD["logits"], "labels": np.arange(10) / 3},
        {"logits": GOOD["logits"], "labels": np.arange(9)},
        {"logits": GOOD["logits"], "labels": np.array(["x"] * 10)},
        {"logits": GOOD["logits"], "labels": np.full(10, 2**63, np.uint64)},
        {"logits": GOOD["logits"], "classes": np.array(["a", "a", "b"])},
        {"logits": GOOD["logits"], "classes": np.zeros(3)},
        {"logits": GOOD["logits"], "classes": np.array([["a", "b", "c"]])},
        {"logits": GOOD["logits"], "ids": np.zeros(3)},
        {"logits": GOOD["logits"], "groups_age": np.zeros((10, 2))},
        {"logits": GOOD["logits"], "groups": np.zeros(11)},
        {"logits": b"not an array", "labels": GOOD["labels"]},
    ):
        yield "npz", npz(**extra)
    for text in (
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }\n",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }\n",
        "{'descr': '<f8', 'fortran_order': 3, 'shape': (2, 3), }\n",
        "{'descr': '<f8', 'shape': (2, 3)",
        "{'descr': 'zz', 'fortran_order': False, 'shape': (2, 3), }\n",
        "__import__('os')\n",
        "(" * 200 + "\n",
        "{" * 20 + "\n",
    ):
        yield "npz", npz(logits=header(text))
        yield "npy", header(text)
    for compression in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
        content = bytearray(npz(compression, **GOOD))
        content[90:110] = b"\xff" * 20
        yield "npz", bytes(content)
    for text in (
        "logit_0,logit_1,label\n",
        "logit_0,logit_1,label\n1,2,5\n",
        "logit_0,logit_1,label\n1,nan,1\n",
        "logit_0,logit_1,label\n1,inf,1\n",
        "logit_0,logit_1,label\n1,two,1\n",
        "logit_0,logit_1,label\n1,1\n",
        "logit_0,logit_1,label\n1,1,1,1\n",
        "logit_0,logit_0,label\n1,1,1\n",
        "logit_0,logit_1,label\n1,2020-01-01,1\n",
        'logit_0,logit_1,label\n1,"2\n',
        "logit_0,logit_1,label\n" + "1" * 200_000 + ",2,1\n",
        "logit_0,logit_1,label\n1,2,yes\n",
        "logit_0;logit_1;label\n1;2;1\n",
        "a,b,c\nx,y,z\n",
        "logit_0,logit_1,label\n1,2,1\n\x00\x00\x00\n",
        "\n\n\n",
        ",,,\n1,2,3,4\n",
        "label\n1\n",
        "logit_0,logit_1,member,label\n1,2,a,0\n1,2,a,0\n1,2,b,0\n",
        "logit_0,logit_1,member,id,label\n1,2,a,x,0\n1,2,b,y,0\n",
    ):
        yield "csv", text.encode()
        yield "csv.gz", gzip.compress(text.encode())
        yield "tsv", text.encode().replace(b",", b"\t")
    yield "csv", CSV.encode("utf-16")
    yield "csv", CSV.encode() + b"\xff\xfe\n"
    yield from truncated("csv.gz", gzip.compress(CSV.encode()), 6)
    row = {"logit_0": 1.0, "logit_1": 2.5, "label": 1}
    for rows in (
        "[1, 2]", "3",
        "null", "{", '{"a": 1', "[" * 10_000, "[" * 200_000, '{"a":' * 10_000, '{"logit_0": 1}',
        json.dumps(row | {"logit_1": [1]}), json.dumps(row | {"logit_1": None}),
        json.dumps(row | {"logit_1": {}}),
        json.dumps(row | {"label": {"a": 1}}), json.dumps(row) + "\n" + json.dumps({"logit_0": 1}),
        json.dumps(row | {"logit_1": 10**400}), '{"logit_0": ' + "9" * 5000 + ', "logit_1": 2, "label": 0}',
        '{"logits": [[1, 2], [3]], "label": 0}', '{"logits": [], "label": 0}',
        '{"logits": ["a", "b"], "label": 0}',
        '{"logits": [[[[1]]]], "label": 0}', '{"logits": [1, NaN], "label": 0}',
        '{"logit_0": true, "logit_1": false}',
        '{"doc_id": 0, "resps": 3}', '{"doc_id": 0, "resps": [[], []]}',
        '{"doc_id": 0, "resps": [["a"], ["b"]]}',
        '{"doc_id": 0, "resps": [[["-1"]], [["-2"]]], "target": "9"}',
    ):  # fmt: skip
        yield "jsonl", rows.encode()
    table = {"logit_0": [1.0, 2.0], "logit_1": [0.5, 0.1], "label": [0, 1]}
    content = parquet_bytes(table)
    yield from truncated("parquet", content, 12)
    day = datetime.date(2020, 1, 1)
    for change in (
        {"logit_1": [day, day]}, {"label": [day, day]}, {"logit_1": [1.0, None]}, {"logit_1": ["a", "b"]},
        {"logit_1": [[1.0], [2.0]]}, {"label": [[1], [2]]}, {"label": [None, 1]}, {"label": [5, 6]},
        {"logit_1": [{"a": 1}, {"a": 2}]}, {"logit_1": [float("nan")] * 2}, {"age": [1, 2]},
    ):  # fmt: skip
        yield "parquet", parquet_bytes(table | change)
    yield "parquet", parquet_bytes({name: [] for name in table})
    yield from ((s, c) for s, c in flipped("npz", good, 20) if s)


CASES = list(cases())


def test_there_are_many():
    assert len(CASES) >= 200


@pytest.mark.parametrize("start", range(0, len(CASES), 10))
def test_malformed_files_are_input_errors(tmp_path, start):
    for number, (suffix, content) in enumerate(CASES[start : start + 10], start=start):
        path = tmp_path / f"case{number}.{suffix}"
        path.write_bytes(content)
        try:
            loaded = load_predictions(path)
        except InputError as error:
            text = str(error)
        else:  # a flipped bit in unused bytes changes nothing
            assert number >= len(CASES) - 20, (suffix, content[:80], loaded)
            continue
        assert f"case{number}" in text, suffix
        assert len(text) < 2000


@pytest.mark.parametrize("number", range(0, len(CASES), 40))
def test_malformed_files_are_exit_code_2(tmp_path, number):
    suffix, content = CASES[number]
    path = tmp_path / f"case[red].{suffix}"
    path.write_bytes(content)
    code, out, err = run_command("audit", path, "--json")
    assert (code, out) == (2, "")
    assert "case[red]" in err
    assert "Traceback" not in err


def test_lzma_archives_can_be_read(tmp_path):
    (tmp_path / "t.npz").write_bytes(npz(zipfile.ZIP_LZMA, **GOOD))
    assert len(load_predictions(tmp_path / "t.npz")) == 10


def test_folders_are_no_files(tmp_path):
    (tmp_path / "t.npz").mkdir()
    with pytest.raises(InputError, match="a folder, not a file"):
        load_predictions(tmp_path / "t.npz")
    with pytest.raises(InputError, match="suffix"):
        save_predictions(tmp_path / "t", np.eye(3), [0, 1, 2])
