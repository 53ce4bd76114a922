"""Logs of training in TensorBoard or MLflow: scalars per epoch, final numbers and figures.

A logger is any object with the methods of `Logger`. `open_log` makes one of a word of the command line and
puts it beside the reporter, whose events it reads.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from calmix.errors import InputError, one_of
from calmix.progress import Event, Numbers, Reporter
from calmix.study.tasks import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calmix.runs.summary import Summary

KINDS = ("tensorboard", "mlflow")
FOLDER = Path("logs")
EXPERIMENT = "calmix"


class Logger(Protocol):
    """Where numbers and figures go; `run` names what they belong to."""

    def scalars(self, run: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of an epoch."""

    def final(self, run: str, values: Mapping[str, float]) -> None:
        """Numbers of a finished run."""

    def figure(self, name: str, figure: "Figure") -> None:
        """A figure of the whole study."""

    def close(self) -> None:
        """Write what is left."""


@dataclass
class LoggingReporter:
    """A reporter that passes every event on, and gives the numbers of epochs to a logger.

    `prefix` names the run where events name parts of it alone.
    """

    reporter: Reporter
    logger: Logger
    prefix: str = ""

    def __call__(self, event: Event) -> None:
        self.reporter(event)
        if isinstance(event, Numbers):
            part = "" if self.prefix and event.task == "training" else event.task
            name = f"{self.prefix} {part}".strip()
            self.logger.scalars(name, event.step, _finite(event.values))


@contextlib.contextmanager
def open_log(spec: str | None, reporter: Reporter, *, prefix: str = "") -> Iterator[Reporter]:
    """A reporter that also logs to `spec`: tensorboard, mlflow, or one of them with a place,
    `tensorboard:FOLDER`, `mlflow:ADDRESS`. Without one, the reporter itself."""
    if spec is None:
        yield reporter
        return
    kind, _, place = spec.partition(":")
    one_of("log", kind, KINDS)
    logger: Logger = TensorBoardLogger(place) if kind == "tensorboard" else MLflowLogger(place)
    try:
        yield LoggingReporter(reporter, logger, prefix)
    finally:
        logger.close()


def log_summary(reporter: Reporter, name: str, summary: "Summary") -> None:
    """The final numbers of a run, where the reporter logs."""
    if isinstance(reporter, LoggingReporter):
        pool: dict[str, float] = dict(vars(summary.clean.pool))
        means = {"ca": summary.corrupted_mean("accuracy"), "cece": summary.corrupted_mean("ece")}
        pool |= {key: value for key, value in means.items() if value is not None}
        reporter.logger.final(name, _finite(pool))


def log_results(reporter: Reporter, results: Any, rendered: Mapping[str, Any]) -> None:
    """The final numbers of every evaluated run, and every figure, where the reporter logs."""
    if not isinstance(reporter, LoggingReporter):
        return
    for group in results.groups():
        for result in group.results:
            if result.summary:
                name = Task(result.recipe, note=group.differs).name
                log_summary(reporter, name, result.summary)
    for item in rendered.values():
        for captioned in getattr(item, "figures", ()):
            reporter.logger.figure(captioned.name, captioned.figure)


@dataclass
class TensorBoardLogger:
    """A folder of event files, one for each run; figures are in `figures`."""

    place: str = ""
    writers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError("log tensorboard needs TensorBoard: pip install 'calmix[tensorboard]'") from None
        self.make: Any = SummaryWriter
        self.folder = Path(self.place) if self.place else FOLDER

    def _writer(self, run: str) -> Any:
        if run not in self.writers:
            self.writers[run] = self.make(str(self.folder / _file_name(run)))
        return self.writers[run]

    def scalars(self, run: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer(run).add_scalar(name, value, step)

    def final(self, run: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer(run).add_scalar(f"final/{name}", value, 0)

    def figure(self, name: str, figure: "Figure") -> None:
        self._writer("figures").add_figure(name, figure, close=False)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


@dataclass
class MLflowLogger:
    """An experiment `calmix` of MLflow, a run of it for each of ours; figures are artifacts of `figures`."""

    place: str = ""
    runs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            from mlflow.tracking import MlflowClient  # type: ignore[import-untyped,import-not-found,unused-ignore]
        except Exception as error:  # old releases fail in other ways than ImportError beside new libraries
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(
                "log mlflow needs MLflow: pip install 'calmix[mlflow]' (mlflow-skinny is enough); "
                f"importing it gave {reason}"
            ) from None
        address, artifacts = self._places()
        try:
            self.client: Any = MlflowClient(address)
            experiment = self.client.get_experiment_by_name(EXPERIMENT)
            self.experiment: str = (
                experiment.experiment_id
                if experiment
                else self.client.create_experiment(EXPERIMENT, artifact_location=artifacts)
            )
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"log mlflow:{self.place} cannot be opened: {reason}") from None

    def _places(self) -> tuple[str | None, str | None]:
        """Addresses of the tracking store and of artifacts; a folder holds a database and the artifacts."""
        if not self.place or "://" in self.place:
            return self.place or None, None
        folder = Path(self.place).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{folder / 'mlflow.db'}", (folder / "artifacts").as_uri()

    def _run(self, run: str) -> str:
        if run not in self.runs:
            made = self.client.create_run(self.experiment, tags={"mlflow.runName": run})
            self.runs[run] = made.info.run_id
        return self.runs[run]

    def scalars(self, run: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self._run(run), name, value, step=step)

    def final(self, run: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self._run(run), f"final_{name}", value)

    def figure(self, name: str, figure: "Figure") -> None:
        self.client.log_figure(self._run("figures"), figure, f"{name}.png")

    def close(self) -> None:
        for run in self.runs.values():
            self.client.set_terminated(run)


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}


def _file_name(run: str) -> str:
    """
    >>> _file_name("mnist deep mixup, alpha 0.2 seed 0")
    'mnist-deep-mixup-alpha-0.2-seed-0'
    """
    return re.sub(r"[^\w.+]+", "-", run).strip("-")
