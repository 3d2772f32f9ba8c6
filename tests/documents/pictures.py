"""The pictures of the console in the documents: the pages that they show, and their words."""

import re
from html.parser import HTMLParser
from pathlib import Path

from tests.document_blocks import ROOT

FOLDER = ROOT / "docs" / "pictures"
WORDS = Path(__file__).with_name("words_of_pictures.json")
"""The words of each picture, as they were when it was taken."""
PICTURES = {
    "console": "/console/",
    "console-item": "/console/items?kind=InvoiceDue&state=ManualReview",
    "console-schedule": "/console/schedules/acme/nightly-close",
    "console-flow": "/console/flows/umbra/PaymentDue?lane=north",
}
"""Pages by the pictures of them; of a list of items, its last item."""
_VOID = {"br", "hr", "img", "input", "link", "meta", "rect"}
_NAMING = {"h2", "h3", "th", "dt", "summary", "button", "caption", "label"}
_NAMING_CLASSES = {"badge", "empty", "label", "legend", "note"}
_OF_ITEMS = {"tbody", "time", "code"}
_OF_ITEMS_CLASSES = {"exact", "strip", "timeline"}
_UNITS = {"ms", "s", "min", "h", "d", "ago"}


def words_of(page: str) -> list[str]:
    """Return the words that name things on a page: no numbers, times, keys, or cells of tables."""
    reader = _Reader()
    reader.feed(page)
    return sorted(reader.words)


def last_item_of(page: str) -> str:
    """Return where the heading of the last row of a list leads."""
    return re.findall(r'scope="row"[^>]*>\s*<a href="([^"]+)"', page)[-1].replace("&amp;", "&")


class _Reader(HTMLParser):
    """Collects the words in `main` of elements that name things."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()
        self._open: list[tuple[str, set[str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._open.append((tag, set((dict(attrs).get("class") or "").split())))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        tags = {tag for tag, _ in self._open}
        classes = set[str]().union(*(names for _, names in self._open))
        names_it = tags & _NAMING or classes & _NAMING_CLASSES
        if "main" in tags and names_it and not (tags & _OF_ITEMS or classes & _OF_ITEMS_CLASSES):
            words = [each for each in data.split() if not re.search(r"\d", each)]
            kept = " ".join(each for each in words if each.strip(".,;") not in _UNITS)
            if re.search(r"[a-z]", kept, re.IGNORECASE):
                self.words.add(kept)
