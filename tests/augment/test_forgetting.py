"""The rules of forgetting-count CAMixup, by cases small enough to work out on paper."""

import pytest
import torch

from calmix.augment import ForgettingMixup, one_hot
from calmix.errors import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def answers(right: list[list[bool]]) -> torch.Tensor:
    """Logits (M, B, 2) for label 0."""
    return one_hot(1 - torch.tensor(right).long(), 2)


def epoch(mixer: ForgettingMixup, right: list[list[bool]], index: torch.Tensor | None = None) -> None:
    count = len(right[0])
    index = torch.arange(count) if index is None else index
    mixer.observe(answers(right), torch.zeros(count, dtype=torch.long), index)
    mixer.update()


def test_right_wrong_right_wrong_counts_two_forgettings():
    mixer = ForgettingMixup(2, 1)
    counts = []
    for right in (True, False, True, False):
        epoch(mixer, [[right]])
        counts.append(int(mixer.counts))
    assert counts == [0, 1, 1, 2]


def test_wrong_from_the_start_is_not_forgotten_and_wrong_twice_counts_once():
    mixer = ForgettingMixup(2, 2)
    for right in ([False, True], [False, False], [False, False], [True, False]):
        epoch(mixer, [right])
    assert mixer.counts.tolist() == [[0, 1]]


def test_the_threshold_is_the_upper_median_of_each_member():
    mixer = ForgettingMixup(2, 4, members=2)
    mixer.counts.copy_(torch.tensor([[0, 1, 2, 3], [5, 5, 5, 6]]))
    epoch(mixer, [[False] * 4] * 2)
    assert mixer.where.threshold.tolist() == [[2], [5]]
    assert mixer.active.tolist() == [[False, False, False, True], [False, False, False, True]]


def test_counts_and_decisions_stand_still_within_an_epoch():
    mixer = ForgettingMixup(2, 3)
    y, index = torch.zeros(3, dtype=torch.long), torch.arange(3)
    for right in ([True, True, True], [False, True, True]):
        mixer.observe(answers([right]), y, index)
        assert mixer.counts.sum() == 0
        assert not mixer.active.any()
    mixer.update()
    assert mixer.counts.tolist() == [[1, 0, 0]]
    assert mixer.active.tolist() == [[True, False, False]]
    with pytest.raises(InputError, match="no training logits"):
        mixer.update()
    assert mixer.counts.tolist() == [[1, 0, 0]]


def test_counts_are_of_each_member_and_compare_with_the_last_epoch_seen():
    mixer = ForgettingMixup(2, 3, members=2)
    epoch(mixer, [[True, True], [True, False]], torch.tensor([2, 0]))
    epoch(mixer, [[True], [True]], torch.tensor([1]))  # examples 0 and 2 are not seen
    epoch(mixer, [[False, False], [True, False]], torch.tensor([0, 2]))
    assert mixer.counts.tolist() == [[1, 0, 1], [0, 0, 1]]


def test_members_may_see_different_examples():
    mixer = ForgettingMixup(2, 3, members=2)
    index = torch.tensor([[0, 1], [2, 1]])
    y = torch.zeros(2, 2, dtype=torch.long)
    for right in ([[True, True], [True, True]], [[False, True], [False, True]]):
        mixer.observe(answers(right), y, index)
        mixer.update()
    assert mixer.counts.tolist() == [[1, 0, 0], [0, 0, 1]]
    x = torch.rand(2, 2, 5)
    batch = mixer(x, y, per_member=True, index=index, generator=seeded(1))
    assert torch.equal(batch.inputs[:, 1], x[:, 1])


def test_only_the_often_forgotten_are_mixed():
    mixer = ForgettingMixup(2, 200)
    mixer.counts[0, :60] = 3
    epoch(mixer, [[False]])
    x, y, index = torch.rand(100, 5), torch.arange(100) % 2, torch.arange(100)
    plan = mixer.plan(y, index=index, generator=seeded())
    changed = (plan(x).inputs[0] != x).any(1)
    assert not changed[60:].any()
    assert changed[:60].float().mean() > 0.9
    assert (plan.lam >= 0.5).all()


def test_the_pair_rule_of_the_published_scripts():
    mixer = ForgettingMixup(2, 5, rule="pair")
    mixer.counts.copy_(torch.tensor([[0, 1, 1, 2, 4]]))
    epoch(mixer, [[False] * 5])  # threshold 1: a pair needs more than 2
    y, index = torch.zeros(5, dtype=torch.long), torch.tensor([4, 3, 2, 1, 0])
    counts = mixer.counts[0, index]
    for seed in range(5):
        own = ForgettingMixup(2, 5)
        drawn = own.mixing.draw(y, per_member=False, generator=seeded(seed)).partner[0]
        plan = mixer.plan(y, index=index, generator=seeded(seed))
        expected = torch.where(counts + counts[drawn] > 2, drawn, torch.arange(5))
        assert torch.equal(plan.partner[0], expected)


def test_the_same_example_twice_in_a_batch_does_not_stop_the_training():
    mixer = ForgettingMixup(2, 2)
    epoch(mixer, [[True, True]], torch.tensor([1, 1]))
    epoch(mixer, [[False, True]], torch.tensor([1, 1]))
    assert mixer.counts.tolist() == [[0, 1]]


def test_what_does_not_match_is_named():
    mixer, y = ForgettingMixup(2, 5, members=2), torch.tensor([0, 1])
    with pytest.raises(InputError, match=r"index\[1\] = 5 .*num_examples = 5"):
        mixer(torch.rand(2, 4), y, index=torch.tensor([0, 5]))
    with pytest.raises(InputError, match="needs index"):
        mixer(torch.rand(2, 4), y)
    with pytest.raises(InputError, match="index has shape"):
        mixer(torch.rand(2, 4), y, index=torch.tensor([0]))
    with pytest.raises(InputError, match="train_logits have shape"):
        mixer.observe(torch.zeros(3, 2, 2), y, torch.tensor([0, 1]))
    with pytest.raises(InputError, match="num_examples = 0"):
        ForgettingMixup(2, 0)
    with pytest.raises(InputError, match="rule"):
        ForgettingMixup(2, 5, rule="both")
