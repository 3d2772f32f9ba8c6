"""Check the built site of the documents: its links, and that nothing is of another host."""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOADED: Final = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""What a browser loads by itself, by element."""

_OTHER_HOST: Final = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s)\"']+")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src"):
            if name in values:
                self.links.append((tag, values[name]))


def findings(site: Path) -> Iterator[str]:
    """Yield one line for each link that leads nowhere, and for each thing of another host."""
    for path in sorted(site.rglob("*.css")):
        for found in _OTHER_HOST.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {found[0]} is loaded from elsewhere"
    pages = {path: _read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    for path, page in pages.items():
        for tag, link in page.links:
            where = f"{path.relative_to(site)}: {link}"
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if tag in LOADED and parts.scheme != "data":
                    yield f"{where} is loaded from elsewhere"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where} does not exist"
            elif target in pages and unquote(parts.fragment) not in {"", *pages[target].ids}:
                yield f"{where} has no such heading"


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def main() -> int:
    """Print what was found; 1 if anything was."""
    found = list(findings(Path(sys.argv[1]).resolve()))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
