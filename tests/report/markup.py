"""A page read as markup: whole, self-contained, and with nothing to run but its own two scripts."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "path", "use", "rect", "image", "circle", "input"}


class Checker(HTMLParser):
    """Finds elements that are not closed in order, what a page would load, and what it would run."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.scripts, self.handlers, self.ids = [], [], 0, [], []

    def handle_starttag(self, tag, attributes):
        self.scripts += tag == "script"
        for name, value in attributes:
            if name.startswith("on"):
                self.handlers.append(name)
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "action", "srcset") and not value.startswith(
                ("#", "data:")
            ):
                self.loads.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def check(text):
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.loads == []
    assert checker.handlers == []
    assert checker.scripts == 2  # the template's
    assert len(checker.ids) == len(set(checker.ids))
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    return text
