"""What a benchmark ran on: processor, memory, load and versions, without the name of the machine."""

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = (
    *("calmix", "torch", "numpy", "scipy", "opencv-python-headless", "pillow"),
    *("torchmetrics", "pandas", "pyarrow"),
)


def processor() -> str:
    """The model of the processor, as Linux names it.

    >>> "\\n" in processor()
    False
    """
    return _value(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine()


def describe() -> list[str]:
    """Lines on the hardware, the load, and the versions."""
    affinity = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    memory = _value(Path("/proc/meminfo"), "MemTotal").split()
    gigabytes = f", {int(memory[0]) / 2**20:.1f} GiB of memory" if memory else ""
    versions = [f"Python {platform.python_version()}", *(_version(name) for name in PACKAGES)]
    return [
        f"{processor()}, {len(affinity(0))} cores{gigabytes}, {platform.system()}",
        f"Load at the start (processes that ran or waited, mean of a minute): {load():.1f}",
        ", ".join(version for version in versions if version),
    ]


def load() -> float:
    """How many processes ran or waited over the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _value(path: Path, name: str) -> str:
    if path.exists():
        for line in path.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return ""
