import pytest

from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.runs.schedule import learning_rate, validation_interval


def test_steps_warm_up_and_decay():
    recipe = Recipe(learning_rate=0.4, epochs=10, warmup_epochs=2.0, decay_epochs=(5, 8), decay_ratio=0.1)
    rates = [learning_rate(recipe, epoch) for epoch in (0, 1, 2, 4.99, 5, 8, 9.9)]
    assert rates == pytest.approx([0, 0.2, 0.4, 0.4, 0.04, 0.004, 0.004])


def test_one_cycle_rises_for_a_fifth_and_ends_at_zero():
    recipe = Recipe(learning_rate=1.0, epochs=10, schedule="one-cycle")
    rates = [learning_rate(recipe, epoch) for epoch in (0, 1, 2, 6, 10)]
    assert rates == pytest.approx([0, 0.5, 1.0, 0.5, 0])


def test_cosine_warms_up_and_ends_at_zero():
    recipe = Recipe(schedule="cosine", learning_rate=0.2, epochs=10, warmup_epochs=2.0)
    rates = [learning_rate(recipe, epoch) for epoch in (0, 1, 2, 6, 10)]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.1, 0.0])
    assert learning_rate(recipe.replace(warmup_epochs=0.0), 5) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("ensemble", "augment", "interval"),
    [
        *[("single", "camixup", 1), ("mc", "camixup", 1), ("single", "mixup", 4), ("batch", "none", 4)],
        *[("mc", "none", 7), ("single", "regmixup", 2)],
    ],
)
def test_validation_takes_a_tenth_of_the_time_where_nothing_is_decided_by_it(ensemble, augment, interval):
    """1,000 images each: a third of an epoch for one sample, two thirds for two, half with double rows."""
    recipe = preset("mnist", ensemble, augment)
    assert validation_interval(recipe, 1000, 1000) == interval
