"""Check that tracked text works in any clone.

Links in Markdown must lead to a file and a heading that exist, and one whose text is the name of a
page to that page. A path in backticks that begins with
a folder of the code must exist, and so must a test that is named there. No tracked file may name an
absolute path of somebody's machine or the host of a package index: such a lock or script works for
one person only.
"""

import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from fnmatch import filter as matching
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|!\[[^\]]*\]\(([^)\s]+)\)")
_NAMED_PAGE: Final = re.compile(r"\[`?([\w./-]+\.md)`?\]")
"""The text of a link that is the name of a page."""
FENCE: Final = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_ANCHOR: Final = re.compile(r'<a\s+(?:id|name)="([^"]+)"')

# A path from the root of the repository, as `ledger/states.py`; globs are matched.
_CODE_PATH: Final = re.compile(
    r"`((?:allocator|bench|examples|ledger|reconciler|sql|tests|tools|workers)/[\w./*-]+)`"
)
# A test by its whole name, or several as `test_hostile_*`.
_TEST: Final = re.compile(r"`(test_[\w*]+)`")
_TEST_FUNCTION: Final = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
_HISTORY: Final = frozenset({"CHANGELOG.md"})
"""It has names of their time, which may no longer exist."""

# A folder of one machine, not of every one: /etc and /usr/bin/env are everywhere.
_MACHINE_PATH: Final = re.compile(r"(?<![\w.~$}/-])/(?:home|root|Users|work)/[A-Za-z0-9_.]")
_INDEX_HOST: Final = re.compile(
    r"\b(?:[\w-]+\.)*(?:pypi|python\w*host\w*|npm\w*|maven\w*|registry)(?:\.[\w-]+)*\.(?:org|com|io)\b"
    r"|https?://\S+/(?:simple|maven2)\b|index.url[ =]+\S*://",
)


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the developer's own git
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None  # binary


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def _anchors(text: str) -> set[str]:
    slugs: set[str] = set(_ANCHOR.findall(text))
    counts: dict[str, int] = {}
    for heading in _HEADING.findall(FENCE.sub("", text)):
        slug = _slug(heading)
        seen = counts.get(slug, 0)
        counts[slug] = seen + 1
        slugs.add(f"{slug}-{seen}" if seen else slug)
    return slugs


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())  # keeps line numbers


def broken_links(path: Path, text: str) -> Iterator[str]:
    """Yield one line for each link of a page that leads nowhere, or not to the page it names."""
    prose = _CODE.sub(_blank, FENCE.sub(_blank, text))
    for match in LINK.finditer(prose):
        link = match.group(1) or match.group(2)
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # another site; its answers are not checked
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        where = f"{path.relative_to(ROOT)}:{_line(text, match.start())}"
        named = _NAMED_PAGE.match(text, match.start())
        if named and Path(named.group(1)).name != target.name:
            yield f"{where}: the text names {named.group(1)}, the link leads to {link}"
        if not target.is_relative_to(ROOT) or not target.exists():
            yield f"{where}: {link} does not exist in this repository"
        elif (
            anchor and target.suffix == ".md" and anchor not in _anchors(target.read_text("utf-8"))
        ):
            yield f"{where}: {link}: {name or path.name} has no heading #{anchor}"


def _missing_paths(path: Path, text: str) -> Iterator[str]:
    for match in _CODE_PATH.finditer(FENCE.sub(_blank, text)):
        if not any(ROOT.glob(match.group(1).rstrip("/"))):
            where = f"{path.relative_to(ROOT)}:{_line(text, match.start())}"
            yield f"{where}: {match.group(1)} is not a file of this repository"


def _test_names() -> set[str]:
    texts = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    return {name for text in texts for name in _TEST_FUNCTION.findall(text)}


def _missing_tests(path: Path, text: str, names: Collection[str]) -> Iterator[str]:
    for match in _TEST.finditer(FENCE.sub(_blank, text)):
        if not matching(names, match.group(1)):
            where = f"{path.relative_to(ROOT)}:{_line(text, match.start())}"
            yield f"{where}: {match.group(1)} is not a test of this repository"


def _matches(path: Path, text: str, pattern: re.Pattern[str], what: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        yield f"{path.relative_to(ROOT)}:{_line(text, match.start())}: {what}: {match.group()}"


def findings() -> Iterator[str]:
    """Yield one line for each thing that would not work in another clone."""
    test_names = _test_names()
    for path in _tracked():
        text = _text(path)
        if text is None:
            continue
        if path.suffix == ".md":
            yield from broken_links(path, text)
            if path.name not in _HISTORY:
                yield from _missing_paths(path, text)
                yield from _missing_tests(path, text, test_names)
        if path != Path(__file__).resolve():
            yield from _matches(path, text, _MACHINE_PATH, "a path of one machine")
            yield from _matches(path, text, _INDEX_HOST, "the address of a package index")


def main() -> int:
    """Print what was found; 1 if anything was."""
    found = list(findings())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
