import pytest
import torch
from torch import nn

import calmix
from calmix import DeepEnsemble, predict


def ensemble(*, dropout=0.0):
    torch.manual_seed(0)
    return DeepEnsemble(
        [nn.Sequential(nn.Linear(2, 4), nn.Dropout(dropout), nn.Linear(4, 3)) for _ in range(2)]
    )


X = torch.randn(7, 2, generator=torch.Generator().manual_seed(1))
Y = torch.arange(7) % 3


@pytest.mark.parametrize(
    "batches",
    [
        [(X[:4], Y[:4]), (X[4:], Y[4:])],
        [[X, Y]],
        [{"x": X[:4], "labels": Y[:4]}, {"x": X[4:], "labels": Y[4:]}],
        [{"x": X, "label": Y.tolist(), "text": ["ignored"] * 7}],
    ],
)
def test_batches_join_on_the_axis_of_examples(batches):
    model = ensemble().eval()
    predictions = predict(model, batches)
    torch.testing.assert_close(predictions.logits, model(X).detach())
    assert torch.equal(predictions.labels, Y)
    assert not predictions.logits.requires_grad


@pytest.mark.parametrize("batches", [[X[:4], X[4:]], [(X,)], [{"x": X}]])
def test_without_labels(batches):
    assert predict(ensemble(), batches).labels is None


def test_a_data_loader_and_ids():
    data = torch.utils.data.TensorDataset(X, Y)
    assert len(predict(ensemble(), torch.utils.data.DataLoader(data, batch_size=3))) == 7
    batch = {"x": X, "labels": Y, "ids": [f"row {i}" for i in range(7)]}
    assert predict(ensemble(), [batch]).ids[2] == "row 2"


def test_every_submodule_gets_its_mode_back():
    model = ensemble(dropout=0.9)
    model.train()
    model.networks[0].eval()
    modes = [module.training for module in model.modules()]
    first, second = predict(model, [X]), predict(model, [X])
    assert torch.equal(first.logits, second.logits)  # no dropout
    assert [module.training for module in model.modules()] == modes

    def broken():
        yield X
        raise RuntimeError("loader")

    with pytest.raises(RuntimeError, match="loader"):
        predict(model, broken())
    assert [module.training for module in model.modules()] == modes


def test_several_inputs():
    class Sum(nn.Module):
        def forward(self, a, b):
            return torch.stack([a + b, a - b])

    by_place = predict(Sum(), [(X, 2 * X, Y % 2)])
    by_name = predict(Sum(), [{"b": 2 * X, "a": X, "labels": Y % 2}])
    torch.testing.assert_close(by_place.logits, torch.stack([3 * X, -X]))
    torch.testing.assert_close(by_name.logits, by_place.logits)


def test_mc_dropout_repeats_itself():
    torch.manual_seed(0)
    model = calmix.MCDropout(nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 3)), samples=5)
    first = predict(model, [X])
    assert first.logits.shape == (5, 7, 3)
    assert torch.equal(first.logits, predict(model, [X]).logits)


@pytest.mark.parametrize(
    ("model", "batches", "message"),
    [
        (nn.Linear(2, 3), [X], r"wrap it: DeepEnsemble\(\[net\]\)"),
        (nn.Identity(), [X[None]], "must return logits"),
        (nn.LSTM(2, 3), [X], "returned a tuple"),
        (ensemble(), [], "no batches"),
        (ensemble(), ["text"], "batch 0 of the loader is a str"),
        (ensemble(), [(X, Y), X], "1 of 2 batches have labels"),
        (ensemble(), [(X, Y[:3])], r"shape \(3,\) for 7 rows"),
        (ensemble(), [(X, Y + 5)], "outside"),
    ],
)
def test_what_cannot_be_predicted(model, batches, message):
    with pytest.raises(calmix.InputError, match=message):
        predict(model, batches)


def test_a_device_is_for_as_long_as_it_takes():
    model = ensemble()
    predict(model, [X], device="cpu")
    assert next(model.parameters()).device.type == "cpu"
