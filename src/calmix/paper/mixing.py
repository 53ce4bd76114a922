"""Whom CAMixup mixed: the share of epochs for each class, beside how well the class is recognised."""

import numpy as np
import numpy.typing as npt

from calmix import run_folder
from calmix.paper.study import NotRunError
from calmix.predictions import load_predictions, pool
from calmix.run_folder import Run

Array = npt.NDArray[np.float64]


def mixed_share(run: Run) -> Array:
    """The share of epochs in which each member mixed each class, (members, classes)."""
    if run.recipe.by_group:
        raise NotRunError("a run whose CAMixup decides by class")
    if not run.mixed.exists():
        raise NotRunError(f"the record {run.mixed} of whom CAMixup mixed")
    return np.asarray(run_folder.read_mixed(run).mean(axis=0))


def class_accuracy(run: Run) -> Array:
    """The pool's accuracy on the test images of each class, (classes,)."""
    held = load_predictions(run.predictions("test"))
    classes = held.logits.shape[2]
    hit = (pool(held.logits).argmax(1) == held.labels).double()
    right, total = (held.labels.bincount(w, minlength=classes).double() for w in (hit, None))
    return np.asarray((right / total).numpy())
