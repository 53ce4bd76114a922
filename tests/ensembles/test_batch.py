import copy
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from calmix.ensembles import BatchEnsemble
from calmix.ensembles.layers import RankOne
from calmix.ensembles.norm import MemberNorm
from calmix.errors import InputError
from calmix.models import mlp, resnet50, small_resnet, wide_resnet


class Zoo(nn.Module):
    """Nested, with a layer used twice, functional calls between layers, and every kind of norm."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.twice = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False)
        self.group = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.line = nn.Conv1d(4, 5, 3)
        self.layer_norm = nn.LayerNorm(5)
        self.head = nn.Linear(5, 7)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = self.twice(F.relu(self.group(self.twice(x)))) + x
        x = F.avg_pool2d(F.relu(self.up(x)), 2).flatten(2)
        return self.head(self.layer_norm(self.line(x).mean(2)))


def zoo(**options):
    torch.manual_seed(0)
    net = Zoo().double()
    with torch.no_grad():
        net.stem[1].running_mean.normal_()
        net.stem[1].running_var.uniform_(0.5, 2)
    return net, BatchEnsemble(net, members=3, **options)


def set_to_one(model):
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, RankOne):
                part.r.fill_(1)
                part.s.fill_(1)


def image(*rows):
    return torch.rand(*rows, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("member_norm", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_with_r_and_s_one_each_member_is_the_original(member_norm, training):
    net, model = zoo(member_norm=member_norm)
    set_to_one(model)
    net.train(training)
    model.train(training)
    got, want = model(image(5)), net(image(5))
    assert got.shape == (3, 5, 7)
    for k in range(3):
        torch.testing.assert_close(got[k], want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("member_norm", [False, True])
def test_members_taken_out_agree_with_the_ensemble(member_norm):
    _, model = zoo(member_norm=member_norm)
    model.eval()
    x = image(3, 40)
    folded, unrolled = model(x, per_member=True), torch.no_grad()(model)(x, per_member=True)
    torch.testing.assert_close(folded.detach(), unrolled, rtol=0, atol=1e-10)
    for k in range(3):
        alone = model.member(k)
        assert isinstance(alone, Zoo)
        assert not any(isinstance(part, (RankOne, MemberNorm)) for part in alone.modules())
        torch.testing.assert_close(alone(x[k]), folded[k], rtol=0, atol=1e-10)
    assert not torch.allclose(folded[0], model.member(1)(x[0]))


def test_with_norms_of_their_own_members_train_apart():
    _, model = zoo(member_norm=True)
    x, alone = image(3, 4), [model.member(k) for k in range(3)]
    got = model(x, per_member=True)
    for k, member in enumerate(alone):
        torch.testing.assert_close(got[k], member(x[k]), rtol=0, atol=1e-10)
        own = model.member(k).stem[1]
        torch.testing.assert_close(own.running_mean, member.stem[1].running_mean)
        torch.testing.assert_close(own.running_var, member.stem[1].running_var)


def test_a_shared_norm_sees_the_rows_of_all_members():
    model = BatchEnsemble(nn.Sequential(nn.BatchNorm1d(2)), members=3)
    x = torch.randn(3, 5, 2)
    got = model(x, per_member=True)
    torch.testing.assert_close(model.network[0].running_mean, 0.1 * x.mean((0, 1)))
    torch.testing.assert_close(got.mean((0, 1)), torch.zeros(2), rtol=0, atol=1e-6)


def test_without_running_statistics_evaluation_normalises_all_members_together():
    model = BatchEnsemble(nn.BatchNorm1d(2, track_running_stats=False), members=3).eval()
    x = torch.randn(3, 40, 2)
    torch.testing.assert_close(torch.no_grad()(model)(x, per_member=True), model(x, per_member=True).detach())


def test_the_call():
    _, model = zoo()
    model.eval()
    x = image(4)
    assert torch.equal(model(x), model(x[None], per_member=True))
    assert torch.equal(model(x), model(x.expand(3, *x.shape), per_member=True))
    for rows in (0, 1, 3):
        torch.testing.assert_close(model(x[:rows]), model(x)[:, :rows], rtol=0, atol=1e-10)
    assert model.train()(x).shape == model.eval()(x).shape


def test_the_order_of_members_is_the_order_of_the_output():
    _, model = zoo(member_norm=True)
    model.eval()
    x, before = image(4), model(image(4))
    order = [2, 0, 1]
    for part in model.modules():
        if isinstance(part, RankOne):
            for values in (part.r, part.s, part.bias):
                if values is not None:
                    values.data = values.data[order]
        elif isinstance(part, MemberNorm):
            part.norms = nn.ModuleList([part.norms[k] for k in order])
    torch.testing.assert_close(model(x), before[order], rtol=0, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(members=st.integers(1, 5), rows=st.integers(1, 6), features=st.integers(1, 4), seed=st.integers(0, 99))
def test_any_number_of_members_and_rows(members, rows, features, seed):
    generator = torch.Generator().manual_seed(seed)
    model = BatchEnsemble(mlp(features, 6, 3).double(), members, generator=generator)
    x = torch.rand(members, rows, features, dtype=torch.float64, generator=generator)
    got = model(x, per_member=True)
    assert got.shape == (members, rows, 3)
    for k in range(members):
        torch.testing.assert_close(got[k], model.member(k)(x[k]), rtol=0, atol=1e-10)


def test_the_original_is_left_alone_and_its_weights_are_kept():
    net, _ = zoo()
    before = copy.deepcopy(net.state_dict())
    model = BatchEnsemble(net, members=3)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    kept = dict(BatchEnsemble(net).named_parameters())
    assert torch.equal(kept["network.twice.layer.weight"], net.twice.weight)
    assert torch.equal(kept["network.head.bias"], net.head.bias.expand(4, -1))
    net.stem.eval()
    model = BatchEnsemble(net, member_norm=True)
    assert model.training
    assert not model.network.stem[1].norms[2].training
    assert model.network.head.training


def test_frozen_weights_stay_frozen():
    net, _ = zoo()
    net.requires_grad_(False)
    trainable = {
        name.rsplit(".", 1)[1] for name, p in BatchEnsemble(net).named_parameters() if p.requires_grad
    }
    assert trainable == {"r", "s"}


@pytest.mark.parametrize(("member_norm", "added"), [(False, 78_354), (True, 132_210)])
def test_wide_resnet_28_10_grows_by_the_published_count(member_norm, added):
    with torch.device("meta"):
        model = BatchEnsemble(wide_resnet(28, 10), member_norm=member_norm)
    assert sum(p.numel() for p in model.parameters()) == 36_479_194 + added
    share = f"{added / 36_479_194:.2%}"
    assert model.describe() == (
        f"BatchEnsemble of 4 x PreActivationResNet: 36,479,194 parameters and {added:,} more for the members "
        f"({share})"
    )


def test_a_nested_resnet_is_converted_to_the_last_layer():
    with torch.device("meta"):
        net = resnet50()
        model = BatchEnsemble(net, member_norm=True)
    layers = [part for part in net.modules() if isinstance(part, (nn.Conv2d, nn.Linear))]
    norms = [part for part in net.modules() if isinstance(part, nn.BatchNorm2d)]
    assert (len(layers), len(norms)) == (54, 53)
    assert sum(isinstance(part, RankOne) for part in model.modules()) == 54
    assert sum(isinstance(part, MemberNorm) for part in model.modules()) == 53
    assert sum(isinstance(part, nn.BatchNorm2d) for part in model.modules()) == 4 * 53


def test_a_layer_used_twice_stays_one():
    _, model = zoo()
    assert sum(isinstance(part, RankOne) for part in model.modules()) == 5
    shared = nn.Linear(2, 2)
    twice = BatchEnsemble(nn.Sequential(shared, nn.ReLU(), shared))
    assert twice.network[0] is twice.network[2]


def test_r_and_s_are_drawn_as_asked():
    model = BatchEnsemble(nn.Linear(2000, 3000, bias=False), members=2, init_std=0.75)
    for values in (model.network.r, model.network.s):
        assert values.mean().item() == pytest.approx(1, abs=0.05)
        assert values.std().item() == pytest.approx(0.75, rel=0.05)
    signs = BatchEnsemble(nn.Linear(2000, 3000, bias=False), members=2, sign_probability=0.8).network
    assert set(signs.r.unique().tolist()) == {-1.0, 1.0}
    assert (signs.s == 1).float().mean().item() == pytest.approx(0.8, abs=0.04)
    first, second = (
        BatchEnsemble(nn.Linear(2, 3), generator=torch.Generator().manual_seed(7)) for _ in range(2)
    )
    assert torch.equal(first.network.r, second.network.r)
    assert not torch.equal(first.network.r[0], first.network.r[1])


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(2, 2)

    def forward(self, x):
        return self.line(x) - x.mean(0)


class BatchSecond(Mixing):
    def forward(self, x):
        return self.line(x.transpose(0, 1)).transpose(0, 1)


class Functional(Mixing):
    def forward(self, x):
        return F.linear(x, self.line.weight)


class Scaled(Mixing):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(2))


def tied():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    return net


def hooked():
    net = nn.Sequential(nn.Linear(2, 2))
    net[0].register_forward_hook(lambda module, args, out: 2 * out)
    return net


class Subclassed(nn.Linear):
    def forward(self, x):
        return super().forward(x) ** 2


@pytest.mark.parametrize(
    ("net", "complaint"),
    [
        (nn.Sequential(nn.MultiheadAttention(4, 2)), r"0 \(MultiheadAttention\) owns the parameter 'in_proj"),
        (nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 2)), r"1 \(LSTM\) owns"),
        (nn.Sequential(nn.Embedding(3, 2)), r"0 \(Embedding\) owns"),
        (Scaled(), r"the module itself \(Scaled\) owns the parameter 'gain'"),
        (tied(), r"1 \(Linear\) shares its weight with 0 \(Linear\)"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))), r"0 \(ParametrizedLinear\)"),
        (nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(2, 2, 1, bias=False))), "0.param"),
        (hooked(), r"0 \(Linear\) has hooks"),
        (nn.Sequential(Subclassed(2, 2)), r"0 \(Subclassed\) owns"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_converted_is_refused_by_name(net, complaint):
    with pytest.raises(InputError, match=complaint):
        BatchEnsemble(net)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_the_old_weight_norm_is_refused_too():
    with pytest.raises(InputError, match=r"0 \(Linear\)"):
        BatchEnsemble(nn.Sequential(nn.utils.weight_norm(nn.Linear(2, 2))))


def test_reading_a_shared_weight_around_its_layer_fails_loudly():
    with pytest.raises(AttributeError, match="weight"):
        BatchEnsemble(Functional())(torch.rand(4, 2))


def test_an_example_is_checked():
    zoo(example=image(2))
    with pytest.raises(InputError, match=r"Mixing cannot be converted.*member 0"):
        BatchEnsemble(Mixing(), example=torch.rand(5, 2))
    with pytest.raises(InputError, match=r"BatchSecond cannot be converted.*differs from itself"):
        BatchEnsemble(BatchSecond(), example=torch.rand(5, 4, 2))


def test_bad_input_is_refused():
    net = nn.Linear(2, 3)
    with pytest.raises(InputError, match="members must be at least 1, got 0"):
        BatchEnsemble(net, members=0)
    with pytest.raises(InputError, match="init_std"):
        BatchEnsemble(net, init_std=-1)
    with pytest.raises(InputError, match="sign_probability"):
        BatchEnsemble(net, sign_probability=1.5)
    model = BatchEnsemble(net)
    with pytest.raises(InputError, match=r"\(3, 5, 2\).*4 or 1"):
        model(torch.rand(3, 5, 2), per_member=True)
    with pytest.raises(InputError, match="no member 4"):
        model.member(4)
    with pytest.raises(InputError, match="made"):
        BatchEnsemble(nn.Sequential(net, nn.Flatten(0)))(torch.rand(5, 2))


@pytest.mark.parametrize("member_norm", [False, True])
def test_copies_pickles_and_loads_strictly(member_norm):
    _, model = zoo(member_norm=member_norm)
    model.eval()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(image(2)), model(image(2)))
    other = BatchEnsemble(Zoo().double(), members=3, member_norm=member_norm).eval()
    assert not torch.equal(other(image(2)), model(image(2)))
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other(image(2)), model(image(2)))


def compilable():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2)).double()
    return BatchEnsemble(net, members=3, member_norm=True)


def test_compiles():
    model, other = compilable(), compilable()
    got = torch.compile(other, backend="aot_eager", fullgraph=True)(image(2))
    want = model(image(2))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    got.square().sum().backward()
    want.square().sum().backward()
    for p, q in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=0, atol=1e-8)


def test_a_compiled_part_inside():
    model = compilable().eval()
    want = model(image(40)).detach()
    model.network = torch.compile(model.network, backend="eager")
    torch.testing.assert_close(model(image(40)).detach(), want, rtol=0, atol=1e-10)
    torch.testing.assert_close(torch.no_grad()(model)(image(40)), want, rtol=0, atol=1e-10)


class RecordRows(nn.Module):
    """Keeps the number of rows of every call."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def forward(self, x):
        self.rows.append(len(x))
        return x


def test_members_are_unrolled_where_that_is_the_same_and_faster():
    model = BatchEnsemble(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), RecordRows()), members=3)
    x, record = torch.rand(32, 2), model.network[2]
    model.eval()(x)
    with torch.no_grad():
        model(x)
        model(x[:31])
        model.train()(x)
        model.eval()
        handle = model.network[0].register_forward_hook(lambda module, args, out: None)
        model(x)
        handle.remove()
        model.network.compile(backend="eager")
        model(x)
    assert record.rows == [96, 32, 32, 32, 93, 96, 96, 96]


@pytest.mark.parametrize("kind", ["list", "bound method", "closure"])
def test_a_network_that_refers_to_its_parts_in_other_ways_is_folded(kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
            self.stages = [self.blocks]
            self.call = self.run

        def run(self, x):
            return self.blocks(x)

        def forward(self, x):
            return self.stages[0](x) if kind == "list" else self.call(x)

    net = Net()
    if kind == "list":
        del net.call
    else:
        del net.stages
    model, x = BatchEnsemble(net, members=2).eval(), torch.rand(40, 3)
    if kind == "closure":
        network = model.network
        network.call = lambda x: network.blocks(x)
    torch.testing.assert_close(torch.no_grad()(model)(x), model(x).detach())


def test_unrolled_members_follow_the_parameters():
    _, model = zoo(member_norm=True)
    model.eval()
    x = image(40)
    changes = (
        lambda: [p.data.mul_(1.1) for p in model.parameters()],
        lambda: model.network.stem[1].norms[0].running_mean.add_(1),
        lambda: model.load_state_dict({k: v + 0.1 for k, v in model.state_dict().items()}, assign=True),
    )
    for change in changes:
        before = torch.no_grad()(model)(x)
        change()
        unrolled = torch.no_grad()(model)(x)
        assert not torch.equal(unrolled, before)
        torch.testing.assert_close(unrolled, model(x).detach(), rtol=0, atol=1e-10)


def test_evaluation_leaves_no_trace_in_the_model():
    _, model = zoo(member_norm=True)
    keys, modules = list(model.state_dict()), list(model.modules())
    with torch.inference_mode():
        model.eval()(image(40))
    assert list(model.state_dict()) == keys
    assert list(model.modules()) == modules
    model.train()(image(3, 4), per_member=True).square().mean().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_unrolled(dtype):
    torch.manual_seed(0)
    model = BatchEnsemble(small_resnet(width=4), members=2).eval()
    x = torch.rand(40, 3, 8, 8)
    want = model(x).detach()
    with torch.no_grad():
        got = model.to(dtype)(x.to(dtype))
    assert got.dtype == dtype
    torch.testing.assert_close(got.float(), want, rtol=0.05, atol=0.05 * want.abs().max().item())


def test_threads_do_not_disturb_each_other():
    _, model = zoo()
    model.eval()
    inputs = [image(40) * (i + 1) for i in range(4)]
    results = {}

    def work(i):
        with torch.no_grad():
            results[i] = [model(inputs[i]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(inputs):
        for got in results[i]:
            torch.testing.assert_close(got, model(x).detach(), rtol=0, atol=1e-10)


class ChangesItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x.sub_(0.5).div_(0.25))


@pytest.mark.parametrize("rows", [8, 40], ids=["folded", "unrolled"])
def test_members_do_not_see_what_others_did_to_the_input(rows):
    model = BatchEnsemble(ChangesItsInput(), members=3, init_std=0, example=torch.rand(4, 3)).eval()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            x = torch.rand(rows, 3)
            kept = x.clone()
            out = model(x)
        assert torch.equal(out[0], out[1])
        assert torch.equal(out[0], out[2])
        assert torch.equal(x, kept)


def test_an_ensemble_inside_the_member_of_another():
    class Student(nn.Module):
        def __init__(self, teacher):
            super().__init__()
            self.fc, self.teacher = nn.Linear(3, 2), [teacher]

        def forward(self, x):
            return self.fc(x) + self.teacher[0](x).mean(0)

    teacher = BatchEnsemble(nn.Linear(3, 2), members=4).eval()
    model, x = BatchEnsemble(Student(teacher), members=2).eval(), torch.rand(40, 3)
    with torch.no_grad():
        for rows in (40, 8):
            torch.testing.assert_close(model(x[:rows]), torch.enable_grad()(model)(x[:rows]))


def test_parts_in_training_mode_are_never_unrolled():
    model = BatchEnsemble(nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5), RecordRows()), members=3)
    with torch.no_grad():
        model.eval()
        model.network[1].train()
        model(torch.rand(32, 2))
        model.eval()(torch.rand(32, 2))
    assert model.network[2].rows == [96, 32, 32, 32]


def test_a_layer_behind_a_closure_is_found_by_the_example():
    class Closure(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)
            self.apply_fc = lambda x: self.fc(x)

        def forward(self, x):
            return self.apply_fc(x)

    net = Closure()
    with pytest.raises(InputError, match="fc of the original is called by its converted copy"):
        BatchEnsemble(net, example=torch.rand(4, 3))
    assert net(torch.rand(4, 3)).shape == (4, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_example_is_judged_by_its_precision(dtype):
    torch.manual_seed(0)
    BatchEnsemble(mlp(5, 50, 3).to(dtype), example=torch.rand(8, 5).to(dtype))


def test_no_rows_at_all():
    model = BatchEnsemble(small_resnet(width=4)).eval()
    assert model(torch.rand(0, 3, 8, 8)).shape == (4, 0, 10)
    with pytest.raises(InputError, match="example has no rows"):
        BatchEnsemble(nn.Linear(3, 2), example=torch.rand(0, 3))
    with pytest.raises(InputError, match="x is a single number"):
        BatchEnsemble(nn.Linear(3, 2))(torch.tensor(1.0))
