"""Check that one word means one thing: class names, glossary terms, and words that are not used.

`docs/glossary.md` is the list of words. A class name of the product or of `bench` has one
definition; a term of the glossary has one row; names, docstrings and comments, those of tests too,
do not use the words below.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
GLOSSARY: Final = ROOT / "docs" / "glossary.md"
PRODUCT: Final = ("allocator", "dueledger", "ledger", "reconciler", "workers")
NAMED: Final = (*PRODUCT, "bench")
"""The folders among which a class name is unique."""
READ: Final = (*NAMED, "tests", "tools")
"""The folders whose names, docstrings and comments are read."""

NAME_WORDS: Final[Mapping[str, str]] = {
    "bottom": "floor",
    "crew": "handler pool",
    "crews": "handler pools",
    "foreman": "listener",
    "footing": "connections",
    "gist": "summary",
    "hand": "the thing itself",
    "hands": "claims",
    "lapse": "missed range",
    "lapses": "missed ranges",
    "look": "poll",
    "office": "state",
    "outlook": "poller",
    "room": "capacity",
    "rotation": "flow queue",
    "rulebook": "rules in force",
    "shelf": "cache",
    "spoken": "the text",
    "standing": "state",
    "story": "transitions",
    "stories": "transitions",
    "stretch": "claim slice, window",
    "stretches": "claim slices, windows",
    "tell": "return, describe",
    "tenure": "lease",
    "told": "cached, given",
    "track": "claim loop",
    "wall": "database clock",
    "whence": "source",
}
"""Parts of names that are not used, each with what is written in its place."""

PROSE: Final[Mapping[str, str]] = {
    r"bears?": "has",
    r"became of": "the result, the state",
    r"bury|buried": "close",
    r"crews?": "handler pool",
    r"foreman": "listener",
    r"footing": "connections",
    r"hand on it": "operator",
    r"outlook": "poller",
    r"rulebook": "rules in force",
    r"shelf": "cache",
    r"stands? for": "means, is",
    r"stands? under": "uses",
    r"stories|story": "transitions, history",
    r"stretch(?:es)?": "claim slice, window",
    r"tells of": "describes",
    r"told": "given, reported",
    r"whence": "from which",
    r"whoever": "the process, login or session that",
    r"whose they become": "the tenant that owns them",
}
"""Words that docstrings and comments do not use, each with what is written in its place."""

_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _files(folder: str, pattern: str) -> list[Path]:
    return sorted((ROOT / folder).rglob(pattern))


def _trees(folders: tuple[str, ...]) -> Iterator[tuple[Path, str, ast.Module]]:
    for folder in folders:
        for path in _files(folder, "*.py"):
            text = path.read_text(encoding="utf-8")
            yield path, text, ast.parse(text, str(path))


def _where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _repeated_classes() -> Iterator[str]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, _, tree in _trees(NAMED):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(_where(path, node.lineno))
    for name, found in places.items():
        if len(found) > 1:
            yield f"{found[1]}: a second class {name}; the first is at {found[0]}"


def _terms(line: str) -> Iterator[str]:
    cell = line.split("|")[1].strip()
    for term in re.sub(r"\(.*?\)", "", cell).split("/"):
        yield term.strip()


def _rows() -> Iterator[tuple[int, str]]:
    """Yield the rows of the glossary's tables, each with its line number."""
    for number, line in enumerate(GLOSSARY.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("| ") and not line.startswith(("| term |", "|---")):
            yield number, line


def _repeated_terms() -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, line in _rows():
        for term in _terms(line):
            if term in seen:
                yield f"{_where(GLOSSARY, number)}: {term} has a row already, line {seen[term]}"
            seen.setdefault(term, number)


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module gives, not those that it takes from libraries."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case _:
                pass


def _prose(text: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield docstrings, those of constants too, and comments."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield node.lineno, docstring
            case _:
                pass
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _unused_words(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    for line, name in _names(tree):
        for part in map(str.lower, _PART.findall(name)):
            if part in NAME_WORDS:
                yield f"{_where(path, line)}: {name}: not {part}, but {NAME_WORDS[part]}"
    for line, prose in _prose(text, tree):
        for pattern, better in PROSE.items():
            for match in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE):
                at = line + prose.count("\n", 0, match.start())
                yield f"{_where(path, at)}: not “{match.group()}”, but {better}"


def _unused_terms() -> Iterator[str]:
    """Yield the terms of the glossary that neither the product nor its SQL uses."""
    files = [path for folder in PRODUCT for path in _files(folder, "*.py")]
    files += _files("sql", "*.sql")
    text = " ".join(path.read_text(encoding="utf-8") for path in files).lower()
    words = " ".join(_PART.findall(text.replace("_", " ")))
    for number, line in _rows():
        for term in _terms(line):
            plain = " ".join(_PART.findall(term.lower()))
            if plain and plain not in words:
                yield f"{_where(GLOSSARY, number)}: nothing uses the term {term}"


def _old_words_of_texts() -> Iterator[str]:
    """Yield refused words in documents, outside of code, and in comments of SQL."""
    documents = [
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "asyncapi.yaml"),
        *(ROOT / "docs").rglob("*.md"),
    ]
    for path in documents:
        if path == GLOSSARY:  # it lists the refused words
            continue
        text = re.sub(r"```.*?```", _blank, path.read_text(encoding="utf-8"), flags=re.DOTALL)
        yield from _old_words(path, re.sub(r"`[^`\n]*`", "", text))
    for path in _files("sql", "*.sql"):
        comments = re.sub(
            r"^(?!\s*--|comment on |\s*').*$", "", path.read_text("utf-8"), flags=re.MULTILINE
        )
        yield from _old_words(path, comments)


def _blank(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


def _old_words(path: Path, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, better in PROSE.items():
            for match in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE):
                yield f"{_where(path, number)}: not “{match.group()}”, but {better}"


def findings() -> Iterator[str]:
    """Yield one line for each word in the wrong place."""
    yield from _repeated_classes()
    yield from _repeated_terms()
    yield from _unused_terms()
    yield from _old_words_of_texts()
    for path, text, tree in _trees(READ):
        yield from _unused_words(path, text, tree)


def main() -> int:
    """Print what was found; 1 if anything was."""
    found = list(findings())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
