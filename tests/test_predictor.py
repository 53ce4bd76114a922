"""Predictor: what it computes, its exports, its files."""

import contextlib
import json
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import calmix
from calmix import BatchEnsemble, DeepEnsemble, MCDropout, Predictor, fit_calibrator
from calmix.errors import InputError

METHODS = ["temperature", "member", "each", "joint", "vector", "isotonic"]


def convnet():
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 6, 3, padding=1, groups=2), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)),
    )


def perceptron(classes=3):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, classes))


ENSEMBLES = {
    "deep": lambda make: DeepEnsemble([make() for _ in range(3)]),
    "batch": lambda make: BatchEnsemble(make(), members=3),
    "member norm": lambda make: BatchEnsemble(make(), members=3, member_norm=True),
}


def build(ensemble, make, seed=0):
    torch.manual_seed(seed)
    model = ENSEMBLES[ensemble](make)
    with torch.no_grad():  # batch norms that do something, logits of some size
        model(images(64))
        for parameter in model.parameters():
            parameter.mul_(1.3)
    return model


def images(rows, seed=0):
    return torch.randn(rows, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def fitted(model, method, classes=3):
    x = images(200, seed=1)
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        logits = model.eval()(x)
    # Every member is right about its share of the examples, as far as 5 % noise allows.
    labels = logits[torch.arange(200) % len(logits), torch.arange(200)].argmax(1)
    labels[::20] = torch.randint(classes, (10,), generator=draw)
    order = method if method in ("member", "each") else "pool"
    method = "temperature" if order != "pool" else method
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a temperature at its bound
        return fit_calibrator(logits, labels, method=method, order=order)


def exported_predictor(method="temperature"):
    model = build("batch", perceptron)
    return Predictor(model, fitted(model, method))


@pytest.mark.parametrize("method", METHODS)
def test_it_is_the_calibrator_of_the_logits(method):
    model = build("deep", convnet)
    calibrator, x = fitted(model, method), images(10)
    predictor = Predictor(model.train(), calibrator)
    assert not model.training
    with torch.no_grad():
        torch.testing.assert_close(predictor(x), calibrator(model(x)), rtol=0, atol=2e-6)
        torch.testing.assert_close(Predictor(model)(x), calmix.pool(model(x)), rtol=0, atol=0)
    assert {name.partition(".")[0] for name in predictor.state_dict()} == {"model", "calibrator"}


def test_beta_and_gradients():
    model = DeepEnsemble([perceptron(2)])
    predictor = Predictor(model, fitted(model, "beta", classes=2))
    x = images(5).requires_grad_()
    probs = predictor(x)
    torch.testing.assert_close(probs, predictor.calibrator(model(x)), rtol=0, atol=2e-6)
    probs[:, 0].sum().backward()
    assert x.grad.abs().sum() > 0


def test_named_inputs_and_pixels():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(1, 4, 1)

        def forward(self, x, mask=None):
            return self.layer(x if mask is None else x * mask)

    class Named(nn.Module):
        """An ensemble that takes a second input by its name."""

        def __init__(self):
            super().__init__()
            self.network = Net()

        def forward(self, x, **named):
            return torch.stack([self.network(x, **named), self.network(-x, **named)])

    model, x, mask = Named(), images(3), torch.ones(3, 1, 8, 8)
    mask[:, :, 4:] = 0
    logits = model(x).detach()
    labels = logits.mean(0).argmax(1)
    labels[:, 0] = 0
    calibrator = calmix.fit_temperature(logits, labels, order="member")
    probs = Predictor(model, calibrator)(x, mask=mask).detach()
    assert probs.shape == (3, 4, 8, 8)
    torch.testing.assert_close(probs, calibrator(model(x, mask=mask)), rtol=0, atol=2e-6)
    torch.testing.assert_close(probs[:, :, :4], Predictor(model, calibrator)(x)[:, :, :4].detach())
    assert Predictor(model)(x).shape == (3, 4, 8, 8)


def test_what_does_not_match_is_named():
    model = build("deep", perceptron)
    with pytest.raises(InputError, match=r"DeepEnsemble\(\[network\]\)"):
        Predictor(perceptron())(images(2))
    with pytest.raises(InputError, match="model is a function"):
        Predictor(lambda x: x)
    with pytest.raises(InputError, match="calibrator is a float"):
        Predictor(model, 1.5)
    predictor = Predictor(model, fitted(model, "each"))
    model.train()
    with pytest.raises(InputError, match=r"call predictor\.eval\(\)"):
        predictor(images(2))
    single = DeepEnsemble([perceptron()])
    with pytest.raises(InputError, match=r"logits has 1 members, .* fitted for 3"):
        Predictor(single, fitted(model, "each"))(images(2))


@contextlib.contextmanager
def quiet():
    """torch's own exporter uses what it has deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def export(predictor, x):
    with quiet(), torch.no_grad():
        return torch.export.export(predictor, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_calibrator_exports_with_any_number_of_rows(method):
    predictor = exported_predictor(method)
    program = export(predictor, images(5)).module()
    for rows in (1, 40):
        torch.testing.assert_close(program(images(rows)), predictor(images(rows)), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [convnet, perceptron])
@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_every_ensemble_exports_with_any_number_of_rows(ensemble, make):
    predictor = Predictor(build(ensemble, make))
    program = export(predictor, images(5)).module()
    for rows in (1, 40):
        with torch.no_grad():
            torch.testing.assert_close(program(images(rows)), predictor(images(rows)), rtol=0, atol=1e-5)


def run_onnx(predictor, path):
    """The largest difference to the predictor over two numbers of rows, in onnxruntime."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    with quiet(), torch.no_grad():
        shapes = {"x": {0: torch.export.Dim("batch")}}
        program = torch.onnx.export(
            predictor, (images(5),), dynamo=True, dynamic_shapes=shapes, verbose=False
        )
        program.save(str(path))
    session = runtime.InferenceSession(str(path))
    differences = []
    for rows in (1, 40):
        (probs,) = session.run(None, {session.get_inputs()[0].name: images(rows, seed=3).numpy()})
        assert probs.shape == (rows, 3)
        differences.append(np.abs(probs - predictor(images(rows, seed=3)).detach().numpy()).max())
    return max(differences)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_calibrator_runs_in_onnx(method, tmp_path):
    assert run_onnx(exported_predictor(method), tmp_path / "p.onnx") <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("make", [convnet, perceptron])
@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_every_ensemble_runs_in_onnx(ensemble, make, tmp_path):
    model = build(ensemble, make)
    assert run_onnx(Predictor(model, fitted(model, "member")), tmp_path / "p.onnx") <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", ["deep", "batch", "mc"])
def test_compiled_it_computes_the_same(ensemble):
    if ensemble == "mc":
        model = MCDropout(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.5), nn.Linear(8, 3)), 4)
    else:
        model = build(ensemble, convnet)
    predictor = Predictor(model, fitted(model, "temperature"))
    with quiet(), torch.no_grad():
        compiled = torch.compile(predictor)
        for rows in (5, 40):
            torch.testing.assert_close(compiled(images(rows)), predictor(images(rows)), rtol=0, atol=1e-5)


def dropout_model(samples=4, seed=0):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    return MCDropout(network, samples, seed=seed)


@pytest.mark.slow
def test_mc_dropout_predicts_and_is_refused_by_export_with_the_reason():
    predictor = Predictor(dropout_model())
    assert predictor(images(5)).shape == (5, 3)
    with pytest.raises(InputError, match="MCDropout cannot be exported: it draws its masks anew"):
        export(predictor, images(5))


@pytest.mark.parametrize("method", [None, *METHODS])
def test_saved_and_loaded_it_is_the_same(method, tmp_path):
    model = build("batch", convnet)
    predictor = Predictor(model, None if method is None else fitted(model, method))
    for _ in range(2):  # over itself too
        predictor.save(tmp_path / "p")
    assert sorted(path.suffix for path in (tmp_path / "p").iterdir()) == [".json", ".safetensors"]
    again = Predictor.load(tmp_path / "p", build("batch", convnet, seed=5).train())
    assert torch.equal(again(images(7)), predictor(images(7)))


def test_the_masks_of_mc_dropout_are_saved(tmp_path):
    predictor = Predictor(dropout_model(seed=3))
    predictor.save(tmp_path)
    again = Predictor.load(tmp_path, dropout_model(seed=0).train())
    assert torch.equal(again(images(7)), predictor(images(7)))


def test_a_save_replaces_the_weights_before(tmp_path):
    first, second = (Predictor(build("deep", perceptron, seed=k)) for k in (0, 1))
    first.save(tmp_path)
    second.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert torch.equal(Predictor.load(tmp_path, build("deep", perceptron))(images(3)), second(images(3)))


def test_an_interrupted_save_leaves_the_old_predictor(tmp_path, monkeypatch):
    first, second = (Predictor(build("deep", perceptron, seed=k)) for k in (0, 1))
    first.save(tmp_path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("calmix.predictor.write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        second.save(tmp_path)
    assert torch.equal(Predictor.load(tmp_path, build("deep", perceptron))(images(3)), first(images(3)))


def gelu():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.Linear(16, 3))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: build("deep", gelu), r"networks\.0\.2 is ReLU\(\) there and GELU\(.*\) in model"),
        (lambda: build("batch", perceptron), "the model itself is DeepEnsemble.* there and BatchEnsemble"),
        (lambda: DeepEnsemble([perceptron()]), "members=3.* there and .*members=1"),
        (lambda: build("deep", convnet), "another architecture"),
        (lambda: build("deep", perceptron).half(), "float32 .* there and float16"),
    ],
)
def test_another_architecture_is_refused_and_left_alone(other, message, tmp_path):
    Predictor(build("deep", perceptron)).save(tmp_path)
    model = other()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message):
        Predictor.load(tmp_path, model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_files_that_are_no_predictor_are_refused(tmp_path):
    model = build("deep", perceptron)
    with pytest.raises(InputError, match=r"it has no predictor\.json"):
        Predictor.load(tmp_path, model)
    Predictor(model, fitted(model, "joint")).save(tmp_path)
    path = tmp_path / "predictor.json"
    good = json.loads(path.read_text())
    for change, message in (
        ({"version": 99}, "not a predictor of version 1"),
        ({"weights": "../elsewhere.safetensors"}, "elsewhere.safetensors cannot be read"),
        ({"modules": []}, "modules must be an object"),
        ({"calibrator": {"method": "magic"}}, "calibrator is not a calibrator"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(InputError, match=message):
            Predictor.load(tmp_path, model)
    path.write_text(json.dumps(good))
    (tmp_path / good["weights"]).write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        Predictor.load(tmp_path, model)


class Counted(nn.Module):
    """A network whose extra state is no tensor."""

    def __init__(self, state):
        super().__init__()
        self.layer, self.state = nn.Linear(64, 3), state

    def forward(self, x):
        return self.layer(x.flatten(1))

    def get_extra_state(self):
        return self.state

    def set_extra_state(self, state):
        self.state = state


def test_extra_state_is_kept_as_json_or_refused(tmp_path):
    Predictor(DeepEnsemble([Counted({"steps": 3})])).save(tmp_path)
    model = DeepEnsemble([Counted({"steps": 0})])
    Predictor.load(tmp_path, model)
    assert model.member(0).state == {"steps": 3}
    with pytest.raises(InputError, match=r"networks\.0\._extra_state of the state is a set"):
        Predictor(DeepEnsemble([Counted({1, 2})])).save(tmp_path)
