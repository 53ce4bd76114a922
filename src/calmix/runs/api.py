"""The trainer from Python: `calmix.train` and `calmix.evaluate`."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import nn

from calmix.corruptions import CORRUPTIONS
from calmix.errors import one_of
from calmix.progress import Display, Message, Reporter
from calmix.runs import defaults, launch, own
from calmix.runs.evaluate import evaluate as evaluate_run
from calmix.runs.folder import Run, open_run
from calmix.runs.launch import Machine
from calmix.runs.presets import preset
from calmix.runs.recipe import NETWORK_OPTIONS, Recipe
from calmix.runs.summary import Summary

Path_ = str | os.PathLike[str]
Network = str | Callable[..., nn.Module]


def make_recipe(
    *,
    network: Network | None = None,
    dataset: Any = "digits",
    ensemble: str = "single",
    augment: str = "none",
    optimiser: str | None = None,
    scale: str = "laptop",
    paper_code: bool = False,
    **fields: Any,
) -> Recipe:
    """The recipe of `calmix.train` with these arguments, without training it."""
    names = [f.name for f in dataclasses.fields(Recipe)]
    for name in fields:
        one_of("recipe field", name, (*names, *NETWORK_OPTIONS))
    start = preset(
        dataset,
        ensemble,
        augment,
        scale=scale,
        paper_code=paper_code,
        network=network,
        optimiser=optimiser,
    )
    return start.replace(**fields) if fields else start


def train(
    *,
    network: Network | None = None,
    dataset: Any = "digits",
    ensemble: str = "single",
    augment: str = "none",
    optimiser: str | None = None,
    scale: str = "laptop",
    out: Path_ = "runs",
    data_root: Path_ | None = None,
    machine: Machine | None = None,
    reporter: Reporter | None = None,
    **fields: Any,
) -> Run:
    """Train and evaluate a run, as `calmix train` does: resume an interrupted one, return a finished one.

    `network` is a function, a class, `"file.py:make"` or `"package.module:make"`, called with `shape=` (as
    the data, channels first), `num_classes=` and `network_options`; or the name of a built-in network.
    `dataset` is a name, a `.npz` file, a folder of images, `"file.py:load"`, a `calmix.data.DataSet`, or a
    pair (train, test) of map-style torch Datasets. `augment` is parts joined with `+`, or
    `"file.py:make_mixer"`. `fields` are the recipe's: `epochs=3`, `members=8`, `seed=1`. Progress is shown on
    standard error, or goes to `reporter`.

    >>> import tempfile
    >>> from calmix.progress import ignore
    >>> small = {"scale": "smoke", "epochs": 1, "train_size": 40, "width": 4, "batch_size": 20}
    >>> with tempfile.TemporaryDirectory() as out:
    ...     run = train(dataset="digits", ensemble="deep", out=out, reporter=ignore, **small)
    ...     run.predictions("test").logits.shape, run.summary.clean.examples
    (torch.Size([2, 100, 10]), 100)
    """
    root = None if data_root is None else Path(data_root)
    recipe = make_recipe(
        network=network,
        dataset=dataset,
        ensemble=ensemble,
        augment=augment,
        optimiser=optimiser,
        scale=scale,
        **fields,
    )
    with _shown(reporter) as report:
        if text := describe_own_data(recipe):
            report(Message(text))
        run = launch.train(recipe, Path(out), reporter=report, data_root=root, machine=machine)
        if launch.is_main_process():
            evaluate_run(run, reporter=report, data_root=root)
    return run


def evaluate(
    run: Run | Path_,
    corruptions: bool | Iterable[str] = False,
    *,
    network: Network | None = None,
    dataset: Any = None,
    corrupted_folder: Path_ | None = None,
    data_root: Path_ | None = None,
    device: str = "cpu",
    reporter: Reporter | None = None,
) -> Summary:
    """Predict with a run and compute every metric; what was computed before is kept.

    `corruptions=True` adds the 15 corruptions at 5 severities, or the types that are named. `network` and
    `dataset` stand for those of the recipe where it cannot load them itself, because they were given from
    Python or are on another machine.
    """
    if not isinstance(run, Run):
        run = open_run(Path(run))
    types = () if corruptions is False else CORRUPTIONS if corruptions is True else tuple(corruptions)
    with _shown(reporter) as report:
        use_given(run.recipe, report, network=network, dataset=dataset)
        return evaluate_run(
            run,
            corruptions=types,
            corrupted_folder=None if corrupted_folder is None else Path(corrupted_folder),
            reporter=report,
            data_root=None if data_root is None else Path(data_root),
            device=device,
        )


def use_given(recipe: Recipe, reporter: Reporter, *, network: Network | None, dataset: Any) -> None:
    """Let what the user gives stand for the recipe's own network and data."""
    if network is not None and (warning := own.use_code(recipe, "network", network)):
        reporter(Message(warning))
    if dataset is not None:
        own.use_data(recipe, dataset)


def describe_own_data(recipe: Recipe) -> str:
    """A line about data of the user's own and the defaults derived from it; empty for built-in data."""
    return defaults.describe(recipe, own.load_data(recipe)) if "dataset" in recipe.digests else ""


@contextlib.contextmanager
def _shown(reporter: Reporter | None) -> Iterator[Reporter]:
    if reporter is not None:
        yield reporter
        return
    with Display() as display:
        yield display
