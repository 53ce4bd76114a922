"""Write README.md's map of packages: the layers, and a line for each package from its docstring.

python -m docs.make_map
"""

import ast
from pathlib import Path

from tests.test_layers import LAYERS, SOURCE

README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- map -->\n```\n", "```\n<!-- end of map -->"


def package_map() -> str:
    """Layers from the lowest up, each with its packages."""
    lines = []
    for title, names in LAYERS.items():
        lines.append(title)
        packages = [name for name in names if (SOURCE / name / "__init__.py").exists()]
        lines += [f"  {name + '/':<18}{first_paragraph(SOURCE / name / '__init__.py')}" for name in packages]
    return "\n".join(lines) + "\n"


def first_paragraph(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ").removesuffix(".")


def main() -> None:
    before, rest = README.read_text().split(START)
    README.write_text(before + START + package_map() + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
