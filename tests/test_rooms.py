"""Data walks through calmix one way: a room imports only from the rooms above it."""

import ast
from pathlib import Path

import calmix

ROOMS = [
    *("version", "errors", "seeds", "files", "memory", "progress", "prediction_files", "predictions"),
    *("metrics", "calibrate", "ensembles", "models", "augment", "corruptions", "data", "recipe", "presets"),
    *("run_folder", "build", "checkpoint", "predict", "train", "launch", "evaluate", "audit", "report"),
    *("paper", "cli", "__main__"),
]
HOUSE = Path(calmix.__file__).parent


def room_of(module: str) -> str | None:
    """`calmix.metrics.errors` -> `metrics`; None for anything outside the house and for the house itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "calmix" and len(parts) > 1 else None


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def test_every_room_is_listed():
    files = {p.stem for p in HOUSE.glob("*.py")} - {"__init__"}
    names = files | {p.parent.name for p in HOUSE.glob("*/__init__.py")}
    assert names <= set(ROOMS), f"not in the list of rooms: {sorted(names - set(ROOMS))}"


def test_imports_go_one_way():
    wrong = []
    for path in HOUSE.rglob("*.py"):
        inside = path.relative_to(HOUSE).with_suffix("").parts
        if inside == ("__init__",):
            continue
        for module in imports(path):
            room = room_of(module)
            if room in ROOMS and ROOMS.index(room) > ROOMS.index(inside[0]):
                wrong.append(f"{'/'.join(inside)} imports {module}")
            if module.split(".")[0] == "calmix" and room not in ROOMS:
                wrong.append(
                    f"{'/'.join(inside)} imports {module}, which is no room: name the file it comes from"
                )
    assert not wrong, "\n".join(wrong)
