"""The rules of CAMixup, by cases small enough to work out on paper."""

import pytest
import torch

from calmix.augment import CAMixup, CutMix, Mixup, one_hot
from calmix.errors import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sure(predicted: list[int], confidence: list[float], classes: int = 3) -> torch.Tensor:
    """Logits (N, C) that predict these classes with this confidence, the rest spread evenly."""
    top = torch.tensor(confidence).double().unsqueeze(1)
    return torch.where(one_hot(torch.tensor(predicted), classes) > 0, top, (1 - top) / (classes - 1)).log()


def test_nothing_is_mixed_in_the_first_epoch():
    mixer = CAMixup(3, members=2)
    x, y = torch.rand(8, 1, 4, 4), torch.arange(8) % 3
    batch = mixer(x, y, generator=seeded())
    assert mixer.active.shape == (2, 3)
    assert not mixer.active.any()
    assert torch.equal(batch.inputs, x.expand(2, -1, -1, -1, -1))
    assert torch.equal(batch.targets, one_hot(y, 3).expand(2, -1, -1))


def test_over_confident_classes_are_mixed_for_each_member_on_its_own():
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    first = sure([0, 1, 1, 1, 2, 0], [0.9, 0.9, 0.8, 0.8, 0.5, 0.4])  # Acc .5 < .9; 1 > .8; .5 > .45
    second = sure([0, 0, 1, 0, 2, 2], [0.9, 0.9, 0.6, 0.5, 0.9, 0.9])  # Acc 1 > .9; .5 < .55; 1 > .9
    mixer = CAMixup(3, members=2)
    mixer.update(torch.stack([first, second]), labels)
    assert mixer.active.tolist() == [[True, False, False], [False, True, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("right", "count"), [(1, 2), (3, 5), (4, 5), (3, 4), (7, 10), (29, 30)])
def test_equal_accuracy_and_confidence_mix_in_any_precision(right, count, dtype):
    mixer = CAMixup(3)
    logits = sure([0] * right + [1] * (count - right), [right / count] * count)
    mixer.update(logits.to(dtype).unsqueeze(0), torch.zeros(count, dtype=torch.long))
    assert mixer.active.tolist() == [[True, False, False]]


def test_a_class_always_right_and_almost_sure_is_not_mixed():
    mixer = CAMixup(2)
    mixer.update(torch.tensor([[[25.0, 0.0], [25.0, 0.0]]]), torch.tensor([0, 0]))  # 1e-11 short of sure
    assert mixer.active.tolist() == [[False, False]]


def test_a_class_without_validation_examples_stays_off():
    mixer = CAMixup(3)
    mixer.update(sure([1, 1], [0.9, 0.9]).unsqueeze(0), torch.tensor([0, 0]))
    assert mixer.active.tolist() == [[True, False, False]]


def test_confidence_counts_by_true_class_not_by_prediction():
    """Both are predicted as class 0: the wrong one belongs to class 1, and only class 1 is over-confident."""
    mixer = CAMixup(2)
    mixer.update(sure([0, 0], [0.9, 0.9], 2).unsqueeze(0), torch.tensor([0, 1]))
    assert mixer.active.tolist() == [[False, True]]


def test_the_pool_decides_for_all_and_takes_any_number_of_members():
    """Members that err apart: each is over-confident (.5 < .75), the pool always right (1 > .55)."""
    labels = torch.tensor([0, 0])
    logits = torch.stack([sure([0, 1], [0.9, 0.6]), sure([1, 0], [0.6, 0.9])])
    member, pool = CAMixup(3, members=2), CAMixup(3, members=4, gap_of="pool")
    member.update(logits, labels)
    pool.update(logits, labels)
    assert member.active.tolist() == [[True, False, False]] * 2
    assert pool.active.tolist() == [[False, False, False]] * 4
    pool.update(sure([1, 1], [0.9, 0.6]).unsqueeze(0), labels)
    assert pool.active.tolist() == [[True, False, False]] * 4


def test_own_class_decides_and_its_image_dominates():
    mixer = CAMixup(2)
    mixer.active = torch.tensor([[False, True]])
    y = torch.tensor([0, 1] * 50)
    x = torch.rand(100, 7, generator=seeded())
    plan = mixer.plan(y, generator=seeded())
    batch = plan(x)
    assert torch.equal(batch.inputs[0, y == 0], x[y == 0])
    assert torch.equal(batch.targets[0, y == 0], one_hot(y[y == 0], 2))
    changed = (batch.inputs[0, y == 1] != x[y == 1]).any(1)
    assert changed.float().mean() > 0.9
    assert (plan.y[plan.partner[0, y == 1]] == 0).any()  # also with partners whose own class is off
    assert (plan.lam >= 0.5).all()
    assert (batch.targets[0].max(1).indices == y).all()


@pytest.mark.parametrize(("mix", "all_classes"), [("mixup", Mixup), ("cutmix", CutMix)])
def test_all_on_equals_folded_mixing_of_all_classes(mix, all_classes):
    """alpha = 1 mixes: "off" is a state, and no value of alpha."""
    mixer = CAMixup(4, members=2, alpha=1.0, mix=mix)
    mixer.active = torch.ones(2, 4, dtype=torch.bool)
    x, y = torch.rand(6, 2, 8, 8), torch.arange(6) % 4
    batch = mixer(x, y, generator=seeded())
    folded = all_classes(4, members=2, fold=True)(x, y, generator=seeded())
    assert torch.equal(batch.inputs, folded.inputs)
    assert torch.equal(batch.targets, folded.targets)
    assert (batch.inputs != x).any()


def test_members_may_have_images_of_their_own():
    mixer = CAMixup(2, members=2)
    mixer.active = torch.tensor([[True, False], [False, True]])
    x, y = torch.rand(2, 40, 3), torch.stack([torch.arange(40) % 2, (torch.arange(40) // 2) % 2])
    batch = mixer(x, y, per_member=True, generator=seeded())
    for k in range(2):
        off = y[k] != k
        assert torch.equal(batch.inputs[k, off], x[k, off])
        assert (batch.inputs[k, ~off] != x[k, ~off]).any(1).float().mean() > 0.8


def test_groups_of_any_kind():
    mixer = CAMixup(3, num_groups=2)
    labels, group = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 0, 1, 1])
    mixer.update(sure([0, 1, 0, 1], [0.9] * 4).unsqueeze(0), labels, group)  # group 1 is all wrong
    assert mixer.active.tolist() == [[False, True]]
    x = torch.rand(4, 5)
    batch = mixer(x, labels, group=group, generator=seeded(3))
    assert torch.equal(batch.inputs[0, :2], x[:2])
    assert not torch.equal(batch.inputs[0, 2:], x[2:])


def test_update_equals_a_plain_reference():
    labels = torch.arange(500) % 7
    logits = torch.randn(3, 500, 7, generator=seeded()) + one_hot(labels, 7) * labels.view(-1, 1) / 3
    mixer = CAMixup(7, members=3)
    mixer.update(logits, labels)
    probs = logits.double().softmax(-1).numpy()
    for k in range(3):
        for c in range(7):
            rows = probs[k][labels.numpy() == c]
            accuracy = (rows.argmax(1) == c).mean()
            assert mixer.active[k, c] == (accuracy <= rows.max(1).mean())
    assert mixer.active.any()
    assert not mixer.active.all()


def test_batches_of_validation_data_decide_as_all_of_it_at_once():
    labels = torch.arange(501) % 7
    logits = torch.randn(3, 501, 7, generator=seeded()) + one_hot(labels, 7) * labels.view(-1, 1) / 3
    group = torch.arange(501) % 2
    for options in ({}, {"gap_of": "pool"}, {"num_groups": 2}):
        whole, parts = (CAMixup(7, members=3, **options) for _ in range(2))
        given = {"group": group} if "num_groups" in options else {}
        whole.update(logits, labels, **given)
        for rows in torch.arange(501).split(100):
            parts.validate(logits[:, rows], labels[rows], **{k: v[rows] for k, v in given.items()})
        parts.update()
        torch.testing.assert_close(parts.where.past, whole.where.past, rtol=1e-12, atol=0)
        assert torch.equal(parts.active, whole.active)
        assert whole.active.any()


def test_the_gap_is_of_the_pool_for_one_member_and_of_each_for_more():
    assert CAMixup(3).where.gap_of == "pool"
    assert CAMixup(3, members=2).where.gap_of == "member"
    mixer = CAMixup(3)
    mixer.update(torch.randn(20, 9, 3, generator=seeded()), torch.arange(9) % 3)  # samples of MC-dropout
    assert mixer.active.shape == (1, 3)


@pytest.mark.parametrize(("margin", "mixed"), [(0.0, 2), (0.1, 1), (0.39, 1), (0.4, 0)])
def test_a_margin_asks_for_more_than_that_much_over_confidence(margin, mixed):
    """Gaps of 0.4, 0.1 and -0.5 by class; a margin of 0.4 is not exceeded by 0.4."""
    logits = sure([0, 1, 1, 2, 2], [0.9, 0.9, 0.6, 0.6, 0.5])
    mixer = CAMixup(3, margin=margin)
    mixer.update(logits.unsqueeze(0), torch.tensor([0, 0, 1, 1, 2]))
    assert mixer.active.tolist() == [[True] * mixed + [False] * (3 - mixed)]


def test_momentum_decides_on_a_running_mean_of_the_sums():
    """Confidence 0.9 throughout. Right 2 of 2, then 0 of 2, then 2 of 2: sums with momentum 0.75."""
    mixer, labels = CAMixup(3, momentum=0.75), torch.tensor([0, 0])
    sums = [2.0, 1.5, 1.625, 1.71875, 1.7890625, 1.841796875]
    for predicted, right in zip(([0, 0], [1, 1], *[[0, 0]] * 4), sums, strict=True):
        mixer.update(sure(predicted, [0.9, 0.9]).unsqueeze(0), labels)
        assert float(mixer.where.past[0, 0, 0]) == right
        assert bool(mixer.active[0, 0]) == (right <= 1.8)


def test_what_does_not_match_is_named():
    mixer, labels = CAMixup(3, members=2), torch.tensor([0, 1])
    with pytest.raises(InputError, match=r"1 members, this mixer 2"):
        mixer.update(torch.zeros(1, 2, 3), labels)
    with pytest.raises(InputError, match="num_groups"):
        mixer(torch.rand(2, 4), labels, group=labels)
    grouped = CAMixup(3, num_groups=2)
    with pytest.raises(InputError, match="give group"):
        grouped(torch.rand(2, 4), labels)
    with pytest.raises(InputError, match=r"group\[0\] = 2"):
        grouped(torch.rand(2, 4), labels, group=torch.tensor([2, 0]))
    with pytest.raises(InputError, match="group has shape"):
        grouped.validate(torch.zeros(1, 2, 3), labels, torch.tensor([1]))
    with pytest.raises(InputError, match="gap_of"):
        CAMixup(3, gap_of="ensemble")
    with pytest.raises(InputError, match="mix = "):
        CAMixup(3, mix="blend")
    with pytest.raises(InputError, match="num_groups = 0"):
        CAMixup(3, num_groups=0)
    with pytest.raises(InputError, match=r"margin = -0\.1"):
        CAMixup(3, margin=-0.1)
    with pytest.raises(InputError, match="momentum = 1"):
        CAMixup(3, momentum=1)
