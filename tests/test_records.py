import json
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix import InputError
from calmix.records import from_plain, read_json, to_json, typed_fields, write_json


@dataclass(frozen=True)
class Inner:
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner
    rows: tuple[Inner, ...] = ()
    pair: tuple[float, float] = (0.0, 1.0)
    by_number: dict[int, float] = field(default_factory=dict)
    by_name: dict[str, Inner] = field(default_factory=dict)
    maybe: int | None = None
    nested: tuple[tuple[int, ...], ...] | None = None
    flag: bool = False
    anything: Any = None


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
finite = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(Inner, st.text(max_size=5), finite)
outers = st.builds(
    Outer,
    st.integers(),
    inners,
    st.lists(inners, max_size=3).map(tuple),
    st.tuples(finite, finite),
    st.dictionaries(st.integers(), finite, max_size=3),
    st.dictionaries(st.text(max_size=3), inners, max_size=3),
    st.none() | st.integers(),
    st.none() | st.lists(st.lists(st.integers(), max_size=2).map(tuple), max_size=2).map(tuple),
    st.booleans(),
    plain_values,
)


@given(outers)
@settings(max_examples=50)
def test_every_record_is_read_back(record):
    assert from_plain(Outer, json.loads(to_json(record)), "record") == record


def test_a_whole_number_stands_for_any_and_a_list_for_a_tuple():
    record = from_plain(Outer, {"count": 1, "inner": {"name": "a", "share": 1}, "pair": [0, 2]}, "record")
    assert record == Outer(1, Inner("a", 1.0), pair=(0.0, 2.0))
    assert type(record.inner.share) is type(record.pair[0]) is float


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_null_and_nan_again(value):
    text = to_json(Inner("a", value))
    assert json.loads(text, parse_constant=pytest.fail) == {"name": "a", "share": None}
    assert math.isnan(from_plain(Inner, json.loads(text), "record").share)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 1.5}, "record.count must be a whole number, got 1.5"),
        ({"count": True}, "record.count must be a whole number, got True"),
        ({"count": None}, "record.count must be a whole number, got None"),
        ({"inner": []}, r"record.inner must be an object, got \[\]"),
        ({"inner": {}}, "record.inner lacks name"),
        ({"inner": {"name": 3}}, "record.inner.name must be a string, got 3"),
        ({"inner": {"name": "a", "shar": 1}}, "unknown key of record.inner 'shar'; did you mean 'share'"),
        ({"rows": [{"name": "a"}, 3]}, r"record.rows\[1\] must be an object"),
        ({"rows": {}}, "record.rows must be a list"),
        ({"pair": [1.0]}, "record.pair must be a list"),
        ({"pair": [1.0, "2"]}, r"record.pair\[1\] must be a number, got '2'"),
        ({"by_number": {"one": 1.0}}, "record.by_number"),
        ({"by_number": {"1": "x"}}, "record.by_number.1 must be a number"),
        ({"by_name": {"a": 1}}, "record.by_name.a must be an object"),
        ({"flag": "no"}, "record.flag must be true or false"),
        ({"maybe": "x" * 99}, r"record.maybe must be a whole number, got 'x+\.\.\.$"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(change, message):
    plain = {"count": 1, "inner": {"name": "a"}} | change
    with pytest.raises(InputError, match=message):
        from_plain(Outer, plain, "record")


def test_a_missing_field_is_named():
    with pytest.raises(InputError, match=r"^record lacks count, inner$"):
        from_plain(Outer, {}, "record")


def test_the_fields_of_a_record_are_brought_to_their_types():
    fields = typed_fields(Outer(1, Inner("a"), rows=[Inner("b")], pair=[1, 2], by_number={3: 4}))
    assert fields["rows"] == (Inner("b"),)
    assert fields["pair"] == (1.0, 2.0)
    assert fields["by_number"] == {3: 4.0}
    with pytest.raises(InputError, match=r"^count must be a whole number, got '1'$"):
        typed_fields(Outer("1", Inner("a")))


def test_files(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, Outer(1, Inner("Ä")))
    assert from_plain(Outer, read_json(path), str(path)) == Outer(1, Inner("Ä"))
    assert path.read_bytes().endswith(b"}\n")
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000])
def test_files_that_are_no_json(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"record\.json cannot be read as JSON"):
        read_json(path)
    with pytest.raises(InputError, match=r"nothing\.json cannot be read as JSON"):
        read_json(tmp_path / "nothing.json")
