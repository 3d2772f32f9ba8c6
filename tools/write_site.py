"""Write the pages of the site of the documents into a folder, from which mkdocs builds it.

The folder has the places of the repository, so that a link leads to the same file in both: README
and `docs`, each file that one of their pages links to, and the reference that is made of the code.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from tools.check_docs import FENCE, LINK
from tools.reference_pages import reference_pages

ROOT: Final = Path(__file__).resolve().parent.parent

_ENTRY: Final = re.compile(r"^- \[(.*?)\]\((.*?)\): ", re.MULTILINE)
_OTHERS: Final = (
    {"Contributing": "CONTRIBUTING.md"},
    {"Changes": "CHANGELOG.md"},
    {"Security": "SECURITY.md"},
)
_COMMENT: Final = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_OPENING: Final = re.compile(
    r"(?<=[^\n|])\n(?=\|)|^(?![-*|\d ]).+\n(?=(?:[-*]|\d+\.) )", re.MULTILINE
)
"""The end of a paragraph before a table or a list: mkdocs needs an empty line there."""


def write_site(site: Path) -> None:
    """Write the configuration of mkdocs, every page and what it links to, over what was there."""
    folder = site / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(path for path in (ROOT / "docs").rglob("*") if path.is_file()),
    ]
    written: set[Path] = set()
    while pages:
        page = pages.pop()
        place = folder / page.relative_to(ROOT)
        if page in written:
            continue
        written.add(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            text = page.read_text(encoding="utf-8")
            place.write_text(page_of(text), encoding="utf-8")
            pages += _linked(page, text)
        else:
            shutil.copyfile(page, place)
    reference = folder / "docs" / "reference"
    reference.mkdir()
    for name, text in reference_pages().items():
        (reference / name).write_text(text, encoding="utf-8")
    configuration = {"INHERIT": "../../mkdocs.yml", "docs_dir": "pages", "nav": navigation()}
    (site / "mkdocs.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")


def navigation() -> list[object]:
    """Return the sections of docs/README.md with their pages, and the reference in the last."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    sections: dict[str, list[dict[str, str]]] = {}
    for section in index.split("\n## ")[1:]:
        entries = _ENTRY.findall(section)
        sections[section.partition("\n")[0]] = [{title: f"docs/{name}"} for title, name in entries]
    for name, text in reference_pages().items():
        title = text.partition("\n")[0].removeprefix("# ")
        sections["Reference"].append({title: f"docs/reference/{name}"})
    first = [{"Dueledger": "README.md"}, {"Documents": "docs/README.md"}]
    return [*first, *({title: pages} for title, pages in sections.items()), *_OTHERS]


def page_of(text: str) -> str:
    """Return a page as mkdocs reads it, so that it shows what GitHub shows."""
    blocks = (found[0] for found in FENCE.finditer(text))
    prose = _COMMENT.sub("", FENCE.sub("\0", text))
    prose = _OPENING.sub(lambda found: found[0].rstrip("\n") + "\n\n", prose)
    return re.sub("\0", lambda _: next(blocks), prose)


def _linked(page: Path, text: str) -> Iterator[Path]:
    """Yield the files of the repository to which a page links."""
    for found in LINK.finditer(FENCE.sub("", text)):
        name = (found[1] or found[2]).partition("#")[0]
        if name and ":" not in name:
            target = (page.parent / name).resolve()
            if target.is_file() and target.is_relative_to(ROOT):
                yield target


if __name__ == "__main__":
    write_site(Path(sys.argv[1]).resolve())
