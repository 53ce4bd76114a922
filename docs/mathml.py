"""Hook of the site: formulas between dollar signs become MathML, which browsers draw without a script.

They pass through Markdown as plain words, so that it neither reads their underscores nor breaks their lines.
"""

import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r"```.*?```|`[^`\n]*`|\$\$(.+?)\$\$|(?<![\w\\$])\$([^$]+?)\$(?![\w$])", re.DOTALL)
PLACE = re.compile(r"MATHML(\d+)FORMULA")
_formulas: list[str] = []


def on_page_markdown(markdown: str, **_: Any) -> str:
    return FORMULA.sub(_replace, markdown)


def on_page_content(html: str, **_: Any) -> str:
    return PLACE.sub(lambda match: _formulas[int(match[1])], html)


def _replace(match: re.Match[str]) -> str:
    latex = match[1] or match[2]
    if not latex:
        return match[0]
    display = "block" if match[1] else "inline"
    _formulas.append(str(convert(" ".join(latex.split()), display=display)))
    return f"MATHML{len(_formulas) - 1}FORMULA"
