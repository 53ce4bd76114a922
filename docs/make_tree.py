"""Write README.md's file tree anew: a line for each file, which is the first paragraph of its docstring.

python docs/make_tree.py
"""

import ast
from pathlib import Path

from tests.test_rooms import HOUSE, ROOMS

README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- tree -->\n```\n", "```\n<!-- end of tree -->"


def tree() -> str:
    """Rooms in their order, each with its files."""
    lines = ["src/calmix/"]
    for room in ROOMS:
        path = HOUSE / f"{room}.py"
        if path.exists():
            lines.append(line(path, depth=1))
            continue
        lines.append(f"  {room + '/':<24}{sentence(HOUSE / room / '__init__.py')}")
        lines += [line(p, depth=2) for p in sorted((HOUSE / room).glob("*.py")) if p.stem != "__init__"]
    lines.append(f"{'tests/':<26}mirrors src/calmix")
    lines.append(f"{'benchmarks/':<26}each hot path beside its limit or a public peer: make bench")
    lines.append(f"{'docs/':<26}log.md: questions; results.md: the paper on a laptop; scale.md: on a cluster")
    return "\n".join(lines) + "\n"


def line(path: Path, depth: int) -> str:
    return f"{'  ' * depth + path.name:<26}{sentence(path)}"


def sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ").removesuffix(".")


def main() -> None:
    before, rest = README.read_text().split(START)
    README.write_text(before + START + tree() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
