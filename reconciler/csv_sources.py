"""Sources in CSV files (RFC 4180, UTF-8, with a header): populations and evidence.

A file is believed wholly or not at all: one that is cut off, or changes while it is read, fails.
"""

import asyncio
import csv
import hashlib
import io
import os
import stat
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

from dueledger.reconciler.evidence_rows import (
    EvidenceKey,
    effect_of,
    key_of_effect,
    key_of_item,
    naming_columns,
    short_hash,
)
from dueledger.reconciler.population_rows import POPULATION_COLUMNS, usable_rows
from dueledger.reconciler.sources import (
    BYTES_MAX,
    DeclaredPopulation,
    EvidenceQuery,
    ListedEffect,
    PopulationBounds,
    PopulationRow,
    SourceFailed,
    SourceTotals,
)

EVIDENCE_ROWS_MAX: Final = 2_000_000
"""Rows of evidence that are kept while the process runs, unless the source says otherwise."""
_ROWS_A_READ: Final = 5_000
_TRUTH: Final[dict[str, bool]] = {"true": True, "false": False}
_FIELD_CHARS_MAX: Final = 1_048_576
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # no wait for a writer

_FileState = tuple[int, ...]
_Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class CsvPopulation(DeclaredPopulation):
    """A file that says what is owed; its columns are those of a query for a population.

    An empty field is null, of `cycle` the empty text. Instants have an offset.
    """

    path: Path
    name: str

    @property
    def origin(self) -> str:
        """Return what it is in reports."""
        return "csv"

    @property
    def digest(self) -> None:
        """Return None: the digest of what was read is in its totals."""
        return

    async def read(self, extract: SourceTotals) -> AsyncIterator[Sequence[PopulationRow]]:
        """Yield the rows in chunks. Raises SourceFailed, also after the last of them."""
        with _opened(self.name, self.path, self.rows_max, self.bytes_max, extract) as file:
            if lacking := POPULATION_COLUMNS - file.columns:
                raise SourceFailed(self.name, f"its rows lack {', '.join(sorted(lacking))}")
            while rows := list(islice(file.rows, _ROWS_A_READ)):
                for row in rows:
                    _read_population_values(row)
                yield usable_rows(self.name, rows, file.columns, self.named_kinds, extract)
                await asyncio.sleep(0)


@dataclass(slots=True)
class CsvEvidence:
    """A file for the rule "Completed of `kind` requires evidence", with the columns of a query.

    It is read again when it has changed. How often each item has an effect is kept.
    """

    path: Path
    tenant: str
    kind: str
    name: str = "evidence"
    after_seconds: float = 0.0
    complete: bool = False
    rows_max: int = EVIDENCE_ROWS_MAX
    bytes_max: int = BYTES_MAX
    bounds: PopulationBounds = field(default_factory=PopulationBounds)
    _state: _FileState | None = None
    _totals: SourceTotals = field(default_factory=SourceTotals)
    _naming: tuple[str, ...] = ()
    _effects: dict[EvidenceKey, tuple[int, str]] = field(
        default_factory=dict[EvidenceKey, tuple[int, str]]
    )

    @property
    def digest(self) -> str | None:
        """Return the SHA-256 of the file as it was read last."""
        return self._totals.digest

    async def find_lacking(
        self, wanted: Sequence[EvidenceQuery], extract: SourceTotals
    ) -> list[EvidenceQuery]:
        """Return those of `wanted` without evidence."""
        await self._read(extract)
        return [item for item in wanted if key_of_item(item, self._naming) not in self._effects]

    async def list_effects(
        self, extract: SourceTotals, from_date: date, to_date: date
    ) -> AsyncIterator[Sequence[ListedEffect]]:
        """Yield the effects in chunks; those with a date in the range, where rows have one."""
        await self._read(extract)
        effects = (self._effect(key, *counted) for key, counted in self._effects.items())
        listed = (
            each
            for each in effects
            if each.effective_date is None or from_date <= each.effective_date < to_date
        )
        while chunk := list(islice(listed, _ROWS_A_READ)):
            yield chunk

    def _effect(self, key: EvidenceKey, count: int, reference: str) -> ListedEffect:
        if isinstance(key, bytes):
            return ListedEffect(UUID(bytes=key), None, None, None, count, reference)
        texts = dict(zip(self._naming, key, strict=True))
        day = texts.get("effective_date")
        return ListedEffect(
            None,
            texts["business_key"],
            texts.get("cycle"),
            date.fromisoformat(day) if day else None,
            count,
            reference,
        )

    async def _read(self, extract: SourceTotals) -> None:
        """Read the file if it is not the one that was read, and copy its totals."""
        state = _state_of_path(self.name, self.path)
        if state != self._state:
            self._state = None
            totals = SourceTotals()
            with _opened(self.name, self.path, self.rows_max, self.bytes_max, totals) as file:
                self._naming = naming_columns(self.name, file.columns)
                self._effects = {}
                while rows := list(islice(file.rows, _ROWS_A_READ)):
                    self._keep(rows, totals)
                    await asyncio.sleep(0)
            self._totals, self._state = totals, state
        if breach := self.bounds.breach(self._totals, None):
            raise SourceFailed(self.name, breach)
        extract.copy(self._totals)

    def _keep(self, rows: Sequence[_Row], totals: SourceTotals) -> None:
        for row in rows:
            if not (reference := row["reference"]):
                continue  # no evidence
            values = {name: row[name] for name in self._naming}
            if values.get("business_key") == "":
                values["business_key"] = None
            if "effective_date" in values:
                values["effective_date"] = _date_of(values["effective_date"])
            effect = effect_of(values, 1, str(reference))
            if effect is None:
                columns = " or ".join(self._naming)
                totals.skipped[f"{columns} is null or of another type"] += 1
                continue
            key = key_of_effect(effect)
            totals.add(key if isinstance(key, bytes) else short_hash(key))
            count, least = self._effects.get(key, (0, effect.reference))
            self._effects[key] = count + 1, min(least, effect.reference)


@dataclass(frozen=True, slots=True)
class _CsvRows:
    """The names of a file's columns, and its rows."""

    columns: frozenset[str]
    rows: Iterator[_Row]


class _DigestedFile(io.RawIOBase):
    """The first bytes of a file, read once, with the digest of what was read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.digest = hashlib.sha256()
        self._descriptor = descriptor
        self._bytes_left = size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Read the next bytes."""
        block = os.read(self._descriptor, min(len(buffer), self._bytes_left))
        self._bytes_left -= len(block)
        self.digest.update(block)
        buffer[: len(block)] = block
        return len(block)


@contextmanager
def _opened(
    name: str, path: Path, rows_max: int, bytes_max: int, extract: SourceTotals
) -> Generator[_CsvRows]:
    """Open a file; at the end check that it did not change. An error in it raises SourceFailed."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise SourceFailed(name, f"its file cannot be read: {error.strerror}") from None
    try:
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):
            raise SourceFailed(name, "it is not a file")
        if opened.st_size > bytes_max:
            reason = f"it has more than the {bytes_max:,} bytes that `bytes_max` allows"
            raise SourceFailed(name, reason)
        extract.extracted_at = _instant_of(name, opened.st_mtime)
        file = _DigestedFile(descriptor, opened.st_size)
        text = io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8-sig", newline="")
        csv.field_size_limit(_FIELD_CHARS_MAX)
        records = csv.reader(text, strict=True)
        header = next(records, list[str]())
        if len(set(header)) < len(header):
            raise SourceFailed(name, "two of its columns have one name")
        yield _CsvRows(frozenset(header), _rows_of(name, header, records, rows_max))
        if _state_of(opened) != _state_of_path(name, path):
            raise SourceFailed(name, "its file changed while it was read")
        extract.digest = file.digest.hexdigest()
    except csv.Error as error:
        raise SourceFailed(name, f"its file is not CSV, or cut off: {error}") from None
    except UnicodeDecodeError:
        raise SourceFailed(name, "its file is not UTF-8") from None
    except OSError as error:
        raise SourceFailed(name, f"its file cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _rows_of(
    name: str,
    header: Sequence[str],
    records: "Iterator[list[str]]",
    rows_max: int,
) -> Iterator[_Row]:
    """Yield the rows, each with all columns, to the end of the file."""
    for number, record in enumerate(records, 1):
        if not record:
            continue  # an empty line
        if number > rows_max:
            reason = f"it has more than the {rows_max:,} rows that `rows_max` allows"
            raise SourceFailed(name, reason)
        if len(record) != len(header):
            reason = f"row {number:,} has {len(record)} fields and the header {len(header)}"
            raise SourceFailed(name, f"{reason}: its file is cut off, or a quote is missing")
        yield dict(zip(header, record, strict=True))


def _instant_of(name: str, seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise SourceFailed(name, "its file was changed at no time that a ledger has") from None


def _state_of(found: os.stat_result) -> _FileState:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _state_of_path(name: str, path: Path) -> _FileState:
    try:
        return _state_of(path.stat())
    except OSError as error:
        raise SourceFailed(name, f"its file cannot be read: {error.strerror}") from None


def _read_population_values(row: _Row) -> None:
    """Read the texts of a row: empty ones are null, dates and instants are such."""
    for name, value in row.items():
        if value == "" and name != "cycle":
            row[name] = None
    row["effective_date"] = _date_of(row["effective_date"])
    if isinstance(ended := row.get("ended"), str):
        row["ended"] = _TRUTH.get(ended, ended)
    if isinstance(due_at := row["due_at"], str):
        row["due_at"] = _instant_of_text(due_at)
    for name in ("start_by", "complete_by"):
        if isinstance(text := row.get(name), str):
            row[name] = _instant_of_text(text) or text  # one that is none is not usable


def _instant_of_text(text: str) -> datetime | None:
    """Return the instant of a text, or None where it has none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _date_of(value: object) -> date | None:
    """Return the date of a text, or None where it has none."""
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        return None
