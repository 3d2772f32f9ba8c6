"""The databases and the load of a benchmark, and the times of the items' steps."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.items import Accounting
from dueledger.ledger.store.statements import statement

_STATEMENTS: Final = Path(__file__).resolve().parent / "statements"
PATIENCE_SECONDS: Final = 3600.0
"""How long one statement may take that reads or settles all of a large measurement."""


@cache
def bench_statement(name: str) -> str:
    """Return the text of a statement of the benchmarks."""
    return (_STATEMENTS / f"{name}.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times between the steps of completed items; at least one is."""

    items: int
    first_claimed_at: datetime
    last_completed_at: datetime
    claims: int
    runs: int
    milliseconds: dict[str, dict[str, float]]

    @property
    def seconds(self) -> float:
        """The time from the first claim to the last completion."""
        return (self.last_completed_at - self.first_claimed_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Lag:
    """How long after their time items were started, of those started in one window of time."""

    bucket: int
    items: int
    p50_milliseconds: float
    p99_milliseconds: float
    max_milliseconds: float
    early: int


async def emit_now(
    connection: Connection, tenant: str, kind: str, business_key: str, payload: str
) -> None:
    """Emit one item that is due now."""
    day = date(2027, 3, 1)
    await connection.fetchval(bench_statement("emit_now"), tenant, kind, business_key, day, payload)


@dataclass(frozen=True, slots=True)
class TableGrowth:
    """One hot table, its partitions summed."""

    name: str
    live_rows: int
    dead_rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BenchServer:
    """The server's version and settings that a measurement reports."""

    version: str
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLoad:
    """Items to be made: number n goes to the flow n modulo flows, due n spacings after `due_at`."""

    flows: Sequence[tuple[str, str, str]]
    key_prefix: str
    due_at: datetime
    spacing_seconds: float
    payload: str


async def make_database(connection: Connection, name: str) -> None:
    """Make an empty database beside the one connected to."""
    quoted = await connection.fetchval("select quote_ident($1)", name)
    await connection.execute(f"create database {quoted}")


async def drop_database(connection: Connection, name: str) -> None:
    """Drop a database, even while connections to it are open."""
    quoted = await connection.fetchval("select quote_ident($1)", name)
    await connection.execute(f"drop database if exists {quoted} with (force)")


async def read_server(connection: Connection) -> BenchServer:
    """Read the server's version, what makes a commit durable there, and its clock."""
    row = await connection.fetchrow(bench_statement("read_server"))
    assert row is not None  # noqa: S101 - a select without `from` gives one row
    return BenchServer(**row)


async def load_items(
    connection: Connection, load: BenchLoad, *, first: int, count: int, actor_no: int
) -> int:
    """Emit items that the server makes itself; return how many were new."""
    tenants, kinds, lanes = zip(*load.flows, strict=True)
    return await connection.fetchval(
        bench_statement("load_items"),
        tenants,
        kinds,
        lanes,
        load.key_prefix,
        first,
        count,
        load.due_at,
        load.spacing_seconds,
        load.payload,
        actor_no,
        timeout=PATIENCE_SECONDS,
    )


async def load_definitions(
    connection: Connection,
    document: dict[str, Any],
    whens: Sequence[dict[str, Any]],
    *,
    prefix: str,
    first: int,
    count: int,
    effective_from: datetime,
    actor_no: int,
) -> None:
    """Make schedules that the server numbers itself; they differ only in `when`."""
    await connection.execute(
        bench_statement("load_definitions"),
        document,
        whens,
        prefix,
        first,
        count,
        effective_from,
        actor_no,
        timeout=PATIENCE_SECONDS,
    )


async def make_claim_months(connection: Connection, days: Sequence[date]) -> None:
    """Make the partitions for claims and runs of these days."""
    await connection.execute(bench_statement("make_claim_months"), days, timeout=PATIENCE_SECONDS)


async def load_ticks(
    connection: Connection,
    kind: str,
    definition_nos: Sequence[int],
    *,
    from_at: datetime,
    until_at: datetime,
    tzdata: str,
    actor_no: int,
) -> None:
    """Make the items of schedules that name every minute of a span."""
    await connection.execute(
        bench_statement("load_ticks"),
        kind,
        definition_nos,
        from_at,
        until_at,
        tzdata,
        actor_no,
        timeout=PATIENCE_SECONDS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLoad:
    """Events that were received at one instant, and the items that a rule owes for them."""

    kind: str
    definition_no: int
    received_at: datetime
    first_date: date
    days: int
    tzdata: str
    actor_no: int


async def load_events(connection: Connection, load: EventLoad, *, first: int, count: int) -> None:
    """Record so many events of a load, and their items."""
    await connection.execute(
        bench_statement("load_events"),
        load.kind,
        load.definition_no,
        first,
        count,
        load.received_at,
        load.first_date,
        load.days,
        load.tzdata,
        load.actor_no,
        timeout=PATIENCE_SECONDS,
    )


async def load_endings(
    connection: Connection, day: date, *, first_fence: int, actor_no: int
) -> int:
    """Complete the items of a date, in claims with fences from the first on; count the claims."""
    return await connection.fetchval(
        bench_statement("load_endings"),
        day,
        day + timedelta(days=1),
        first_fence,
        actor_no,
        timeout=PATIENCE_SECONDS,
    )


async def touch_items(connection: Connection, day: date, count: int) -> None:
    """Change so many items of a date in a way that no finding comes from."""
    await connection.execute(bench_statement("touch_items"), day, count)


async def read_snapshot_age(connection: Connection, application: str) -> float:
    """Return for how many seconds the oldest snapshot of an application has been held."""
    return await connection.fetchval(bench_statement("read_snapshot_age"), application)


async def list_backends(connection: Connection, application: str) -> list[int]:
    """Return the process ids of the connections of a program, by the beginning of its name."""
    return [
        row["pid"] for row in await connection.fetch(bench_statement("list_backends"), application)
    ]


class Drain(NamedTuple):
    """Whether items of a kind wait for their first attempt, and whether claims are open."""

    has_pending: bool
    has_claims: bool


async def read_drain(connection: Connection, kind: str) -> Drain:
    """Read how far a drain of a kind's items is, which are the only ones that are due."""
    row = await connection.fetchrow(bench_statement("read_drain"), kind)
    assert row is not None  # noqa: S101 - a select without `from` gives one row
    return Drain(**row)


async def fill_past_load(connection: Connection, tenant: str, kinds: int, as_of: datetime) -> None:
    """Fill the past load of so many new kinds in every quarter hour of five weeks."""
    await connection.execute(bench_statement("fill_past_load"), tenant, kinds, as_of)


async def mark_materialised(connection: Connection, until_at: datetime, tzdata: str) -> None:
    """Say that all schedules are materialised up to an instant."""
    await connection.execute(
        bench_statement("mark_materialised"), until_at, tzdata, timeout=PATIENCE_SECONDS
    )


async def count_materialised(connection: Connection, until: datetime) -> int:
    """Count the definitions that are materialised that far. Reads all rows: for benchmarks only."""
    return await connection.fetchval(bench_statement("count_materialised"), until)


async def count_ended(connection: Connection) -> int:
    """Count the items that ended in a run. Reads all runs: for benchmarks only."""
    return await connection.fetchval(bench_statement("count_ended"))


async def count_claims(connection: Connection, since: datetime, until: datetime) -> int:
    """Count the claims of a span of time. Reads all of its months: for benchmarks only."""
    return await connection.fetchval(bench_statement("count_claims"), since, until)


class PassCounts(NamedTuple):
    """How many passes of reconciliation have begun, and how many have ended."""

    begun: int
    ended: int


async def count_passes(connection: Connection) -> PassCounts:
    """Count the passes of a ledger."""
    return PassCounts(**(await connection.fetch(bench_statement("count_passes")))[0])


async def measure_steps(connection: Connection, *, key_prefix: str) -> StepTimes | None:
    """Measure the steps of the items whose business key begins with `key_prefix`.

    None where none is completed. A step that did not happen, as publishing in direct mode, has no
    times.
    """
    rows = await connection.fetch(
        bench_statement("measure_steps"), key_prefix, timeout=PATIENCE_SECONDS
    )
    row = rows[0]
    if not row["items"]:
        return None
    return StepTimes(
        items=row["items"],
        first_claimed_at=row["first_claimed_at"],
        last_completed_at=row["last_completed_at"],
        claims=row["claims"],
        runs=row["runs"],
        milliseconds={
            name: {"p50": round(row[column][0] * 1e3, 1), "p99": round(row[column][1] * 1e3, 1)}
            for name, column in (
                ("claim_to_publish", "published"),
                ("claim_to_start", "started"),
                ("start_to_complete", "completed"),
                ("claim_to_complete", "whole"),
            )
            if row[column] is not None and None not in row[column]
        },
    )


async def measure_lags(
    connection: Connection,
    *,
    started_from: datetime,
    started_until: datetime,
    key_prefix: str,
    every_nth_run: int = 1,
    bucket_seconds: float = 1e9,
) -> list[Lag]:
    """Measure lag by when items were started, in buckets from `started_from` on.

    `early` counts items started before their time, which must never happen.
    """
    rows = await connection.fetch(
        bench_statement("measure_lags"),
        started_from,
        started_until,
        every_nth_run,
        key_prefix,
        bucket_seconds,
        timeout=PATIENCE_SECONDS,
    )
    return [
        Lag(
            row["bucket"],
            row["items"],
            *(round(seconds * 1e3, 2) for seconds in row["seconds"]),
            early=row["early"],
        )
        for row in rows
    ]


async def read_balance(connection: Connection) -> list[Accounting]:
    """Read the accounting identity, without a time limit."""
    rows = await connection.fetch(
        statement("read_accounting"), None, date.min, date.max, timeout=PATIENCE_SECONDS
    )
    return [Accounting(**row) for row in rows]


async def read_table_growth(connection: Connection) -> list[TableGrowth]:
    """Read sizes and dead rows of the hot tables."""
    rows = await connection.fetch(bench_statement("read_table_growth"))
    return [TableGrowth(**row) for row in rows]


async def flush_counters(connection: Connection) -> None:
    """Update PostgreSQL's counters for this session now; otherwise they are up to 10 s late."""
    await connection.execute("select pg_stat_force_next_flush()")


async def vacuum_tables(connection: Connection) -> None:
    """Vacuum, analyze and checkpoint after a bulk load, before a measurement."""
    await connection.execute("vacuum (analyze)", timeout=PATIENCE_SECONDS)
    await connection.execute("checkpoint", timeout=PATIENCE_SECONDS)


@asynccontextmanager
async def open_snapshot(connection: Connection) -> AsyncGenerator[None]:
    """Hold one snapshot open for the length of the block, as a forgotten transaction would."""
    transaction = connection.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    try:
        await connection.fetchval("select 1")
        yield
    finally:
        await transaction.rollback()
