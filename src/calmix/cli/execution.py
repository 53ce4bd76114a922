"""Flags of commands that train many runs: where, and how many at once."""

from dataclasses import dataclass
from typing import Literal

from calmix.progress import Reporter
from calmix.study.executors import Executor, ProcessExecutor, SerialExecutor
from calmix.study.tasks import Context


@dataclass(frozen=True)
class Execution:
    """Where to train, and how many runs at once."""

    jobs: int = 2
    """Processes of this machine that train at once, one thread each."""
    on: Literal["here", "ray"] = "here"
    """Where to train: on this machine, or on a Ray cluster."""
    address: str | None = None
    """Ray: the cluster's address; by default RAY_ADDRESS, and without it a cluster of this machine alone."""
    cpus: float = 1.0
    """Ray: CPUs for each task."""
    gpus: float = 0.0
    """Ray: GPUs for each task; a fraction shares one."""
    pull: bool = False
    """Ray: the workers do not share the folder of runs: copy each run to its worker and back."""

    def executor(self, context: Context, reporter: Reporter) -> Executor:
        if self.on == "ray":
            from calmix.study.ray import RayExecutor

            return RayExecutor(
                context, reporter, address=self.address, cpus=self.cpus, gpus=self.gpus, pull=self.pull
            )
        if self.jobs == 1:
            return SerialExecutor(context, reporter)
        return ProcessExecutor(context, reporter, jobs=self.jobs)
