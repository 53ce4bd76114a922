"""The mixer as a module: policies, epochs, state, workers."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

from calmix.augment import CAMixup, CutMix, ForgettingMixup, Mixup, RegMixup, one_hot
from calmix.errors import InputError

CLASSES = 3


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Recorder(nn.Module):
    """A policy of the user's own: it mixes the classes that were often wrong, and notes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.active = torch.zeros(2, CLASSES, dtype=torch.bool)
        self.register_buffer("wrong", torch.zeros(CLASSES))

    def forward(self, y, group, index):
        self.calls.append(f"call {tuple(y.shape)} {group is None} {index is None}")
        return self.active[:, y]

    def observe(self, train_logits, y, index):
        self.calls.append(f"observe {tuple(train_logits.shape)} {tuple(y.shape)} {tuple(index.shape)}")

    def validate(self, val_logits, val_labels, group):
        wrong = (val_logits.mean(0).argmax(-1) != val_labels).float()
        self.wrong.index_add_(0, val_labels, wrong)

    def update(self):
        self.active.copy_(self.wrong > 1)


def test_a_policy_of_the_users_own_learns_and_is_saved():
    policy = Recorder()
    mixer = Mixup(CLASSES, members=2, where=policy)
    x, y = torch.rand(6, 4), torch.arange(6) % CLASSES
    assert torch.equal(mixer(x, y, index=torch.arange(6)).inputs, x.expand(2, -1, -1))
    mixer.observe(torch.zeros(2, 6, CLASSES), y, torch.arange(6))
    assert policy.calls == ["call (6,) True False", "observe (2, 6, 3) (6,) (6,)"]
    for _ in range(2):
        mixer.validate(one_hot(torch.zeros(1, 6, dtype=torch.long), CLASSES), y)
    mixer.update()
    assert mixer.active.tolist() == [[False, True, True]] * 2
    changed = (mixer(x, y, generator=seeded(3)).inputs != x).any(-1)
    assert not changed[:, y == 0].any()
    assert changed[:, y > 0].any()
    assert mixer.history.tolist() == [[[False] * 3] * 2]
    assert mixer.state_dict()["where.wrong"].tolist() == [0.0, 4.0, 4.0]


@pytest.mark.parametrize("kind", [Mixup, CutMix, RegMixup])
def test_a_function_is_a_policy(kind):
    x, y = torch.rand(40, 1, 8, 8), torch.arange(40) % CLASSES
    mixer = kind(CLASSES, where=lambda y, group, index: (y == 2) & (group == 0))
    group = torch.arange(40) % 2
    batch = mixer(x, y, group=group, generator=seeded())
    changed = (batch.inputs[0, -40:] != x).flatten(1).any(1)
    chosen = (y == 2) & (group == 0)
    assert not changed[~chosen].any()
    assert changed[chosen].float().mean() > 0.5
    assert torch.equal(batch.targets[0, -40:][~chosen], one_hot(y[~chosen], CLASSES))
    mixer.update()
    assert mixer.active.all()


def test_a_policy_may_choose_by_member_though_all_members_share_a_draw():
    mask = torch.tensor([[True] * 4, [False] * 4, [True, False, True, False]])
    mixer = Mixup(4, where=lambda y, group, index: mask, partner="reversed")
    x, y = torch.rand(4, 5), torch.arange(4)
    batch = mixer(x, y, generator=seeded())
    everywhere = Mixup(4, partner="reversed")(x, y, generator=seeded())
    assert torch.equal(batch.inputs, torch.where(mask.unsqueeze(2), everywhere.inputs, x))
    with pytest.raises(InputError, match=r"the policy .*<lambda> returned torch\.int64 of shape \(4,\)"):
        Mixup(4, where=lambda y, group, index: y)(x, y)


class Stubborn:
    """A policy that does what it is told, right or wrong."""

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, y, group, index):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (KeyError("age"), r"the policy Stubborn raised KeyError: 'age' \(called with y \(4,\), group None"),
        (torch.ones(3, dtype=torch.bool), r"the policy Stubborn returned torch\.bool of shape \(3,\)"),
        (torch.ones(2, 4, dtype=torch.bool), r"Stubborn returned .*\(2, 4\); .*\(4,\) or \(3, 4\)"),
        ([True] * 4, "the policy Stubborn returned a list; give a bool tensor"),
        (None, "the policy Stubborn returned a NoneType"),
    ],
)
def test_a_policy_that_fails_is_named(answer, message):
    mixer = Mixup(4, members=3, where=Stubborn(answer))
    with pytest.raises(InputError, match=message):
        mixer(torch.rand(4, 5), torch.arange(4))


@pytest.mark.parametrize("kind", [list, lambda values: values.numpy()])
def test_lists_and_arrays_are_refused_with_the_way_to_convert_them(kind):
    mixer, x, y = CAMixup(3, num_groups=2), torch.rand(4, 5), torch.tensor([0, 1, 2, 0])
    group = torch.tensor([0, 1, 0, 1])
    logits = torch.zeros(1, 4, 3)
    for call, name in (
        (lambda: mixer(x, kind(y), group=group), "y"),
        (lambda: mixer(x, y, group=kind(group)), "group"),
        (lambda: mixer(kind(x), y, group=group), "x"),
        (lambda: mixer.validate(kind(logits), y, group), "val_logits"),
        (lambda: mixer.validate(logits, kind(y), group), "val_labels"),
        (lambda: mixer.update(logits, y, kind(group)), "group"),
        (lambda: ForgettingMixup(3, 4)(x, y, index=kind(group)), "index"),
    ):
        with pytest.raises(InputError, match=rf"^{name} is a (list|ndarray); .*torch\.as_tensor\({name}\)"):
            call()


def test_loops_may_call_what_a_mixer_does_not_need():
    mixer, y = Mixup(3), torch.tensor([0, 1])
    mixer.observe(torch.zeros(1, 2, 3), y, torch.tensor([0, 1]))
    mixer.validate(torch.zeros(1, 2, 3), y)
    mixer.update(torch.zeros(1, 2, 3), y)
    mixer.update()
    mixer(torch.rand(2, 4), y, group=torch.tensor([0, 0]), index=torch.tensor([5, 6]))
    assert mixer.history.tolist() == [[[True] * 3]] * 2


@pytest.mark.parametrize("kind", [Mixup, CutMix, CAMixup])
def test_disabled_nothing_is_mixed_and_the_draws_stay_the_same(kind):
    mixer = kind(4, members=2)
    mixer.active = torch.ones(2, 4, dtype=torch.bool)
    x, y = torch.randn(6, 2, 8, 8), torch.arange(6) % 4
    x[0] = -0.0
    mixer.enabled = False
    g = seeded()
    batch = mixer(x, y, generator=g)
    assert torch.equal(batch.inputs.view(torch.int32), x.expand(2, *x.shape).contiguous().view(torch.int32))
    assert torch.equal(batch.targets, one_hot(y, 4).expand(2, -1, -1))
    again = mixer(x, y, generator=g)
    assert torch.equal(again.inputs, batch.inputs)
    assert mixer.active.all()
    fresh = kind(4, members=2)
    fresh.load_state_dict(mixer.state_dict())
    assert fresh.enabled
    mixer.enabled = True
    h = seeded()
    assert not torch.equal(mixer(x, y, generator=h).inputs, batch.inputs)
    mixer(x, y, generator=h)
    assert torch.equal(torch.rand(3, generator=h), torch.rand(3, generator=g))


def test_history_is_what_was_mixed_in_each_epoch():
    """Nothing in the first; the last decision is not in it; a disabled epoch mixes nothing."""
    mixer = CAMixup(2)
    labels = torch.tensor([0, 1])
    assert mixer.history.shape == (0, 1, 2)
    for epoch, predicted in enumerate(([0, 0], [1, 1], [1, 1], [0, 1])):
        mixer.enabled = epoch != 2
        mixer.update(9 * one_hot(torch.tensor(predicted), 2).unsqueeze(0), labels)
    assert mixer.history.tolist() == [[[False, False]], [[False, True]], [[False, False]], [[True, False]]]
    assert mixer.active.tolist() == [[False, False]]
    with pytest.raises(InputError, match="no validation data"):
        mixer.update()
    assert len(mixer.history) == 4


def train(mixer, epochs: int, start: int = 0):
    """What a loop reports in some epochs, the last of them unfinished."""
    labels = torch.arange(30) % CLASSES
    for epoch in range(start, start + epochs):
        logits = torch.randn(2, 30, CLASSES, generator=seeded(epoch))
        index = torch.randperm(30, generator=seeded(epoch))[:20]
        mixer.observe(logits[:, index], labels[index], index)
        mixer.validate(logits[:, :10], labels[:10])
        if epoch < start + epochs - 1:
            mixer.validate(logits[:, 10:], labels[10:])
            mixer.update()


MIXERS = {
    "camixup": lambda: CAMixup(CLASSES, members=2, momentum=0.7),
    "forgetting": lambda: ForgettingMixup(CLASSES, 30, members=2),
    "mixup": lambda: Mixup(CLASSES, members=2),
}


@pytest.mark.parametrize("name", MIXERS)
def test_state_survives_saving_and_loading_in_the_middle_of_an_epoch(name):
    mixer, fresh = MIXERS[name](), MIXERS[name]()
    train(mixer, epochs=5)
    file = io.BytesIO()
    torch.save(nn.ModuleDict({"mixer": mixer}).state_dict(), file)
    file.seek(0)
    active = fresh.active
    nn.ModuleDict({"mixer": fresh}).load_state_dict(torch.load(file, weights_only=True))
    assert active is fresh.active  # in place
    assert active.is_shared()
    for one in (mixer, fresh):
        train(one, epochs=4, start=5)
        one.update()
    assert torch.equal(fresh.active, mixer.active)
    assert torch.equal(fresh.history, mixer.history)
    assert mixer.history.shape == (8, *active.shape)
    if name != "mixup":
        assert 0 < mixer.history[1:].float().mean() < 1
    assert str(fresh.state_dict()) == str(mixer.state_dict())


def test_the_state_of_another_mixer_is_refused():
    state = CAMixup(3, members=2).state_dict()
    for other in (CAMixup(3, members=4), CAMixup(4, members=2), Mixup(3, members=2)):
        with pytest.raises(InputError, match=r"the saved mixer has .*'active': \(2, 3\)"):
            other.load_state_dict(state)


def test_averaging_a_model_and_its_buffers_leaves_the_mixer_alone():
    for make in MIXERS.values():
        model = nn.ModuleDict({"network": nn.BatchNorm1d(3), "mixer": make()})
        averaged = AveragedModel(model, use_buffers=True)
        for epoch in range(3):
            train(model["mixer"], epochs=2, start=epoch)
            averaged.update_parameters(model)
        assert averaged.n_averaged == 3
        assert len(model["mixer"].history) == 3
        assert not list(model["mixer"].buffers())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda mixer: pickle.loads(pickle.dumps(mixer))])
def test_a_copy_is_a_mixer_of_its_own_in_shared_memory(duplicate):
    mixer = CAMixup(3)
    mixer.update(9 * one_hot(torch.tensor([[0, 0]]), 3), torch.tensor([0, 1]))
    other = duplicate(mixer)
    assert other.active.is_shared()
    mixer.active.fill_(True)
    assert other.active.tolist() == [[False, True, False]]


class Mix:
    """A collate function that mixes in the worker."""

    def __init__(self, mixer):
        self.mixer = mixer

    def __call__(self, rows):
        x, y = (torch.stack(column) for column in zip(*rows, strict=True))
        return self.mixer(x, y, generator=seeded()).targets


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12: threads and fork
def test_workers_that_stay_see_what_is_decided_here():
    mixer = CAMixup(8)
    rows = TensorDataset(torch.rand(8, 4), torch.arange(8))
    options = {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": "fork"}
    loader = DataLoader(rows, batch_size=8, collate_fn=Mix(mixer), **options)
    (targets,) = loader
    assert torch.equal(targets[0], torch.eye(8))
    mixer.update(9 * one_hot(torch.full((1, 8), 5), 8), torch.arange(8))  # always wrong but on class 5
    (targets,) = loader
    mixed = (targets[0] != torch.eye(8)).any(1)
    assert not mixed[5]
    assert mixed.sum() > 3


def test_what_does_not_match_is_named():
    mixer, labels = CAMixup(3, members=2), torch.tensor([0, 1])
    with pytest.raises(InputError, match=r"val_logits have shape \(2, 2, 4\)"):
        mixer.update(torch.zeros(2, 2, 4), labels)
    with pytest.raises(InputError, match="val_labels have shape"):
        mixer.validate(torch.zeros(2, 3, 3), labels)
    with pytest.raises(InputError, match=r"val_labels\[1\] = 3"):
        mixer.update(torch.zeros(2, 2, 3), torch.tensor([0, 3]))
    with pytest.raises(InputError, match="val_logits and val_labels together"):
        mixer.update(torch.zeros(2, 2, 3))
    for wrong in ([0, 1], labels.numpy()):
        with pytest.raises(InputError, match=r"val_labels is a .*torch.as_tensor\(val_labels\)"):
            mixer.validate(torch.zeros(2, 2, 3), wrong)
        with pytest.raises(InputError, match=r"group is a .*torch.as_tensor\(group\)"):
            CAMixup(3, num_groups=2).validate(torch.zeros(2, 2, 3), labels, wrong)
        with pytest.raises(InputError, match=r"group is a .*torch.as_tensor\(group\)"):
            CAMixup(3, num_groups=2)(torch.rand(2, 4), labels, group=wrong)
        with pytest.raises(InputError, match=r"y is a .*torch.as_tensor\(y\)"):
            ForgettingMixup(3, 2).observe(torch.zeros(1, 2, 3), wrong, labels)
    for name in ("group", "index"):
        with pytest.raises(InputError, match=f"{name} has shape"):
            Mixup(3)(torch.rand(2, 4), labels, **{name: torch.tensor([1])})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused_and_leave_no_trace(value):
    mixer, logits, labels = CAMixup(3), torch.zeros(1, 4, 3), torch.arange(4) % 3
    logits[0, 2, 1] = value
    with pytest.raises(InputError, match=rf"val_logits\[0, 2\] has the largest logit {value}"):
        mixer.update(logits, labels)
    with pytest.raises(InputError, match="no validation data"):
        mixer.update()
    logits[0, 2] = torch.tensor([-float("inf"), 0.0, 0.0])  # a class that is ruled out
    mixer.update(logits, labels)
