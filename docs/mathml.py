"""Hook of the site: formulas between dollar signs become MathML, which browsers draw without a script."""

import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r"```.*?```|`[^`\n]*`|\$\$(.+?)\$\$|(?<![\w\\$])\$([^$\n]+?)\$(?![\w$])", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return FORMULA.sub(_replace, markdown)


def _replace(match: re.Match[str]) -> str:
    if match[1]:
        return str(convert(match[1].strip(), display="block"))
    return str(convert(match[2])) if match[2] else match[0]
