"""What all calibrators share: their file, the refusals, array types, export."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import calmix
from calmix import InputError, fit_calibrator, fit_conformal, load_calibrator, pool
from tests.calibrate.test_joint import draw_labels

METHODS = [
    ("temperature", "pool"),
    ("temperature", "member"),
    ("temperature", "each"),
    ("joint", "pool"),
    ("vector", "pool"),
    ("isotonic", "pool"),
    ("beta", "pool"),
]


def data(method, seed=0, examples=120):
    """An over-confident ensemble of 3 members; two classes for beta, else four."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(examples, 2 if method == "beta" else 4))
    labels = draw_labels(draw, pool(logits[None]))
    members = 2.5 * (logits + 0.5 * draw.normal(size=(3, *logits.shape)))
    return torch.tensor(members).float(), torch.tensor(labels)


def fit(method, order="pool", seed=0):
    logits, labels = data(method, seed)
    return fit_calibrator(logits, labels, method=method, order=order), logits, labels


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_saved_and_loaded_bit_for_bit(method, order, tmp_path):
    fitted, logits, _ = fit(method, order)
    fitted.save(tmp_path / "calibrator.json")
    loaded = load_calibrator(tmp_path / "calibrator.json")
    assert type(loaded) is type(fitted)
    assert loaded.numbers() == fitted.numbers()
    assert (loaded.nll_before, loaded.nll_after) == (fitted.nll_before, fitted.nll_after)
    assert torch.equal(loaded(logits.double()), fitted(logits.double()))
    assert json.loads((tmp_path / "calibrator.json").read_text()).keys() == {"method", "version", "numbers"}


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_not_worse_than_the_pool_on_the_data_of_the_fit(method, order):
    fitted, logits, labels = fit(method, order)
    probs = fitted(logits.double())
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs)).double())
    rows = torch.arange(len(labels))
    before = -pool(logits.double())[rows, labels].log().mean().item()
    after = -probs[rows, labels].log().mean().item()
    assert (fitted.nll_before, fitted.nll_after) == pytest.approx((before, after), rel=1e-6)
    assert after < before


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_array_types(method, order):
    fitted, logits, _ = fit(method, order)
    probs = fitted(logits.double())
    assert fitted(logits).dtype == torch.float32
    assert fitted(logits.bfloat16()).dtype == torch.float32
    assert not fitted(logits.clone().requires_grad_()).requires_grad
    from_numpy = fitted(logits.double().numpy())
    assert isinstance(from_numpy, np.ndarray)
    np.testing.assert_array_equal(from_numpy, probs.numpy())


class Deployed(nn.Module):
    def __init__(self, calibrator, classes):
        super().__init__()
        self.layer = nn.Linear(5, 3 * classes)
        self.calibrator = calibrator

    def forward(self, x):
        return self.calibrator(self.layer(x).unflatten(1, (3, -1)).transpose(0, 1))


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_export_with_a_dynamic_batch(method, order):
    model = Deployed(fit(method, order)[0], 2 if method == "beta" else 4).eval()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (torch.randn(6, 5),), dynamic_shapes={"x": {0: batch}}).module()
    x = torch.randn(9, 5)
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["temperature", "joint", "vector", "isotonic", "beta", "conformal"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda logits, labels: (logits.softmax(-1), labels), "these logits are probabilities.*from_probs"),
        (lambda logits, labels: (logits[0], labels), r"axes \(members, examples, classes\)"),
        (lambda logits, labels: (logits * torch.nan, labels), "not finite"),
        (lambda logits, labels: (logits.index_fill(1, torch.tensor([3]), torch.inf), labels), r"\[0, 3\]"),
        (lambda logits, labels: (logits, labels[:, None]), r"labels must have the axes \(examples\)"),
        (lambda logits, labels: (logits, labels[1:]), "119 entries"),
        (lambda logits, labels: (logits, labels + 4), r"labels\[0\] is"),
    ],
)
def test_bad_input_raises(method, change, message):
    fit = fit_conformal if method == "conformal" else functools.partial(fit_calibrator, method=method)
    arguments = change(*data(method))
    with pytest.raises(InputError, match=message):
        fit(*arguments)


@pytest.mark.parametrize(("method", "order"), METHODS)
def test_probabilities_are_refused_by_the_fitted_calibrator(method, order):
    fitted, logits, labels = fit(method, order)
    for refuse in (fitted, fit_conformal(logits, labels)):
        with pytest.raises(InputError, match="these logits are probabilities"):
            refuse(logits.softmax(-1))


def test_a_few_logits_that_nearly_sum_to_one_are_logits():
    fitted, *_ = fit("beta")
    assert fitted(torch.tensor([[[0.3, 0.7003]]])).shape == (1, 2)
    with pytest.raises(InputError, match="these logits are probabilities"):
        fitted(torch.tensor([[[0.25, 0.75]]]))


@pytest.mark.parametrize(("method", "classes"), [("vector", 4), ("isotonic", 4), ("beta", 2)])
def test_another_number_of_classes_raises(method, classes):
    fitted, *_ = fit(method)
    with pytest.raises(InputError, match=f"logits has 5 classes, but the {method} .* fitted for {classes}"):
        fitted(torch.randn(3, 10, 5))


def test_unknown_method_and_order_of_another_method_raise():
    logits, labels = data("joint")
    with pytest.raises(InputError, match="did you mean 'isotonic'"):
        fit_calibrator(logits, labels, method="isotone")
    with pytest.raises(InputError, match="only method='temperature' has an order"):
        fit_calibrator(logits, labels, method="joint", order="member")


def altered(content, **numbers):
    return {**content, "numbers": {**content["numbers"], **numbers}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: [], "not a calibrator"),
        (lambda c: {"method": "joint"}, "not a calibrator"),
        (lambda c: {**c, "version": 2}, "version 2; this calmix reads 1"),
        (lambda c: {**c, "method": "joinT"}, "did you mean 'joint'"),
        (lambda c: {**c, "method": ["joint"]}, "method must be a string"),
        (lambda c: {**c, "numbers": [1]}, "numbers an object"),
        (lambda c: {**c, "numbers": {"spread": 1}}, "numbers of joint: missing"),
        (lambda c: altered(c, extra=1), "numbers of joint: got an unexpected keyword argument 'extra'"),
        (lambda c: altered(c, temperature="hot"), "temperature must be numbers, got 'hot'"),
        (lambda c: altered(c, temperature=[1.0, 2.0]), r"temperature must have 0 axes"),
        (lambda c: altered(c, temperature=0), "temperature must be finite and at least"),
        (lambda c: altered(c, temperature=None), "temperature must be numbers"),
        (lambda c: altered(c, spread=-1), "spread must be finite and at least 0"),
        (lambda c: altered(c, nll_after="low"), "nll_after must be a number"),
        (lambda c: {**c, "method": "isotonic", "numbers": isotonic([[0.5, 0.2]])}, "must rise"),
        (lambda c: {**c, "method": "isotonic", "numbers": isotonic(0.5)}, "inputs must be a list"),
        (lambda c: {**c, "method": "vector", "numbers": VECTOR}, "weight has 2 classes, bias 1"),
        (lambda c: {**c, "method": "temperature", "numbers": TEMPERATURE}, "order is 'all'"),
    ],
)
def test_strange_files_raise(change, message, tmp_path):
    path = tmp_path / "calibrator.json"
    fit("joint")[0].save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=message):
        load_calibrator(path)


VECTOR = {"weight": [1.0, 1.0], "bias": [0.0], "pull": 1, "nll_before": 1, "nll_after": 1}
TEMPERATURE = {"temperature": 1.0, "order": "all", "nll_before": 1, "nll_after": 1}


def isotonic(inputs):
    return {"inputs": inputs, "outputs": [[0.0, 1.0]], "nll_before": 1, "nll_after": 1}


def test_damaged_and_missing_files_raise(tmp_path):
    path = tmp_path / "calibrator.json"
    fit("joint")[0].save(path)
    path.write_bytes(path.read_bytes()[:-9])
    for broken in (path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="cannot be read as JSON"):
            load_calibrator(broken)


def test_infinite_loss_survives_the_file(tmp_path):
    logits, labels = data("joint")
    logits[:, 0, labels[0]] = -torch.inf
    with pytest.warns(UserWarning, match="1 labels have probability 0"):
        fitted = fit_calibrator(logits, labels, method="joint")
    fitted.save(tmp_path / "calibrator.json")
    assert load_calibrator(tmp_path / "calibrator.json").nll_before == np.inf


def test_apply_of_a_module_still_visits_modules():
    visited = []
    nn.Sequential(fit("temperature")[0]).apply(lambda module: visited.append(type(module).__name__))
    assert visited == ["Temperature", "Sequential"]


def test_import_is_light():
    code = "import calmix, sys; assert not {'scipy.optimize', 'sklearn'} & set(sys.modules)"
    source = str(Path(calmix.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": source})


@pytest.mark.parametrize("method", ["temperature", "joint", "vector", "isotonic"])
def test_pixels_are_examples(method):
    draw = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(3, 4, 5, 6, 7, generator=draw)  # 4 images of 6 x 7 pixels, 5 classes
    labels = torch.multinomial(logits[0].movedim(1, -1).reshape(-1, 5).softmax(1), 1, generator=draw)[:, 0]
    labels = labels.view(4, 6, 7)
    labels[:, 0] = 255
    rows = logits.movedim(2, -1).reshape(3, -1, 5)
    kept = labels.flatten() != 255
    fitted = fit_calibrator(logits, labels, method=method, ignore_index=255)
    plain = fit_calibrator(rows[:, kept], labels.flatten()[kept], method=method)
    assert fitted.numbers() == plain.numbers()
    assert (
        fit_calibrator(rows, labels.flatten(), method=method, ignore_index=255).numbers() == plain.numbers()
    )
    expected = fitted(rows).view(4, 6, 7, 5).movedim(-1, 1)
    assert torch.equal(fitted(logits), expected)
    np.testing.assert_array_equal(fitted(logits.numpy()), expected.numpy())
    with pytest.raises(InputError, match=r"one label for each pixel, \(4, 6, 7\)"):
        fit_calibrator(logits, labels[:, 0], method=method)


def test_conformal_sets_of_pixels_and_their_file(tmp_path):
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 4, 5, 6, generator=draw)
    labels = torch.randint(5, (4, 6), generator=draw)
    sets = fit_conformal(logits, labels, alpha=0.2)
    rows = logits.movedim(2, -1).reshape(2, -1, 5)
    assert sets.threshold == fit_conformal(rows, labels.flatten(), alpha=0.2).threshold
    assert torch.equal(sets(logits), sets(rows).view(4, 6, 5).movedim(-1, 1))
    few = fit_conformal(rows[:, :3], labels.flatten()[:3], alpha=0.01)  # all classes
    for fitted in (sets, few):
        fitted.save(tmp_path / "sets.json")
        again = load_calibrator(tmp_path / "sets.json")
        assert again.numbers() == fitted.numbers()
        assert torch.equal(again(rows), fitted(rows))


def test_the_joint_search_on_a_part_is_near_that_on_all(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    base = 2 * torch.randn(4000, 5, generator=draw)
    labels = torch.multinomial(base.softmax(1), 1, generator=draw)[:, 0]
    logits = 1.5 * (base + 0.7 * torch.randn(2, 4000, 5, generator=draw))
    whole = fit_calibrator(logits, labels, method="joint")
    monkeypatch.setattr("calmix.calibrate.joint.SEARCH_LOGITS", 20_000)
    monkeypatch.setattr("calmix.calibrate.joint.GRID_LOGITS", 5_000)
    part = fit_calibrator(logits, labels, method="joint")
    assert part.numbers() != whole.numbers()
    assert part.nll_before == whole.nll_before
    assert whole.nll_after <= part.nll_after < whole.nll_after + 0.002
    assert fit_calibrator(logits, labels, method="joint").numbers() == part.numbers()
