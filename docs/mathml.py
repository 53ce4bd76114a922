"""Hook of the site: formulas between dollar signs become MathML, which browsers draw without a script.

They pass through Markdown as plain words, so that it neither reads their underscores nor breaks their lines.
"""

import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r"```.*?```|`[^`\n]*`|\$\$(.+?)\$\$|(?<![\w\\$])\$([^$]+?)\$(?![\w$])", re.DOTALL)
PLACE = re.compile(r"MATHML(\d+)FORMULA")
# What the converter leaves to mend: letters of a name one by one, names as operators, a tilde, bars too high.
TIDY = (
    (re.compile(r'<mrow>((?:<mi mathvariant="normal">\w</mi>)+)</mrow>'), lambda m: _name(m[1])),
    (re.compile(r"<mo>([A-Za-z]{2,})</mo>"), lambda m: _name(m[1])),
    (re.compile("<mi>&#x0007E;</mi>"), lambda _: "<mo>&#x0223C;</mo>"),
    (re.compile("<mover>"), lambda _: '<mover accent="true">'),
)
_formulas: list[str] = []


def on_page_markdown(markdown: str, **_: Any) -> str:
    return FORMULA.sub(_replace, markdown)


def on_page_content(html: str, **_: Any) -> str:
    return PLACE.sub(lambda match: _formulas[int(match[1])], html)


def _replace(match: re.Match[str]) -> str:
    """A displayed formula is cut where it has a `\\quad`: on a narrow screen its parts stand in lines."""
    latex = match[1] or match[2]
    if not latex:
        return match[0]
    if match[1]:
        parts = (_convert(part, "block") for part in re.split(r"\\q?quad", latex))
        _formulas.append(f'<span class="formulas">{"".join(parts)}</span>')
    else:
        _formulas.append(_convert(latex, "inline"))
    return f"MATHML{len(_formulas) - 1}FORMULA"


def _convert(latex: str, display: str) -> str:
    mathml = str(convert(" ".join(latex.split()), display=display))
    for pattern, mend in TIDY:
        mathml = pattern.sub(mend, mathml)
    return mathml


def _name(letters: str) -> str:
    return f"<mi>{re.sub('<.*?>', '', letters)}</mi>"
