"""The fenced blocks of the documents, and how each of them is run.

A comment before a block says it: `file: NAME` saves the block in the folder of its page's session,
`run by: TEST` names the test that runs it, `not run: REASON` says why none does. A block without a
comment is run by its language: `sh` in the session of its page, `sql` on a ledger, `yaml` is read
as definitions. A `text` block is what something looks like.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_PLACES: Final = ("*.md", ".github/*.md", "bench/*.md", "docs/**/*.md", "examples/*/*.md")
PAGES: Final = sorted(str(path.relative_to(ROOT)) for each in _PLACES for path in ROOT.glob(each))
BY_LANGUAGE: Final = frozenset({"sh", "sql", "text", "yaml"})
"""Languages whose blocks are run without a comment."""

_BLOCK: Final = re.compile(
    r"^(?: *<!-- (?P<comment>.*?) -->\n)?(?P<indent> *)```(?P<language>\S*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its page, line, language and text, and what its comment says of it."""

    page: str
    line: int
    language: str
    text: str
    how: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run_by_language(self) -> bool:
        return not self.how.keys() & {"run by", "not run"}


@cache
def blocks_of(page: str, run_by: str | None = None) -> tuple[Block, ...]:
    """Return the blocks of a page, or those that name a test, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = tuple(
        Block(
            page,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            dict(re.findall(r"(file|run by|not run): ([^;]+)", found["comment"] or "")),
        )
        for found in _BLOCK.finditer(text)
    )
    return tuple(each for each in blocks if run_by in {None, each.how.get("run by")})


def all_blocks() -> Iterator[Block]:
    """Yield every block of every page."""
    for page in PAGES:
        yield from blocks_of(page)
