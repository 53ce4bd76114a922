import numpy as np
import pytest
import torch

import calmix
from calmix.predictions import Predictions, join_members

LOGITS = torch.tensor([[[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]], [[0.0, 0.0, 0.0], [3.0, 1.0, -2.0]]])
LABELS = torch.tensor([0, 1])


def test_join_members():
    one = calmix.Predictions(LOGITS[:1], LABELS)
    two = calmix.Predictions(LOGITS[1:].double(), LABELS)
    joined = join_members([one, two], ["one", "two"])
    assert torch.equal(joined.logits, LOGITS.double())
    other = calmix.Predictions(LOGITS[1:], LABELS.flip(0))
    with pytest.raises(calmix.InputError, match="three and one differ in the label of example 0"):
        join_members([one, two, other], ["one", "two", "three"])
    with pytest.raises(calmix.InputError, match="two has 1 examples of 3 classes, one has 2"):
        join_members([one, calmix.Predictions(LOGITS[:1, :1], LABELS[:1])], ["one", "two"])
    with pytest.raises(calmix.InputError, match="differ in the id of example 1"):
        join_members(
            [Predictions(LOGITS[:1], ids=[1, 2]), Predictions(LOGITS[1:], ids=["1", "3"])], ["one", "two"]
        )


def test_joined_members_keep_what_any_of_them_knows():
    one = Predictions(LOGITS[:1], groups={"age": [1, 2]})
    two = Predictions(LOGITS[1:], LABELS, ids=["a", "b"], classes=["x", "y", "z"])
    joined = join_members([one, two], ["one", "two"])
    assert torch.equal(joined.labels, LABELS)
    assert joined.ids.tolist() == ["a", "b"]
    assert list(joined.groups) == ["age"]
    assert joined.class_names == ("x", "y", "z")


def test_one_member_may_be_a_matrix():
    assert Predictions(LOGITS[0]).logits.shape == (1, 2, 3)
    assert (
        repr(Predictions(LOGITS[0])) == "Predictions of 1 member for 2 examples of 3 classes, without labels"
    )


@pytest.mark.parametrize(
    "labels",
    [[0, 1], [0.0, 1.0], [False, True], ["cat", "dog"], np.array(["cat", "dog"], object),
     np.array([b"cat", b"dog"]), np.array([0, 1], np.uint8),
     np.array([0, 1], ">i4"), ["0", "1.0"], torch.tensor([0, 1])],
)  # fmt: skip
def test_labels_in_any_form(labels):
    assert Predictions(LOGITS, labels, classes=["cat", "dog", "emu"]).labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0, 3], None, r"label 3 of example 1 is outside 0\.\.2"),
        ([0, 0.5], None, "labels must be integers, got 0.5 for example 1"),
        ([0, np.nan], None, "got nan for example 1"),
        (["cat", "dog"], None, "give the names of all classes"),
        (
            ["cat", "cow"],
            ["cat", "dog", "emu"],
            "label 'cow' of example 1 is none of the classes cat, dog, emu",
        ),
        ([[0, 1, 0], [1, 0, 0]], None, "argmax"),
        ([0], None, "shape"),
        ([0, 1j], None, "integers"),
        ([0, 1], ["a", "b"], "2 names for 3 classes"),
        ([0, 1], ["a", "b", "b"], "'b' twice"),
        ([0, 1], "abc", "give a list"),
    ],
)
def test_bad_labels_and_classes(labels, classes, message):
    with pytest.raises(calmix.InputError, match=message):
        Predictions(LOGITS, labels, classes=classes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ids": [1]}, "ids must have shape"),
        ({"groups": [1, 2]}, "map names to columns"),
        ({"groups": {"age": [1]}}, r"groups\['age'\] must have shape"),
        ({"ids": np.zeros(2, dtype=[("a", int)])}, "numbers or strings"),
        ({"ids": np.array([b"\xff", b"a"])}, "UTF-8"),
    ],
)
def test_bad_columns(fields, message):
    with pytest.raises(calmix.InputError, match=message):
        Predictions(LOGITS, **fields)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (np.array([["a", "b"]]), "numbers"),
        (np.array([[1, "x"]], object), "objects such as"),
        (np.zeros((2, 3), bool), "numbers"),
        (np.zeros((2, 3), "M8[s]"), "numbers"),
        (np.zeros((2, 3), complex), "numbers"),
        (np.zeros(3), r"P\(y = 1\)"),
        (np.zeros((2, 1)), "two classes"),
        (np.zeros((0, 3)), "at least one example"),
        (np.full((3, 4), 0.25), "these logits are probabilities"),
        ([[1.0], [1.0, 2.0]], "not an array"),
    ],
)
def test_bad_logits(logits, message):
    with pytest.raises(calmix.InputError, match=message):
        Predictions(logits)


@pytest.mark.parametrize(
    "array",
    [LOGITS.numpy().astype(">f8"), LOGITS.numpy()[:, :, ::-1][:, :, ::-1], LOGITS.numpy().astype(object),
     np.asfortranarray(LOGITS.numpy()), LOGITS.half(), LOGITS.bfloat16(), LOGITS.numpy().astype("g")],
)  # fmt: skip
def test_any_layout_of_an_array(array):
    torch.testing.assert_close(Predictions(array).logits.float(), LOGITS)


def test_whole_numbers_are_logits_too():
    assert Predictions(np.array([[1, 2], [250, 0]], np.uint8)).logits.dtype == torch.float64


def test_read_only_memory_is_copied():
    array = LOGITS.numpy().copy()
    array.flags.writeable = False
    Predictions(array).logits[0, 0, 0] = 9
    assert array[0, 0, 0] == 2


def test_probs_of_one_column_are_those_of_class_1():
    kept = Predictions.from_probs(np.array([0.25, 1.0]), [0, 1])
    np.testing.assert_allclose(kept.logits.exp()[0], [[0.75, 0.25], [0, 1]])
    with pytest.raises(calmix.InputError, match=r"probs\[1\] is 1.5"):
        Predictions.from_probs([0.5, 1.5])
    with pytest.raises(calmix.InputError, match=r"pass probs\[:, 0\]"):
        Predictions.from_probs([[0.5], [0.5]])


def test_sums_that_are_off_by_rounding_are_normalised_on_request_only():
    rounded = np.array([[0.33, 0.33, 0.33], [0.5, 0.25, 0.25]])
    with pytest.raises(calmix.InputError, match="normalise=True"):
        Predictions.from_probs(rounded)
    np.testing.assert_allclose(
        Predictions.from_probs(rounded, normalise=True).logits.exp()[0, 0], [1 / 3] * 3
    )
    with pytest.raises(calmix.InputError, match="sum 2"):
        Predictions.from_probs(np.ones((3, 2)), normalise=True)


def test_half_precision_sums_to_1_within_its_own_rounding():
    probs = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).softmax(1).bfloat16()
    assert (probs.float().sum(1) - 1).abs().max() > 1e-3
    Predictions.from_probs(probs)


def test_batch_first():
    kept = Predictions.from_batch_first(LOGITS.transpose(0, 1), LABELS, ids=["a", "b"])
    assert torch.equal(kept.logits, LOGITS)
    with pytest.raises(calmix.InputError, match=r"\(example, member, class\)"):
        Predictions.from_batch_first(LOGITS[0])


def test_member_and_take():
    whole = Predictions(LOGITS, LABELS, ids=["a", "b"], groups={"age": [3, 4]}, classes=["x", "y", "z"])
    assert torch.equal(whole.member(1).logits, LOGITS[1:])
    assert whole.member(1).classes == ("x", "y", "z")
    with pytest.raises(calmix.InputError, match="no member 2"):
        whole.member(2)
    last = whole.take([1])
    assert (len(last), last.labels.tolist(), last.ids.tolist()) == (1, [1], ["b"])
    assert last.groups["age"].tolist() == [4]
    assert torch.equal(whole.take(slice(0, 1)).logits, LOGITS[:, :1])


def test_known_labels():
    assert torch.equal(Predictions(LOGITS, LABELS).known_labels, LABELS)
    with pytest.raises(calmix.InputError, match="no labels"):
        _ = Predictions(LOGITS).known_labels
