import copy
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from calmix.ensembles import MCDropout, dropout, keyed_dropout
from calmix.errors import InputError


def made(samples=6, **options):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4), nn.Dropout(0.2)
    )
    return net, MCDropout(net, samples, **options)


X = torch.rand(5, 3, generator=torch.Generator().manual_seed(1))


def test_one_pass_in_training_and_samples_in_evaluation():
    _, model = made()
    assert model(X).shape == (1, 5, 4)
    assert model.eval()(X).shape == (6, 5, 4)


def test_evaluation_is_reproducible_and_samples_differ():
    _, model = made()
    model.eval()
    first = model(X)
    assert torch.equal(first, model(X))
    model.train()(X)
    model.network[1].load_state_dict(made()[1].network[1].state_dict())
    assert torch.equal(first, model.eval()(X)), "training moved the draws of evaluation"
    for k in range(1, 6):
        assert not torch.equal(first[0], first[k])
    model.reseed(1)
    assert not torch.equal(first, model(X))
    model.reseed(0)
    assert torch.equal(first, model(X))
    assert torch.equal(first, made(seed=0)[1].eval()(X))


def test_training_draws_on_from_the_last_reseed():
    _, model = made()
    run = [model(X) for _ in range(3)]
    assert not torch.equal(run[0], run[1])
    model.reseed(0)
    assert all(torch.equal(model(X), out) for out in run)


def test_copies_go_on_where_the_original_stands():
    _, model = made()
    model(X)
    others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    want = model(X)
    assert all(torch.equal(other(X), want) for other in others)
    others[0].reseed(9)
    assert torch.equal(model.eval()(X), others[1].eval()(X))
    assert not torch.equal(model(X), others[0].eval()(X))


@pytest.mark.parametrize("rows_at_once", [1, 5, 11, 20])
def test_samples_do_not_depend_on_how_many_pass_together(rows_at_once, monkeypatch):
    _, model = made()
    want = model.eval()(X)
    monkeypatch.setattr(dropout, "ROWS_AT_ONCE", rows_at_once)
    torch.testing.assert_close(model(X), want, rtol=0, atol=1e-6)


def test_memory_is_bounded_by_the_rows_of_one_pass():
    _, model = made(samples=7)
    seen = []
    model.network[0].register_forward_hook(lambda module, args, out: seen.append(len(args[0])))
    model.eval()(torch.rand(30, 3))
    assert seen == [60, 60, 60, 30]
    seen.clear()
    model(torch.rand(300, 3))
    assert seen == [300] * 7


def test_the_mean_over_samples_is_the_plain_network_and_its_spread_the_masks():
    model = MCDropout(nn.Dropout(0.3), samples=2000).eval()
    samples = model(torch.ones(2, 3))
    torch.testing.assert_close(samples.unique(), torch.tensor([0, 1 / 0.7]))
    assert samples.mean().item() == pytest.approx(1, abs=0.02)
    assert (samples[:, 0, 0] == samples[:, 1, 2]).float().mean().item() == pytest.approx(0.58, abs=0.05)


def test_two_layers_draw_different_masks():
    torch.manual_seed(0)
    model = MCDropout(nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)), samples=200).eval()
    assert (model(torch.ones(1, 5)) > 0).float().mean().item() == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize(("layer", "axes"), [(nn.Dropout1d, 1), (nn.Dropout2d, 2), (nn.Dropout3d, 3)])
def test_channels_drop_whole(layer, axes):
    out = MCDropout(layer(0.5), samples=40).eval()(torch.ones(2, 30, *[4] * axes)).flatten(3)
    assert torch.equal(out.amin(3), out.amax(3))
    assert out.amax(3).mean().item() == pytest.approx(1, abs=0.3)
    assert len(out[:, 0, 0, 0].unique()) == len(out[0, :, :, 0].unique()) == 2


def test_certain_dropout():
    assert MCDropout(nn.Dropout(1.0), samples=2).eval()(torch.ones(2, 2)).eq(0).all()


def test_batch_norm_is_in_evaluation_and_the_module_is_left_alone():
    net, model = made()
    before = copy.deepcopy(model.eval().state_dict())
    model(X)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert isinstance(net[3], nn.Dropout)
    assert type(model.member(5)[3]) is nn.Dropout
    assert torch.equal(model.member(0).eval()(X), net.eval()(X))


def test_each_sample_may_have_rows_of_its_own():
    _, model = made()
    model.eval()
    own = torch.rand(6, 5, 3)
    got = model(own, per_member=True)
    for k in range(6):
        torch.testing.assert_close(got[k], model(own[k])[k], rtol=0, atol=1e-6)
    assert torch.equal(model(X[None], per_member=True), model(X))
    assert model.train()(X[None], per_member=True).shape == (1, 5, 4)
    with pytest.raises(InputError, match=r"\(6, 5, 3\).*1 or 1"):
        model(own, per_member=True)


def test_gradients_pass_only_where_a_mask_is_open():
    model = MCDropout(nn.Dropout(0.5))
    x = torch.ones(4, 8, requires_grad=True)
    out = model(x)
    out.sum().backward()
    assert torch.equal(x.grad, out[0].detach())


def test_loads_strictly_and_compiles():
    net, model = made()
    other = MCDropout(copy.deepcopy(net), samples=6)
    nn.init.zeros_(other.network[4].weight)
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other.eval()(X), model.eval()(X))
    compiled = torch.compile(other, backend="eager")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), model(X))


def test_a_sampled_layer_cannot_be_called_around_its_ensemble():
    _, model = made()
    with pytest.raises(InputError, match="outside of its MCDropout"):
        model.network(X)


def test_threads_do_not_take_each_others_draws():
    _, model = made()
    want = model.eval()(X).detach()
    results = []
    threads = [threading.Thread(target=lambda: results.append(model(X).detach())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(torch.equal(got, want) for got in results)


def test_describe():
    assert made()[1].describe() == "MCDropout of 6 samples x Sequential: 164 parameters"


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="Linear has no dropout"):
        MCDropout(nn.Linear(2, 2))
    with pytest.raises(InputError, match="no dropout layer with p > 0"):
        MCDropout(nn.Sequential(nn.Dropout(0.0)))
    with pytest.raises(InputError, match=r"1 \(AlphaDropout\)"):
        MCDropout(nn.Sequential(nn.Dropout(), nn.AlphaDropout()))
    with pytest.raises(InputError, match="samples must be at least 1, got 0"):
        MCDropout(nn.Dropout(), samples=0)
    with pytest.raises(InputError, match="no member 6"):
        made()[1].member(6)


@pytest.mark.parametrize("rows", [20, 80])
def test_masks_do_not_follow_the_layout_of_the_input(rows):
    net, x = nn.Sequential(nn.Dropout(0.5)), torch.rand(rows, 3, 4, 4) + 1
    last = x.contiguous(memory_format=torch.channels_last)
    four, five = MCDropout(net, 4).eval()(last), MCDropout(net, 5).eval()(last)
    assert torch.equal(four, five[:4])
    assert torch.equal(four, MCDropout(net, 4).eval()(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_new_masks_are_not_drawn_for_a_checkpoint(reentrant):
    model, x = MCDropout(nn.Sequential(nn.Dropout(0.5))), torch.ones(1, 8, requires_grad=True)
    out = checkpoint(model, x, use_reentrant=reentrant)
    with pytest.raises(InputError, match="cannot run it again"):
        out.sum().backward()


def test_a_network_that_returns_no_tensor_is_refused():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x), x

    with pytest.raises(InputError, match=r"Pair returned a tuple, not a tensor; .* output=0"):
        MCDropout(Pair())(torch.rand(5, 2))


def test_the_logits_are_taken_as_told():
    class Record(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x, scale=None):
            x = x if scale is None else x * scale
            return {"logits": self.drop(x), "sizes": (x.shape,)}

    model = MCDropout(Record(), 3, output="logits", example=(X, torch.ones(5, 1))).eval()
    assert model(X).shape == (3, 5, 3)
    assert torch.equal(model(X, scale=torch.full((5, 1), 2.0)), 2 * model(X))


def test_the_counter_of_masks_is_part_of_the_state():
    _, model = made()
    model(X)
    model(X)
    state = copy.deepcopy(model.state_dict())
    assert state["_extra_state"] == 2
    expected = model(X)
    _, other = made()
    other.load_state_dict(state)
    assert torch.equal(other(X), expected)
    del state["_extra_state"]  # as files of earlier versions
    other.load_state_dict(state)
    assert "_extra_state" not in state
    nested = nn.ModuleDict({"model": made()[1]})
    nested.load_state_dict({f"model.{name}": value for name, value in state.items()})


def test_given_keys_do_not_count():
    _, model = made()
    with keyed_dropout(model, [(1, "a")]):
        model(X)
    assert model.steps == 0


def test_the_rank_is_part_of_the_default_seed(monkeypatch):
    plain = made()[1](X)
    monkeypatch.setattr(dropout.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dropout.dist, "get_rank", lambda: 1)
    default, told = made()[1], made(seed=0)[1]
    assert torch.equal(told(X), plain)
    assert not torch.equal(default(X), plain)
    assert torch.equal(default.eval()(X), told.eval()(X)), "samples are the same on every rank"
    monkeypatch.setattr(dropout.dist, "get_rank", lambda: 0)
    assert torch.equal(made()[1](X), plain)


def test_what_has_no_batch_axis_may_drop_too():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(1, 3))
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return x + self.drop(self.table)

    model = MCDropout(Positions(), 8, example=X).eval()
    out = model(X) - X
    assert not torch.equal(out[0], out[1])
    torch.testing.assert_close(out, MCDropout(Positions(), 20).eval()(X)[:8] - X)


def test_an_example_shows_what_cannot_be_sampled():
    class Conditional(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5) if self.training else x

    with pytest.raises(InputError, match=r"pass example="):
        MCDropout(Conditional())
    with pytest.raises(InputError, match=r"samples of Conditional are equal.*F\.dropout.*if self.training"):
        MCDropout(Conditional(), example=X)

    class SequenceFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(x.transpose(0, 1)).transpose(0, 1)

    with pytest.raises(InputError, match="change on the example if they run together"):
        MCDropout(SequenceFirst(), example=torch.ones(3, 4, 2))


def test_export_is_refused_with_the_reason():
    with pytest.raises(InputError, match=r"exported graph cannot repeat"):
        torch.export.export(made()[1].eval(), (X,))


def test_data_parallel_is_refused():
    _, model = made()
    replica = model._replicate_for_data_parallel()
    with pytest.raises(InputError, match=r"MCDropout cannot run in nn.DataParallel.*member axis"):
        replica(X)
