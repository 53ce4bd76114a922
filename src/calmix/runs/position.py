"""Position of a stream of training: how far it has come, as its checkpoint says."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from calmix.records import from_plain
from calmix.runs.folder import Epoch
from calmix.runs.recipe import Recipe


@dataclass
class Position:
    """How far training has come: the epoch, and within it the step, the sum of losses and the seconds."""

    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)


def position_of(state: dict[str, Any]) -> Position:
    """The position in a checkpoint."""
    names = [f.name for f in dataclasses.fields(Position)]
    position = Position(**{name: state[name] for name in names})
    position.history = [from_plain(Epoch, epoch, "history") for epoch in position.history]
    return position


def resumed(state: dict[str, Any], recipe: Recipe, steps: int) -> Position:
    """The position in a checkpoint, which must be one of this recipe's training with `steps` an epoch."""
    position, name = position_of(state), state.get("recipe", recipe.name)
    if name != recipe.name:
        raise ValueError(f"it is a checkpoint of {name}")
    places = position.epoch, position.step, len(position.history)
    inside = all(type(place) is int and place >= 0 for place in places)
    if not inside or position.epoch > recipe.epochs or position.step > steps:
        raise ValueError(f"it is at epoch {position.epoch}, step {position.step}")
    if not all(isinstance(number, int | float) for number in (position.loss, position.seconds)):
        raise ValueError(f"its loss is {type(position.loss).__name__}")
    position.loss, position.seconds = float(position.loss), float(position.seconds)
    if len(position.history) != position.epoch:
        raise ValueError(f"it is at epoch {position.epoch} with {len(position.history)} epochs of history")
    return position
