"""HTML that cannot be injected into: text is escaped unless it is markup that was built here."""

import html
from collections.abc import Mapping


class Html(str):
    """Markup that is safe to put on a page."""

    __slots__ = ()


def tag(name: str, attributes: Mapping[str, str] | None = None, *children: str) -> Html:
    """An element; attributes and plain strings are escaped, `Html` is not.

    >>> tag("p", {"class": "x"}, "1 < 2 ", tag("b", None, "<script>"))
    '<p class="x">1 &lt; 2 <b>&lt;script&gt;</b></p>'
    """
    said = "".join(f' {key}="{html.escape(value)}"' for key, value in (attributes or {}).items())
    return Html(f"<{name}{said}>{join(*children)}</{name}>")


def join(*parts: str) -> Html:
    """Parts one after the other, what is not markup escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in parts))
