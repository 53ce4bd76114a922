import pytest
import torch

from calmix.auditing import audit
from calmix.auditing.more_members import forecast_more_members
from calmix.auditing.summary import summarise


def members(count, *, size=4000, classes=5, seed=0):
    """Logits of members that see one signal through noise of their own."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (size,), generator=draw)
    signal = 3 * torch.eye(classes)[labels] + torch.randn(size, classes, generator=draw)
    return signal + 0.6 * torch.randn(count, size, classes, generator=draw), labels


def test_the_gap_of_sixteen_members_is_forecast_from_eight():
    logits, labels = members(16)
    few = forecast_more_members(summarise(logits[:8], labels), level=0.95)
    whole = summarise(logits, labels)
    gap = float((whole.hit - whole.confidence).mean())
    assert few[0].members == 16
    assert few[0].gap.value == pytest.approx(gap, abs=0.002)
    pool = summarise(logits[:8], labels)
    now = float((pool.hit - pool.confidence).mean())
    assert now < few[0].gap.value < few[1].gap.value
    assert few[1].gap.low < few[1].gap.value < few[1].gap.high


def test_two_members_give_the_law_of_one_and_two():
    logits, labels = members(2)
    summary = summarise(logits, labels)
    one = float((summary.member_hit - summary.member_confidence).mean())
    two = float((summary.hit - summary.confidence).mean())
    four, most = forecast_more_members(summary, level=0.95)
    assert four.gap.value == pytest.approx(one + 1.5 * (two - one))
    assert most.gap.value == pytest.approx(2 * two - one)


def test_an_audit_says_it_for_several_members_alone():
    logits, labels = members(3, size=600)
    report = audit(logits, labels, values="logits", resamples=50)
    assert [each["members"] for each in report.numbers()["more_members"]] == [6, None]
    assert "with 6 of them" in report.advice[-1]
    alone = audit(logits[:1], labels, values="logits", resamples=50)
    assert alone.numbers()["more_members"] == []
    assert not any("Members of the same kind" in text for text in alone.advice)
