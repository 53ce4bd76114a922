import pytest
import torch
from torch import nn

from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout
from calmix.ensembles.inputs import each_member, example_inputs, member_inputs
from calmix.errors import InputError


class Pair(nn.Module):
    """Two tensors and an option."""

    def __init__(self):
        super().__init__()
        self.fc, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)

    def forward(self, x, weight=None, power=1):
        x = self.drop(self.fc(x)) ** power
        return x if weight is None else x * weight[:, None]


X, WEIGHT = torch.rand(4, 3, generator=torch.Generator().manual_seed(1)), torch.arange(4.0)
ENSEMBLES = {
    "batch": lambda: BatchEnsemble(Pair(), 3),
    "deep": lambda: DeepEnsemble([Pair(), Pair(), Pair()]),
    "dropout": lambda: MCDropout(Pair(), 3),
}


@pytest.fixture(params=ENSEMBLES)
def model(request):
    torch.manual_seed(0)
    return ENSEMBLES[request.param]().eval()


def test_by_position_or_name(model):
    expected = model(X) * WEIGHT[:, None]
    for logits in (model(X, WEIGHT), model(X, weight=WEIGHT), model(x=X, weight=WEIGHT, power=1)):
        torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(model(X, None), model(X))
    torch.testing.assert_close(model(X, None, 2), model(X) ** 2)


def test_inputs_of_each_member(model):
    x, weight = torch.stack([X, X + 1, X + 2]), torch.stack([WEIGHT, 2 * WEIGHT, 3 * WEIGHT])
    got = model(x, weight=weight, per_member=True)
    for k in range(3):
        torch.testing.assert_close(got[k], model(x[k], weight[k])[k])
    torch.testing.assert_close(
        model(x, weight[:1], per_member=True), model(x, per_member=True) * WEIGHT[:, None]
    )


def test_tensors_of_another_batch_size_are_refused(model):
    with pytest.raises(
        InputError, match=r"weight has the shape \(3,\).*3 rows, but that of x has 4.*batch-first"
    ):
        model(X, weight=WEIGHT[:3])
    with pytest.raises(InputError, match=r"argument 1 has the shape \(1,\)"):
        model(X, WEIGHT[:1])
    with pytest.raises(InputError, match=r"weight is a single number"):
        model(X, weight=torch.tensor(1.0))
    with pytest.raises(InputError, match=r"weight has the shape \(4,\); with per_member=True"):
        model(X[None], weight=WEIGHT, per_member=True)
    with pytest.raises(InputError, match="no tensor among the arguments"):
        model()


def test_no_batch_at_all(model):
    assert model(X[:0], WEIGHT[:0]).shape == (3, 0, 2)


def test_data_parallel_is_refused(model):
    with pytest.raises(InputError, match=r"cannot run in nn.DataParallel.*axis 0"):
        model._replicate_for_data_parallel()(X)


def test_an_example_in_three_forms():
    for example in (X, (X, WEIGHT), {"x": X, "weight": WEIGHT, "power": 2}):
        torch.manual_seed(0)
        BatchEnsemble(Pair(), example=example)
        MCDropout(Pair(), example=example)
    assert example_inputs((X, None, 2)).args[1:] == (None, 2)
    with pytest.raises(InputError, match="example has no rows"):
        example_inputs({"x": X[:0]})
    with pytest.raises(InputError, match="argument 1 has the shape"):
        example_inputs((X, WEIGHT[:2]))


@pytest.mark.parametrize("changes", [False, True])
def test_members_get_copies_only_where_the_first_was_changed(changes):
    inputs = member_inputs([X.clone()], {"weight": WEIGHT.clone()}, 3, per_member=False)
    copies = 0
    for own in each_member(inputs):
        assert torch.equal(own.named["weight"], WEIGHT)
        copies += own.named["weight"].data_ptr() != inputs.named["weight"].data_ptr()
        if changes:
            own.named["weight"].add_(1)
    assert copies == (3 if changes else 1)
