"""Extension of the API reference: examples in docstrings (`>>>`) become blocks of code.

Docstrings are read as Markdown, where three angle brackets would be a quotation within quotations.
"""

import re
from typing import Any

from griffe import Class, Extension, Function, Module

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


class FencedExamples(Extension):
    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if isinstance(obj, (Class, Function, Module)) and obj.docstring:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    """Put every run of lines that starts with `>>>`, up to the next blank line, between fences.

    >>> print(fence("Add.").replace("`", "'"))
    Add.
    """
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
