import dataclasses

import pytest

from calmix.auditing import audit
from calmix.metrics import Interval
from calmix.report.story import mixup_story
from tests.auditing.ensembles import single


@pytest.fixture(scope="module")
def base():
    return audit(single(examples=200), resamples=20)


@pytest.fixture
def story(base):
    """The story of gaps (none, mixup, camixup) of each ensemble, each known to a point."""

    def tell(**gaps):
        reports = {}
        for name, three in gaps.items():
            for augment, gap in zip(("none", "mixup", "camixup"), three, strict=True):
                interval = Interval(gap, gap - 0.01, gap + 0.01, level=0.97)
                evidence = dataclasses.replace(base.evidence, gap=interval, accuracy=0.9, ece=abs(gap))
                reports[name.replace("_", " "), augment] = dataclasses.replace(base, evidence=evidence)
        return mixup_story(reports)

    return tell


def test_harm_and_cure_are_told_with_their_numbers(story):
    told = story(deep_ensemble=(0.03, 0.2, 0.01), BatchEnsemble=(0.02, 0.1, 0.05))
    first, second, third = told.sentences
    assert first == "Mixup made the deep ensemble and BatchEnsemble less sure than they should be."
    assert second == (
        "CAMixup cured the deep ensemble and brought BatchEnsemble nearer to calibrated, though not within "
        "the tolerance."
    )
    assert (
        "the furthest off is the deep ensemble with Mixup: right in 90.0 % of cases, and 70.0 % sure" in third
    )
    assert "20.0 %, against 3.0 % without Mixup and 1.0 % with CAMixup" in third
    (name, levels), _ = told.picture
    assert name == "deep ensemble"
    assert [level.expected for level in levels] == pytest.approx([0.87, 0.7, 0.89])


def test_what_came_out_otherwise_is_told_otherwise(story):
    first, second = story(single_network=(-0.1, -0.01, -0.1), MC=(0.0, 0.01, 0.0)).sentences
    assert first == (
        "Mixup improved the calibration of the single network and made no sure difference to MC."
    )
    assert second == (
        "There was nothing for CAMixup to cure. It left the single network worse calibrated than Mixup did."
    )


def test_a_cure_that_fails_is_told(story):
    _, second, _ = story(deep_ensemble=(0.0, -0.1, -0.1)).sentences
    assert second == "CAMixup made no sure improvement to the deep ensemble."
    assert story(deep_ensemble=(0.0, -0.1, -0.1)).sentences[0] == (
        "Mixup made the deep ensemble surer than it should be."
    )
