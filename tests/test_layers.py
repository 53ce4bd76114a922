"""Five layers: a package imports from its own layer or below, never from above."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import calmix

LAYERS = {
    "parts: pure functions and modules": (
        *("version", "interrupts", "errors", "seeds", "memory", "files", "locks", "threads", "workers"),
        *("progress", "records"),
        *("prediction_files", "predictions", "metrics", "calibrate", "ensembles", "models", "augment"),
        *("corruptions", "sources", "data", "predictor"),
    ),
    "one run": ("runs",),
    "many runs": ("study",),
    "judge and show": ("auditing", "report"),
    "the paper": ("paper",),
    "entry points": ("integrations", "cli", "__main__"),
}
SOURCE = Path(calmix.__file__).parent
ORDER = {name: place for place, names in enumerate(LAYERS.values()) for name in names}
PARTS = next(iter(LAYERS.values()))
FUNCTIONS = (
    *("audit", "compare", "corrupt", "pool", "plot_reliability", "predict"),
    *("iter_predictions", "load_predictions", "save_predictions"),
    *("fit_temperature", "fit_calibrator", "load_calibrator", "fit_conformal"),
    *("train", "evaluate", "load_runs", "sweep"),
)


def package_of(module):
    """`calmix.metrics.errors` -> `metrics`; None for anything outside calmix."""
    parts = module.split(".")
    return parts[1] if parts[0] == "calmix" and len(parts) > 1 else None


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_package_has_a_layer():
    files = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    names = files | {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert names <= set(ORDER), f"in no layer: {sorted(names - set(ORDER))}"


def test_imports_go_down():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).with_suffix("").parts
        if inside == ("__init__",):
            continue
        for module in imports(path):
            package = package_of(module)
            if package is None:
                continue
            below = ORDER.get(package, 99) <= ORDER[inside[0]]
            if package in PARTS and inside[0] in PARTS:
                below = PARTS.index(package) <= PARTS.index(inside[0])
            if not below:
                wrong.append(f"{'/'.join(inside)} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_stay_functions(name):
    """Whatever was imported before: no package or module hides them."""
    code = (
        f"import calmix; assert callable(calmix.{name})\n"
        "import calmix.auditing, calmix.runs.evaluate, calmix.corruptions, calmix.cli.compare\n"
        "import calmix.cli.audit, calmix.cli.train\n"
        f"assert callable(calmix.{name}) and type(calmix.{name}).__name__ == 'function'"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
