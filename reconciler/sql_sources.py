"""Sources in Postgres: populations and evidence, by queries of their owners.

The addresses of sources are secrets: no error, log or report has them.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Final, cast
from uuid import UUID

import asyncpg

from dueledger.ledger.errors import shown_value
from dueledger.reconciler.population_rows import (
    OPTIONAL_TEXTS,
    POPULATION_COLUMNS,
    impossible_reason,
    population_row,
)
from dueledger.reconciler.sources import (
    EvidenceQuery,
    ListedEffect,
    PopulationBounds,
    PopulationRow,
    SourceFailed,
    SourceTotals,
)

ROWS_MAX: Final = 20_000_000
BYTES_MAX: Final = 8_589_934_592
"""What is read of a population unless its source says otherwise."""

_ROWS_A_READ: Final = 5_000
_ROWS_FIRST_READ: Final = 100
_BYTES_A_READ: Final = 16_777_216
_REASON_CHARS_MAX: Final = 500
_CONNECT_SECONDS: Final = 15
_STATEMENT_SECONDS: Final = 600
_EVIDENCE_KEYS: Final = ("business_key", "cycle", "effective_date")
_FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
# What a value raises that Python cannot represent: a date of the year 20000 or before Christ, bytes
# that are not UTF-8, an interval of 178 million years.
_UNREADABLE: Final = (asyncpg.InternalClientError, ArithmeticError, RecursionError, ValueError)

EvidenceKey = bytes | tuple[str, ...]
"""An item's id, or the texts of business key, cycle and effective date, as far as given."""


@dataclass(frozen=True, slots=True)
class SqlPopulation:
    """A query on the domain's database.

    Its rows give tenant, kind, business_key, cycle, effective_date (date), due_at (timestamptz),
    and, for items that a repair may emit, payload (JSON as text) and partition_key. Read once a
    pass, through a cursor in a read-only transaction. With a `tenant`, each row is of it and of one
    of the `kinds`, or the source fails.
    """

    dsn: str = field(repr=False)
    query: str
    name: str = "population"
    complete: bool = False
    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    tenant: str | None = None
    kinds: frozenset[str] = frozenset()
    bounds: PopulationBounds = field(default_factory=PopulationBounds)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the query."""
        return _digest(self.query)

    @property
    def named_kinds(self) -> frozenset[tuple[str, str]] | None:
        """Return the tenants and kinds that its rows may have; None if it does not say."""
        if self.tenant is None:
            return None
        return frozenset((self.tenant, kind) for kind in self.kinds)

    async def read(self, extract: SourceTotals) -> AsyncIterator[Sequence[PopulationRow]]:
        """Yield the rows in chunks, counting what is read and what had to be skipped and why.

        A row that no ledger could have fails the source, and so do more rows or bytes than it may
        have: what is not known must not count as not owed.
        """
        async with _connected(self.name, self.dsn) as connection:
            extract.extracted_at = await connection.fetchval("select statement_timestamp()")
            prepared = await connection.prepare(self.query)
            columns = {attribute.name for attribute in prepared.get_attributes()}
            if lacking := POPULATION_COLUMNS - columns:
                raise SourceFailed(self.name, f"its rows lack {', '.join(sorted(lacking))}")
            named = sorted(columns & (POPULATION_COLUMNS | set(OPTIONAL_TEXTS)))
            # The operator's own query; its other columns are not read.
            cursor = await (
                await connection.prepare(
                    f"select {', '.join(named)} from ({_inner(self.query)}\n) as population"  # noqa: S608
                )
            ).cursor()
            named_kinds = self.named_kinds
            counted = _ReadBounds(self.name, self.rows_max, self.bytes_max)
            while records := await cursor.fetch(counted.next_rows):
                counted.add(records)
                rows: list[PopulationRow] = []
                for record in records:
                    row = population_row(record, columns)
                    if isinstance(row, str):
                        extract.skipped[row] += 1
                        continue
                    if reason := impossible_reason(row):
                        raise SourceFailed(self.name, reason)
                    if named_kinds is not None and (row.tenant, row.kind) not in named_kinds:
                        shown = f"{shown_value(row.kind)} of {shown_value(row.tenant)}"
                        reason = f"a row is {shown}, which its `tenant` and `kinds` do not name"
                        raise SourceFailed(self.name, reason)
                    extract.add(row.id)
                    rows.append(row)
                yield rows


@dataclass(frozen=True, slots=True)
class SqlEvidence:
    """A query on the domain's database for the rule "Completed of `kind` requires evidence".

    Its rows give `reference` (null is no evidence) and either item_id or business_key, the latter
    with cycle and effective_date where one key has several. Only rows of the items in question
    are read, so an index on that column is used. If it is `complete`, all its rows are also read
    once a pass, through a cursor: each is the effect of an item that is completed.
    """

    dsn: str = field(repr=False)
    query: str
    tenant: str
    kind: str
    name: str = "evidence"
    after_seconds: float = 0.0
    complete: bool = False
    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    bounds: PopulationBounds = field(default_factory=PopulationBounds)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the query."""
        return _digest(self.query)

    async def find_lacking(
        self, wanted: Sequence[EvidenceQuery], extract: SourceTotals
    ) -> list[EvidenceQuery]:
        """Return those of `wanted` without evidence."""
        async with _connected(self.name, self.dsn) as connection:
            extract.extracted_at = await connection.fetchval("select statement_timestamp()")
            columns = await self._columns(connection)
            by_id = "item_id" in columns
            # The operator's own query, narrowed to the keys asked about, which are a parameter.
            prepared = await connection.prepare(
                f"select * from ({_inner(self.query)}\n) as evidence "  # noqa: S608
                f"where evidence.{'item_id' if by_id else 'business_key'} = any($1)"
            )
            given = _given(columns)
            shown: set[EvidenceKey] = set()
            keys = _keys(wanted, by_id=by_id, type_name=prepared.get_parameters()[0].name)
            cursor = await prepared.cursor(keys)
            while records := await cursor.fetch(_ROWS_A_READ):
                for record in records:
                    if record["reference"] is None:
                        extract.skipped["reference is null"] += 1
                        continue
                    key = _shown_key(record, given, by_id=by_id)
                    extract.add(key if isinstance(key, bytes) else _short_hash(key))
                    shown.add(key)
            return [item for item in wanted if _wanted_key(item, given, by_id=by_id) not in shown]

    async def list_effects(self, extract: SourceTotals) -> AsyncIterator[Sequence[ListedEffect]]:
        """Yield all effects, each item once with the number of its rows, in chunks."""
        async with _connected(self.name, self.dsn) as connection:
            extract.extracted_at = await connection.fetchval("select statement_timestamp()")
            columns = await self._columns(connection)
            given = ["item_id"] if "item_id" in columns else [*_given(columns)]
            keys = ", ".join(f"evidence.{name}" for name in given)
            # The operator's own query, grouped by what names an item.
            cursor = await (
                await connection.prepare(
                    f"select {keys}, count(*) as rows, min(evidence.reference::text) as least "  # noqa: S608
                    f"from ({_inner(self.query)}\n) as evidence "
                    f"where evidence.reference is not null group by {keys}"
                )
            ).cursor()
            counted = _ReadBounds(self.name, self.rows_max, self.bytes_max)
            while records := await cursor.fetch(counted.next_rows):
                counted.add(records)
                effects: list[ListedEffect] = []
                for record in records:
                    effect = _effect(record, given)
                    if effect is None:
                        extract.skipped[f"{' or '.join(given)} is null or of another type"] += 1
                        continue
                    extract.add(_short_hash((effect.name,)))
                    effects.append(effect)
                yield effects

    async def _columns(self, connection: "asyncpg.Connection[asyncpg.Record]") -> set[str]:
        """Return the columns of its rows. Raises SourceFailed if some are lacking."""
        prepared = await connection.prepare(self.query)
        columns = {attribute.name for attribute in prepared.get_attributes()}
        if "reference" not in columns or not columns & {"item_id", "business_key"}:
            raise SourceFailed(
                self.name, "its rows lack reference, or both item_id and business_key"
            )
        return columns


@dataclass(slots=True)
class _ReadBounds:
    """Counts what was read of a population, and how many rows the next read may have.

    A read has about 16 MB: a few rows of a payload each, or thousands without.
    """

    name: str
    rows_max: int
    bytes_max: int
    rows: int = 0
    bytes: int = 0
    next_rows: int = _ROWS_FIRST_READ

    def add(self, records: Sequence[asyncpg.Record]) -> None:
        """Count rows. Raises SourceFailed beyond the bounds."""
        self.rows += len(records)
        self.bytes += sum(
            len(value) if isinstance(value, str) else 8
            for record in records
            for value in cast("Iterable[object]", record.values())
        )
        for count, count_max, unit in (
            (self.rows, self.rows_max, "rows"),
            (self.bytes, self.bytes_max, "bytes"),
        ):
            if count > count_max:
                reason = f"it has more than the {count_max:,} {unit} that `{unit}_max` allows"
                raise SourceFailed(self.name, reason)
        fitting = _BYTES_A_READ * self.rows // self.bytes
        self.next_rows = max(1, min(fitting, _ROWS_A_READ, 2 * self.next_rows))


def _given(columns: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(name for name in _EVIDENCE_KEYS if name in columns)


def _effect(record: asyncpg.Record, given: Sequence[str]) -> ListedEffect | None:
    """Return the effect, or None if its row does not name an item."""
    values = {name: record[name] for name in given}
    counts = {"count": record["rows"], "reference": record["least"]}
    if "item_id" in values:
        try:
            identity = UUID(str(values["item_id"]))
        except ValueError:
            return None
        return ListedEffect(identity, None, None, None, **counts)
    key, cycle, day = (values.get(name) for name in _EVIDENCE_KEYS)
    if key is None or None in values.values() or not isinstance(day, date | None):
        return None
    return ListedEffect(None, str(key), None if cycle is None else str(cycle), day, **counts)


def _inner(query: str) -> str:
    """Return a query as it is written within another one."""
    return query.rstrip().rstrip(";")


def _keys(
    wanted: Sequence[EvidenceQuery], *, by_id: bool, type_name: str
) -> list[str] | list[UUID]:
    if not by_id:
        return sorted({item.business_key for item in wanted})
    ids = [UUID(bytes=item.id) for item in wanted]
    return ids if type_name.startswith("uuid") else [str(identity) for identity in ids]


def _shown_key(record: asyncpg.Record, given: tuple[str, ...], *, by_id: bool) -> EvidenceKey:
    if by_id:
        value = record["item_id"]
        return value.bytes if isinstance(value, UUID) else UUID(str(value)).bytes
    return tuple(str(record[name]) for name in given)


def _wanted_key(item: EvidenceQuery, given: tuple[str, ...], *, by_id: bool) -> EvidenceKey:
    if by_id:
        return item.id
    texts = {
        "business_key": item.business_key,
        "cycle": item.cycle,
        "effective_date": item.effective_date.isoformat(),
    }
    return tuple(texts[name] for name in given)


@asynccontextmanager
async def _connected(name: str, dsn: str) -> "AsyncGenerator[asyncpg.Connection[asyncpg.Record]]":
    """Open one read-only transaction on the source; an error in it raises SourceFailed.

    So does a value that cannot be read: asyncpg converts rows when they are fetched.
    """
    try:
        connection = await asyncpg.connect(
            dsn,
            timeout=_CONNECT_SECONDS,
            server_settings={
                "application_name": "dueledger-reconciler",
                "statement_timeout": f"{_STATEMENT_SECONDS}s",
            },
        )
    except _FAILURES as error:
        raise SourceFailed(name, _reason(error)) from None
    except ValueError:  # as of a host's name that is none
        raise SourceFailed(name, "its address is not valid") from None
    try:
        async with connection.transaction(readonly=True):
            yield connection
    except _FAILURES as error:
        raise SourceFailed(name, _reason(error)) from None
    except _UNREADABLE as error:
        raise SourceFailed(name, f"a value cannot be read: {_first_line(error)}") from None
    finally:
        connection.terminate()


def _reason(error: BaseException) -> str:
    """Return the reason without the address."""
    match error:
        case asyncpg.ClientConfigurationError():
            return "its address is not valid"
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return "it refused the credentials"
        case asyncpg.PostgresError():
            return _first_line(error)
        case TimeoutError():
            return "it did not answer in time"
        case OSError():
            return f"it cannot be reached ({type(error).__name__})"
        case _:
            return f"the connection failed ({type(error).__name__})"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:_REASON_CHARS_MAX] or type(error).__name__


def _digest(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()


def _short_hash(key: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\x1f".join(key).encode()).digest()[:8]
