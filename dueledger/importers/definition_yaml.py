"""Definitions as YAML that people can change, and that parses to the same definitions."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import yaml

from dueledger.importers.import_result import ImportedJob
from dueledger.ledger.errors import InvalidInput, Problem, UnreadableFile
from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text
from dueledger.ledger.visible_text import visible_lines

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[./-][A-Za-z0-9_]+)*", re.ASCII)
_WORDS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_UNSAFE_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_WIDTH: Final = 100_000  # no text is folded: a command stays on one line
_PROBLEMS_MAX: Final = 10


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's own interface
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote text that YAML 1.1, YAML 1.2 or a person could read as something else."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    style = None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _text)


def definition_text(job: ImportedJob) -> str:
    """Return one definition as a YAML document, its description in a comment above.

    Every text but the plainest is in double quotes, where YAML has an escape for each character
    that cannot be seen.
    """
    description = job.known.description or ""
    comment = "".join(f"# {line}\n" for line in description.splitlines() if line.isprintable())
    return comment + document_text(job.document)


def document_text(document: Mapping[str, object]) -> str:
    """Return a document of a definition as YAML."""
    body: str = yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=_WIDTH,
    )
    return visible_lines(body)


def definitions_text(jobs: Iterable[ImportedJob]) -> str:
    """Return all of them as one stream, for `dueledger define`."""
    return "---\n".join(definition_text(job) for job in jobs)


def write_definitions(jobs: Iterable[ImportedJob], folder: Path) -> list[Path]:
    """Write a file for each; write none if one would overwrite a changed file.

    Raises InvalidInput then, and if the folder cannot be made or written to.
    """
    texts: dict[Path, str] = {}
    for job in jobs:
        name = _UNSAFE_IN_NAMES.sub(".", job.definition.definition).strip(".") or "definition"
        path = folder / f"{name}.yaml"
        if path in texts:
            raise _refused(path, "two definitions would have this name", "separate output folders")
        texts[path] = definition_text(job)
    try:
        _check_unchanged(texts)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_bytes(text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise _refused(Path(error.filename or folder), reason, "another folder") from None
    return list(texts)


def _check_unchanged(texts: Mapping[Path, str]) -> None:
    changed = [path for path, text in texts.items() if path.exists() and not _has(path, text)]
    if changed:
        problems = [
            Problem(str(path), "", "exists with other content", "another folder")
            for path in changed[:_PROBLEMS_MAX]
        ]
        raise InvalidInput(
            f"{len(changed)} files exist with other content; none was written:", problems
        )


def _has(path: Path, text: str) -> bool:
    try:
        return read_text(path, DEFINITION_BYTES_MAX) == text
    except UnreadableFile:  # a pipe, a folder
        return False


def _refused(path: Path, reason: str, accepted: str) -> InvalidInput:
    return InvalidInput(
        "The definitions cannot be written:", [Problem(str(path), "", reason, accepted)]
    )
