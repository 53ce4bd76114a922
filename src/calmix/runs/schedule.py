"""Schedule of a run: its learning rate, and how often it predicts the validation data."""

import math

from calmix.runs.recipe import Recipe


def learning_rate(recipe: Recipe, epoch: float) -> float:
    """The rate at a moment of training, `epoch` counted with its fraction.

    Steps: linear warm-up, then a factor at each of `decay_epochs`. One-cycle: linear up to the peak over the
    first fifth, linear down to zero over the rest. Cosine: linear warm-up, then half a cosine down to zero.
    """
    if recipe.schedule == "one-cycle":
        done = epoch / recipe.epochs
        return recipe.learning_rate * min(done / 0.2, (1 - done) / 0.8)
    warm = min(1.0, epoch / recipe.warmup_epochs) if recipe.warmup_epochs else 1.0
    if recipe.schedule == "cosine":
        after = max(0.0, epoch - recipe.warmup_epochs) / max(recipe.epochs - recipe.warmup_epochs, 1e-9)
        return recipe.learning_rate * warm * (1 + math.cos(math.pi * min(1.0, after))) / 2
    return recipe.learning_rate * warm * recipe.decay_ratio ** sum(epoch >= e for e in recipe.decay_epochs)


def validation_interval(recipe: Recipe, train_size: int, validation_size: int) -> int:
    """Epochs between two validations: one where CAMixup decides by them, else so many that they take at most
    a tenth of the time, a forward pass counted as a third of a training step.

    >>> validation_interval(Recipe(), train_size=1000, validation_size=1000)
    4
    """
    if recipe.needs_validation:
        return 1
    samples = min(recipe.members, recipe.validation_samples) if recipe.ensemble == "mc" else 1
    cost = samples * validation_size / 3 / (train_size * recipe.rows_per_image)
    return max(1, math.ceil(10 * cost))
