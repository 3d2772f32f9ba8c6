"""The statements in ``sql/statements``: their text and their headers."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

SQL_ROOT: Final = Path(__file__).resolve().parents[2] / "sql"
_NAMES: Final[dict[str, str]] = {}
_PARAMETER: Final = re.compile(r"^-- \$(\d+) (\w+) (.+)$")


@dataclass(frozen=True, slots=True)
class StatementParameter:
    """One ``$n`` of a statement, as its header names it."""

    name: str
    type_name: str


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A statement with its header.

    `indexes` are those it must use; `locks` is prose; each of `roles` alone may run it.
    """

    name: str
    text: str
    sentence: str
    returns: str
    roles: tuple[str, ...]
    parameters: tuple[StatementParameter, ...]
    indexes: tuple[str, ...]
    locks: str


@cache
def statement(name: str) -> str:
    """Return the text of the statement of that name, with its comments.

    Its file is in a folder of ``sql/statements``. Names are unique across folders.
    """
    text = _paths()[name].read_text(encoding="utf-8")
    _NAMES[text] = name
    return text


def name_of(text: str) -> str:
    """Return the name of a statement that was read; `other` for any other text."""
    return _NAMES.get(text, "other")


@cache
def _paths() -> dict[str, Path]:
    return {path.stem: path for path in statement_paths()}


def statement_paths() -> list[Path]:
    """Return the files of all statements, sorted by name."""
    return sorted((SQL_ROOT / "statements").rglob("*.sql"), key=lambda path: path.stem)


def parse_statement(path: Path) -> SqlStatement:
    """Parse a statement's header. Raises ValueError with the missing line. Tests use it."""
    name, text = path.stem, path.read_text(encoding="utf-8")
    header = [line for line in text.splitlines() if line.startswith("-- ")]
    parameters: list[StatementParameter] = []
    for line in header:
        if found := _PARAMETER.match(line):
            number, parameter, type_name = found.groups()
            if int(number) != len(parameters) + 1:
                message = f"{name}: ${number} is out of order"
                raise ValueError(message)
            parameters.append(StatementParameter(parameter, type_name.strip()))
    indexes = _field(name, header, "index")
    return SqlStatement(
        name=name,
        text=text,
        sentence=header[0].removeprefix("-- "),
        returns=_field(name, header, "returns"),
        roles=tuple(_field(name, header, "roles").split(", ")),
        parameters=tuple(parameters),
        indexes=() if indexes == "none" else tuple(indexes.split(", ")),
        locks=_field(name, header, "locks"),
    )


def _field(name: str, header: list[str], field: str) -> str:
    for line in header:
        if line.startswith(f"-- {field}: "):
            return line.removeprefix(f"-- {field}: ").strip()
    message = f"{name}: the header lacks `{field}:`"
    raise ValueError(message)
