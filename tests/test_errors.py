import pytest

from calmix import InputError
from calmix.errors import at_most, one_of, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("runs/é [1]", "runs/é [1]"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("run\udcff", "run\\xff"),
        ("a\nb\tc", "a\nb\\x09c"),
        ("\u202eexe", "\\u202eexe"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_and_bytes_are_shown_escaped(text, shown):
    assert printable(text) == shown
    printable(text).encode()


def test_a_long_wrong_value_is_shortened():
    with pytest.raises(InputError) as caught:
        one_of("dataset", "x" * 10_000, ["digits"])
    assert len(str(caught.value)) < 300


def test_at_most():
    at_most("members", 10, 10)
    for value in (11, float("nan")):
        with pytest.raises(InputError, match="members must be at most 10"):
            at_most("members", value, 10)
