"""Every metric rejects bad input with the argument, the index and the value in the message."""

import functools

import numpy as np
import pytest
import torch

from calmix import metrics
from calmix.errors import InputError
from tests.metrics.samples import METRICS

CALLS = [
    *METRICS,
    metrics.reliability,
    *(metrics.smooth_ece, metrics.brier_parts, metrics.refinement, metrics.selective),
    functools.partial(metrics.null, metrics.ece),
    functools.partial(metrics.null, metrics.nll),
    metrics.class_gap,
    functools.partial(metrics.skce, estimator="linear"),
    functools.partial(metrics.bootstrap, metrics.ece),
    functools.partial(metrics.bootstrap, metrics.skce),
    lambda probs, labels: metrics.Accumulator(3).update(probs, labels),
]


def changed(array, index, value):
    array = array.clone()
    array[index] = value
    return array


GOOD = torch.full((5, 3), 1 / 3), torch.tensor([0, 1, 2, 1, 0])
INF, NAN = float("inf"), float("nan")
BAD = {
    "rank of probs": (
        GOOD[0][None, None],
        GOOD[1],
        r"probs must have the axes \(examples, classes\), .*1, 1, 5, 3",
    ),
    "rank of labels": (GOOD[0], torch.eye(5).long(), r"labels must have the axes \(examples\), .*\(5, 5\)"),
    "lengths": (GOOD[0], GOOD[1][:4], "labels has 4 entries for 5 rows of probs"),
    "no example": (GOOD[0][:0], GOOD[1][:0], r"probs of shape \(0, 3\) has no examples"),
    "no class": (GOOD[0][:, :0], GOOD[1], r"probs of shape \(5, 0\) has no classes"),
    "label too large": (GOOD[0], changed(GOOD[1], 3, 3), r"labels\[3\] is 3: it must be in 0\.\.2"),
    "label negative": (GOOD[0], changed(GOOD[1], 2, -1), r"labels\[2\] is -1: it must be in 0\.\.2"),
    "float labels": (GOOD[0], GOOD[1].float(), "labels must hold integers, not torch.float32"),
    "bool labels": (GOOD[0], GOOD[1] > 0, "labels must hold integers, not torch.bool"),
    "integer probs": (GOOD[1][:, None].repeat(1, 3), GOOD[1], "probs must hold floating-point numbers, not"),
    "nan": (changed(GOOD[0], (4, 1), NAN), GOOD[1], r"probs\[4, 1\] is nan, .* fix or drop row 4"),
    "inf": (changed(GOOD[0], (1, 0), INF), GOOD[1], r"probs\[1, 0\] is inf"),
    "two infs": (changed(GOOD[0], 1, torch.tensor([INF, -INF, 1])), GOOD[1], r"probs\[1, 0\] is inf"),
    "negative": (changed(GOOD[0], 2, torch.tensor([1.25, -0.25, 0])), GOOD[1], r"probs\[2, 1\] is -0\.25"),
    "sum": (changed(GOOD[0], (3, 2), 0.5), GOOD[1], r"probs\[3\] sums to 1\.16667.*logits: pass softmax"),
    "small sum": (changed(GOOD[0], (0, 2), 0.33), GOOD[1], r"probs\[0\] sums to 0\.996667"),
    "a list": (GOOD[0].tolist(), GOOD[1], "probs must be a torch tensor or a NumPy array, not list"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("probs", "labels", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_raises(call, probs, labels, message):
    with pytest.raises(InputError, match=message):
        call(probs, labels)


@pytest.mark.parametrize("name", [name for name in BAD if name != "a list"])
def test_bad_numpy_and_float64_input_raises(name):
    probs, labels, message = BAD[name]
    message = message.replace("torch.", "")
    with pytest.raises(InputError, match=message):
        metrics.ece(probs.numpy(), labels.numpy())
    if probs.is_floating_point():
        with pytest.raises(InputError):
            metrics.ece(probs.double(), labels)


def test_index_in_message_counts_from_the_first_block():
    probs, labels = torch.full((100_000, 3), 1 / 3), torch.zeros(100_000, dtype=torch.long)
    with pytest.raises(InputError, match=r"probs\[99990, 2\] is nan"):
        metrics.ece(changed(probs, (99_990, 2), NAN), labels)
    with pytest.raises(InputError, match=r"labels\[99990\] is 5"):
        metrics.ece(probs, changed(labels, 99_990, 5))


def test_rows_that_sum_to_one_within_rounding_are_accepted():
    labels = torch.tensor([0])
    for row in ([1.0009, 0.0], [0.9991, 0.0], [1.0, -0.0]):
        assert metrics.accuracy(torch.tensor([row]), labels) == 1
        assert metrics.accuracy(torch.tensor([row], dtype=torch.float64), labels) == 1
        assert metrics.reliability(torch.tensor([row]), labels).count[-1] == 1
    many = torch.softmax(torch.randn(20, 1000), 1)
    assert 0 <= metrics.ece(many.half(), torch.zeros(20, dtype=torch.long)) <= 1


@pytest.mark.parametrize("classes", [2, 1000])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_rows_sum_to_one_within_the_rounding_of_their_type(dtype, classes):
    logits = torch.randn(100, classes, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(100) % classes
    expected = metrics.nll(logits.double().softmax(1), labels)
    narrow = logits.to(dtype)
    for probs in (logits.softmax(1).to(dtype), narrow.softmax(1), narrow.log_softmax(1).exp()):
        assert metrics.nll(probs, labels) == pytest.approx(expected, rel=0.02)
    if dtype == torch.float16:
        assert metrics.nll(narrow.softmax(1).numpy(), labels) == pytest.approx(expected, rel=0.02)
    with pytest.raises(InputError, match="these look like logits"):
        metrics.nll((1.1 * logits.softmax(1)).to(dtype), labels)


def test_ties_of_rows_above_one_are_found():
    probs = torch.tensor([[0.505, 0.505]], dtype=torch.bfloat16)
    assert float(probs.float().sum()) > 1.007
    assert metrics.accuracy(probs, torch.tensor([1])) == 0
    assert metrics.accuracy(probs, torch.tensor([0])) == 1


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
def test_bad_num_bins_raises(value):
    for call in (metrics.ece, metrics.ace, metrics.dce, metrics.reliability):
        with pytest.raises(InputError, match="num_bins is"):
            call(*GOOD, num_bins=value)


def test_num_bins_may_be_a_numpy_integer():
    assert metrics.ece(*GOOD, num_bins=np.int64(15)) == metrics.ece(*GOOD)
