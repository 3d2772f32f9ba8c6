"""Sources in Postgres: populations and evidence, by queries of their owners.

The addresses of sources are secrets: no error, log or report has them.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final, TypeAlias, cast
from uuid import UUID

import asyncpg

from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
from dueledger.ledger.store import is_lost
from dueledger.reconciler.evidence_rows import (
    EvidenceKey,
    effect_of,
    key_of_item,
    naming_columns,
    short_hash,
)
from dueledger.reconciler.population_rows import (
    OPTIONAL_COLUMNS,
    POPULATION_COLUMNS,
    usable_rows,
)
from dueledger.reconciler.sources import (
    BYTES_MAX,
    ROWS_MAX,
    DeclaredPopulation,
    EvidenceQuery,
    ListedEffect,
    PopulationBounds,
    PopulationRow,
    SourceFailed,
    SourceTotals,
)
from dueledger.reconciler.windows import split_by_month

_ROWS_A_READ: Final = 5_000
_ROWS_FIRST_READ: Final = 100
_BYTES_A_READ: Final = 16_777_216
_REASON_CHARS_MAX: Final = 500
_CONNECT_SECONDS: Final = 15
_STATEMENT_SECONDS: Final = 600
_FAILURES: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
# What a value raises that Python cannot represent: a date of the year 20000 or before Christ, bytes
# that are not UTF-8, an interval of 178 million years.
_UNREADABLE: Final = (asyncpg.InternalClientError, ArithmeticError, RecursionError, ValueError)

_SourceConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
_Dates = tuple[date, date]


@dataclass(frozen=True, slots=True)
class SqlPopulation(DeclaredPopulation):
    """A query on the domain's database.

    Its rows give tenant, kind, business_key, cycle, effective_date (date) and due_at (timestamptz),
    and may give payload (JSON as text), start_by and complete_by (timestamptz), which are compared
    with those of the item, partition_key for items that a repair may emit, and ended, true for an
    item that is not owed any more. Read once a pass, through a cursor in a read-only transaction.
    """

    dsn: str = field(repr=False)
    query: str
    name: str = "population"

    @property
    def origin(self) -> str:
        """Return what it is in reports."""
        return "sql"

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the query."""
        return _digest(self.query)

    async def read(self, extract: SourceTotals) -> AsyncIterator[Sequence[PopulationRow]]:
        """Yield the rows in chunks, counting what is read and what had to be skipped and why.

        A row that no ledger could have fails the source, and so do more rows or bytes than it may
        have: what is not known must not count as not owed.
        """
        async with _connected(self.name, self.dsn) as connection, _snapshot(connection):
            extract.extracted_at = await connection.fetchval("select statement_timestamp()")
            prepared = await connection.prepare(self.query)
            columns = {attribute.name for attribute in prepared.get_attributes()}
            if lacking := POPULATION_COLUMNS - columns:
                raise SourceFailed(self.name, f"its rows lack {', '.join(sorted(lacking))}")
            named = sorted(columns & (POPULATION_COLUMNS | OPTIONAL_COLUMNS.keys()))
            # The operator's own query; its other columns are not read.
            cursor = await (
                await connection.prepare(
                    f"select {', '.join(named)} from ({_inner(self.query)}\n) as population"  # noqa: S608
                )
            ).cursor()
            counted = _ReadBounds(self.name, self.rows_max, self.bytes_max)
            while records := await cursor.fetch(counted.next_rows):
                counted.add(records)
                yield usable_rows(self.name, records, columns, self.named_kinds, extract)


@dataclass(frozen=True, slots=True)
class SqlEvidence:
    """A query on the domain's database for the rule "Completed of `kind` requires evidence".

    Its rows give `reference` (null is no evidence) and either item_id or business_key, the latter
    with cycle and effective_date where one key has several. Only rows of the items in question
    are read, so an index on that column is used. If it is `complete`, all its rows are also read
    once a pass, through cursors: each is the effect of an item that is completed. Where they have
    the effective date of their item, they are read by month.
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
        async with _connected(self.name, self.dsn) as connection, _snapshot(connection):
            extract.extracted_at = await connection.fetchval("select statement_timestamp()")
            naming = naming_columns(self.name, await self._columns(connection))
            # The operator's own query, narrowed to the keys asked about, which are a parameter.
            prepared = await connection.prepare(
                f"select * from ({_inner(self.query)}\n) as evidence "  # noqa: S608
                f"where evidence.{naming[0]} = any($1)"
            )
            shown: set[EvidenceKey] = set()
            keys = _keys(wanted, naming, type_name=prepared.get_parameters()[0].name)
            cursor = await prepared.cursor(keys)
            while records := await cursor.fetch(_ROWS_A_READ):
                for record in records:
                    if record["reference"] is None:
                        extract.skipped["reference is null"] += 1
                        continue
                    key = _shown_key(record, naming)
                    extract.add(key if isinstance(key, bytes) else short_hash(key))
                    shown.add(key)
            return [item for item in wanted if key_of_item(item, naming) not in shown]

    async def list_effects(
        self, extract: SourceTotals, from_date: date, to_date: date
    ) -> AsyncIterator[Sequence[ListedEffect]]:
        """Yield the effects, each item once with the number of its rows, in chunks.

        Rows with an effective date are read by its months, each in a snapshot of its own; others
        whole, in one.
        """
        async with _connected(self.name, self.dsn) as connection:
            extract.extracted_at = await connection.fetchval("select statement_timestamp()")
            columns = await self._columns(connection)
            naming = naming_columns(self.name, columns)
            counted = _ReadBounds(self.name, self.rows_max, self.bytes_max)
            dates: Sequence[_Dates | None] = [None]
            if "effective_date" in columns:
                dates = await self._months(connection, extract, from_date, to_date)
            for period in dates:
                async with _snapshot(connection):
                    prepared = await connection.prepare(self._grouped(naming, period))
                    cursor = await prepared.cursor(*(period or ()))
                    while records := await cursor.fetch(counted.next_rows):
                        counted.add(records)
                        yield _effects(records, naming, extract)

    async def _columns(self, connection: _SourceConnection) -> set[str]:
        prepared = await connection.prepare(self.query)
        return {attribute.name for attribute in prepared.get_attributes()}

    async def _months(
        self, connection: _SourceConnection, extract: SourceTotals, from_date: date, to_date: date
    ) -> list[_Dates]:
        """Return the months in the range from the first effective date to the last."""
        async with _snapshot(connection):
            # The operator's own query.
            found = await connection.fetchrow(
                "select min(evidence.effective_date) filter (where possible) as first, "  # noqa: S608
                "max(evidence.effective_date) filter (where possible) as last, "
                "count(*) filter (where possible is not true) as impossible "
                f"from ({_inner(self.query)}\n) as evidence, lateral (select "
                "evidence.effective_date >= $1::date and evidence.effective_date < $2::date) "
                "as judged (possible) where evidence.reference is not null",
                DUE_MIN.date(),
                DUE_END.date(),
            )
        if found is None:
            return []
        if found["impossible"]:
            reason = f"effective_date is null or outside {DUE_MIN.year} to {DUE_END.year - 1}"
            extract.skipped[reason] += found["impossible"]
        first, last = found["first"], found["last"]
        if first is None:
            return []
        if isinstance(first, datetime) or not isinstance(first, date):
            raise SourceFailed(self.name, "its effective_date is not a date")
        end = min(last + timedelta(days=1), to_date)
        return list(split_by_month(max(first, from_date), end))

    def _grouped(self, naming: Sequence[str], dates: _Dates | None) -> str:
        """Return the operator's own query, grouped by what names an item, of a range of dates."""
        keys = ", ".join(f"evidence.{name}" for name in naming)
        narrowed = "and evidence.effective_date >= $1 and evidence.effective_date < $2"
        return (
            f"select {keys}, count(*) as rows, min(evidence.reference::text) as least "  # noqa: S608
            f"from ({_inner(self.query)}\n) as evidence "
            f"where evidence.reference is not null {narrowed if dates else ''} group by {keys}"
        )


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


def _effects(
    records: Iterable[asyncpg.Record], naming: Sequence[str], extract: SourceTotals
) -> list[ListedEffect]:
    """Return the effects of rows, counting them and those that name no item."""
    effects: list[ListedEffect] = []
    for record in records:
        values = {name: record[name] for name in naming}
        effect = effect_of(values, record["rows"], record["least"])
        if effect is None:
            extract.skipped[f"{' or '.join(naming)} is null or of another type"] += 1
            continue
        extract.add(short_hash((effect.name,)))
        effects.append(effect)
    return effects


def _inner(query: str) -> str:
    """Return a query as it is written within another one."""
    return query.rstrip().rstrip(";")


def _keys(
    wanted: Sequence[EvidenceQuery], naming: tuple[str, ...], *, type_name: str
) -> list[str] | list[UUID]:
    if naming != ("item_id",):
        return sorted({item.business_key for item in wanted})
    ids = [UUID(bytes=item.id) for item in wanted]
    return ids if type_name.startswith("uuid") else [str(identity) for identity in ids]


def _shown_key(record: asyncpg.Record, naming: tuple[str, ...]) -> EvidenceKey:
    if naming == ("item_id",):
        value = record["item_id"]
        return value.bytes if isinstance(value, UUID) else UUID(str(value)).bytes
    return tuple(str(record[name]) for name in naming)


@asynccontextmanager
async def _connected(name: str, dsn: str) -> "AsyncGenerator[_SourceConnection]":
    """Connect to the source; an error in what is done with it raises SourceFailed.

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
        yield connection
    except _FAILURES as error:
        raise SourceFailed(name, _reason(error)) from None
    except _UNREADABLE as error:
        if is_lost(connection):
            raise SourceFailed(name, _reason(error)) from None
        raise SourceFailed(name, f"a value cannot be read: {_first_line(error)}") from None
    finally:
        connection.terminate()


@asynccontextmanager
async def _snapshot(connection: _SourceConnection) -> AsyncGenerator[None]:
    """Read in a transaction of its own that can write nothing."""
    async with connection.transaction(readonly=True):
        yield


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
