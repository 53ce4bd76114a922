"""`docs/benchmarks.md`: the machine, and a section with a table for each benchmark."""

import ast
import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import LONG, NAMES, machine
from benchmarks.timing import Row, number
from calmix import files

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
INTRODUCTION = """# Benchmarks

`make bench` (`python -m benchmarks`) writes this page, in less than six minutes on two idle cores. `--full`
measures more, and names on the command line measure and replace only their sections. Where nothing else is
said, a number is CPU time of one thread, the best of several interleaved repeats. What matters are the
ratios: both sides are measured in the same run. "Before" is the value of a row before it was worked on.
"""


@dataclass
class Section:
    """What a benchmark has measured so far, and why there is no more."""

    name: str
    content: list[Row | str] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""

    @property
    def rows(self) -> list[Row]:
        return [part for part in self.content if isinstance(part, Row)]

    @property
    def ok(self) -> bool:
        return not self.failure and all(row.within_limit for row in self.rows)

    @property
    def description(self) -> str:
        """The docstring of the benchmark's module, which is not imported for it."""
        source = Path(__file__).with_name(f"{self.name}.py").read_text()
        return ast.get_docstring(ast.parse(source)) or ""

    def markdown(self) -> str:
        """A heading, what is measured, when and on what, the table, and further text."""
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        where = f"*{date}, {self.seconds:.0f} s, {machine.processor()}.*"
        parts = [f"## {self.name}", self.description, where]
        if self.failure:
            parts.append(f"**Not complete:** {self.failure}")
        if self.rows:
            parts.append(table(self.rows))
        parts += [part for part in self.content if isinstance(part, str)]
        return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Row]) -> str:
    """Rows in Markdown; a column of earlier values where any row has one."""
    earlier = any(row.before is not None for row in rows)
    names = ["measured", "value", "unit", "limit", "", *(["before"] if earlier else [])]
    lines = [names, ["---", "---:", "---", "---", "---", *(["---:"] if earlier else [])]]
    for row in rows:
        result = f"**{row.result}**" if row.result == "exceeded" else row.result
        name = row.name.lstrip()
        indent = "&emsp;" * ((len(row.name) - len(name)) // 2)
        cells = [indent + name.replace("|", "\\|"), number(row.value), row.unit, row.limit, result]
        lines.append(cells + ([number(row.before) if row.before is not None else ""] if earlier else []))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def update(sections: Sequence[Section], path: Path = PAGE) -> None:
    """Replace these sections of the page, and what it says of the machine; other sections stay."""
    text = path.read_text() if path.exists() else ""
    stored = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE))
    bodies = {name: f"## {name}\n{body}" for name, body in stored.items()}
    bodies |= {section.name: section.markdown() for section in sections}
    kept = [bodies[name].strip() for name in (*NAMES, *LONG) if name in bodies]
    lines = "\n".join(f"- {line}" for line in machine.describe())
    parts = [INTRODUCTION.strip(), f"Last run:\n\n{lines}", summary(kept), *kept]
    with files.replacing(path) as file:
        file.write(("\n\n".join(parts) + "\n").encode())


def summary(sections: Sequence[str]) -> str:
    """How many limits hold, and which do not, over all sections of the page."""
    held, missed = 0, []
    for text in sections:
        name = text.splitlines()[0].removeprefix("## ")
        held += text.count(" | ok |")
        above = ""  # the row that those indented below it belong to
        for line in text.splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
            what = cells[0].removeprefix("&emsp;")
            indented = what != cells[0]
            above = above if indented else what
            if "**exceeded**" in line:
                what = f"{above}, {what}" if indented else what
                missed.append(f"- {name}: {what}: {cells[1]} {cells[2]} ({cells[3]})")
            if line.startswith("**Not complete:**"):
                missed.append(f"- {name}: not complete")
    return "\n".join([f"Limits kept: {held}; exceeded or not complete: {len(missed)}.", "", *missed]).strip()
