import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from calmix import InputError, pool
from calmix.calibrate import fit_temperature, inputs

ORDERS = ["pool", "member", "each"]


def ensemble(seed, members=3, examples=60, classes=4, sharpness=2.0):
    """True logits plus independent noise for each member, scaled by `sharpness`: above 1 over-confident."""
    draw = np.random.default_rng(seed)
    truth = draw.normal(size=(examples, classes))
    labels = np.array([draw.choice(classes, p=softmax(row)) for row in truth])
    return sharpness * (truth + 0.5 * draw.normal(size=(members, examples, classes))), labels


def nll(logits, labels, order, t):
    """The definition, in NumPy."""
    rows = np.arange(len(labels))
    if order == "pool":
        log_pooled = logsumexp(logits - logsumexp(logits, -1, keepdims=True), 0) - np.log(len(logits))
        scaled = log_pooled / t
        return float((logsumexp(scaled, -1) - scaled[rows, labels]).mean())
    return float(-np.log(softmax(logits / t, -1).mean(0)[rows, labels]).mean())


def fine_search(logits, labels, order):
    """The best of a grid, then of a finer one between its neighbours, down to a step of 1e-6 in log T."""
    low, high = np.log(0.05), np.log(20)
    for _ in range(4):
        grid = np.linspace(low, high, 200)
        values = [nll(logits, labels, order, t) for t in np.exp(grid)]
        best = int(np.argmin(values))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 199)]
    return float(np.exp(grid[best]))


@pytest.mark.parametrize("order", ["pool", "member"])
@pytest.mark.parametrize("sharpness", [0.4, 1.0, 5.0])
def test_equals_fine_grid_search(order, sharpness):
    logits, labels = ensemble(1, sharpness=sharpness)
    assert fit_temperature(logits, labels, order=order).temperature == pytest.approx(
        fine_search(logits, labels, order), rel=1e-4
    )


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.floats(0.3, 6), st.integers(1, 4))
def test_no_temperature_on_a_grid_is_better(seed, sharpness, members):
    logits, labels = ensemble(seed, members=members, examples=25, sharpness=sharpness)
    grid = np.geomspace(0.05, 20, 80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for order in ("pool", "member"):
            fitted = fit_temperature(logits, labels, order=order)
            assert fitted.nll_after <= min(nll(logits, labels, order, t) for t in grid) + 1e-9
            after, before = (nll(logits, labels, order, t) for t in (fitted.temperature, 1.0))
            assert (fitted.nll_after, fitted.nll_before) == pytest.approx((after, before), abs=1e-10)


def test_each_fits_every_member_to_its_own_likelihood():
    logits, labels = ensemble(2)
    logits = logits * np.array([1.0, 2.0, 0.5]).reshape(3, 1, 1)
    fitted = fit_temperature(logits, labels, order="each")
    expected = [fine_search(member[None], labels, "pool") for member in logits]
    np.testing.assert_allclose(fitted.temperature, expected, rtol=1e-4)
    scaled = logits / np.array(expected).reshape(3, 1, 1)
    np.testing.assert_allclose(fitted.apply(logits), softmax(scaled, -1).mean(0), atol=1e-4)


def test_apply_pools_first_or_last():
    logits, labels = ensemble(3)
    by_pool = fit_temperature(logits, labels)
    sharpened = pool(logits) ** (1 / by_pool.temperature)
    np.testing.assert_allclose(by_pool.apply(logits), sharpened / sharpened.sum(1, keepdims=True), rtol=1e-9)
    by_member = fit_temperature(logits, labels, order="member")
    np.testing.assert_allclose(by_member.apply(logits), pool(logits / by_member.temperature), rtol=1e-9)
    assert by_pool.temperature != pytest.approx(by_member.temperature, rel=1e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_agree_for_one_member(order):
    logits, labels = ensemble(4, members=1)
    expected = fit_temperature(logits, labels).temperature
    assert float(fit_temperature(logits, labels, order=order).temperature) == pytest.approx(expected)


@pytest.mark.parametrize("order", ORDERS)
def test_scaling_the_logits_scales_the_temperature(order):
    logits, labels = ensemble(5)
    once = fit_temperature(logits[:1], labels, order=order).temperature
    thrice = fit_temperature(3 * logits[:1], labels, order=order).temperature
    np.testing.assert_allclose(thrice, 3 * np.asarray(once), rtol=1e-5)


def test_deeper_of_two_minima_is_returned():
    # Member 0 is correct at a low temperature; member 1 is confidently wrong unless the temperature is high.
    sharp = np.tile([0.3, 0.0], (30, 1))
    wrong = np.tile([0.0, 60.0], (30, 1))
    logits, labels = np.stack([sharp, wrong]), np.zeros(30, int)
    values = [nll(logits, labels, "member", t) for t in np.geomspace(0.05, 20, 400)]
    maxima = [i for i in range(1, 399) if values[i] > max(values[i - 1], values[i + 1])]
    assert maxima, "there is a maximum between two minima"
    with pytest.warns(UserWarning, match="at the bound"):
        fitted = fit_temperature(logits, labels, order="member")
    assert fitted.nll_after == pytest.approx(min(values), abs=1e-6)


def test_torch_and_numpy_and_float32_agree():
    logits, labels = ensemble(6)
    from_numpy = fit_temperature(logits, labels)
    from_torch = fit_temperature(torch.tensor(logits), torch.tensor(labels))
    assert from_numpy.temperature == from_torch.temperature
    narrow = fit_temperature(torch.tensor(logits).float(), torch.tensor(labels, dtype=torch.int16))
    assert narrow.temperature == pytest.approx(from_numpy.temperature, rel=1e-5)
    assert isinstance(from_numpy.apply(logits), np.ndarray)
    assert from_torch.apply(torch.tensor(logits).float()).dtype == torch.float32
    assert from_torch.apply(torch.tensor(logits).bfloat16()).dtype == torch.float32


def test_result_does_not_depend_on_block_size(monkeypatch):
    logits, labels = ensemble(7)
    whole = fit_temperature(logits, labels, order="member")
    monkeypatch.setattr(inputs, "BLOCK", 3 * 4 * 7)
    parts = fit_temperature(logits, labels, order="member")
    assert parts.temperature == pytest.approx(whole.temperature, rel=1e-9)
    np.testing.assert_allclose(parts.apply(logits), whole.apply(logits), rtol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_probabilities_of_zero_stay_zero(order):
    logits, labels = ensemble(8)
    logits[:, labels != 3, 3] = -np.inf
    fitted = fit_temperature(logits, labels, order=order)
    probs = fitted.apply(logits)
    assert np.isfinite(fitted.nll_after)
    assert (probs[labels != 3, 3] == 0).all()
    np.testing.assert_allclose(probs.sum(1), 1)


def test_labels_of_probability_zero_are_left_out_of_the_fit():
    logits, labels = ensemble(9)
    expected = fit_temperature(logits[:, 1:], labels[1:]).temperature
    logits[:, 0, labels[0]] = -np.inf
    with pytest.warns(UserWarning, match="1 labels have probability 0, the first that of example 0"):
        fitted = fit_temperature(logits, labels)
    assert fitted.temperature == pytest.approx(expected, rel=1e-6)
    assert fitted.nll_before == np.inf


def test_probabilities_that_underflow_in_float32_are_kept():
    # exp(-120) is 0 in float32, and at T = 20 a probability of about 0.0025.
    logits, labels = np.array([[[120.0, 0.0]] * 3], dtype=np.float32), np.array([0, 1, 1])
    with pytest.warns(UserWarning, match="at the bound"):
        fitted = fit_temperature(logits, labels)
    assert fitted.temperature == pytest.approx(20)
    np.testing.assert_allclose(fitted.apply(logits)[0, 1], 1 / (1 + np.exp(6)), rtol=1e-5)


def test_all_correct_predictions_end_at_the_lower_bound():
    logits, _ = ensemble(10)
    with pytest.warns(UserWarning, match=r"temperature 0\.05 is at the bound of its range 0\.05\.\.20"):
        fitted = fit_temperature(logits[:1], logits[0].argmax(-1))
    assert fitted.temperature == pytest.approx(0.05)


def test_of_equally_good_temperatures_the_nearest_to_one():
    labels = torch.arange(9) % 3
    assert 0.5 < fit_temperature(20 * torch.eye(3)[labels][None], labels).temperature < 1


def test_temperature_is_one_if_none_is_better():
    assert fit_temperature(torch.zeros(2, 5, 3), torch.zeros(5, dtype=torch.long)).temperature == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": torch.zeros(5, 3)}, r"axes \(members, examples, classes\)"),
        ({"logits": torch.zeros(2, 0, 3)}, "no examples"),
        ({"labels": torch.tensor([0, 1, 2, 3, 0])}, r"labels\[3\] is 3"),
        ({"labels": torch.zeros(4, dtype=torch.long)}, "4 entries for 5"),
        ({"labels": torch.zeros(5)}, "integers"),
        ({"order": "all"}, "'all'.*pool, member, each"),
        ({"logits": torch.full((2, 5, 3), torch.nan)}, r"logits\[0, 0\]"),
        ({"logits": torch.full((2, 5, 3), -torch.inf)}, r"logits\[0, 0\]"),
    ],
)
def test_bad_input_raises(change, message):
    arguments = {"logits": torch.zeros(2, 5, 3), "labels": torch.zeros(5, dtype=torch.long), "order": "pool"}
    arguments |= change
    with pytest.raises(InputError, match=message):
        fit_temperature(arguments["logits"], arguments["labels"], order=arguments["order"])


def test_apply_to_another_number_of_members_raises():
    logits, labels = ensemble(11)
    with pytest.raises(
        InputError, match="logits has 2 members, but the temperature calibrator was fitted for 3"
    ):
        fit_temperature(logits, labels, order="each").apply(logits[:2])
