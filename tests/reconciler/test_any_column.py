"""An edit of any column of any journal table is found, or the column is without meaning by name."""

import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson
import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, PlanProfile, clock, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.stack import Endpoints
from tests.conftest import open_database_pool
from tests.databases import DatabasePool, named_database
from tests.logins import with_login

from .damage.documents import ACME, NOW
from .damage.small_ledger import KIND, build_small_ledger

TABLES: Final = (
    "claim",
    "definition",
    "due_item",
    "event",
    "event_key",
    "event_other_key",
    "expedited",
    "held_key",
    "materialised",
    "missed_range",
    "pause",
    "pending",
    "review",
    "run",
    "transition",
)
_KAFKA: Final = "only Kafka knows it; test_kafka_check.py edits it beside a broker"
_LATER: Final = "what waits longer is OVERDUE when its item is late"
_TRACE: Final = "a trace for people: no item, time or state follows from it"
_INBOX: Final = "the inbox is read as it is: nothing else has its rows"
WITHOUT_MEANING: Final = {
    "claim.allocator_no": _TRACE,
    "claim.batch_max": "in how large runs suspects are started",
    "claim.flow_no": "which flow's items in flight are counted, which only bounds them",
    "claim.lease_seconds": _LATER,
    "claim.queue_seconds": _LATER,
    "claim.run_seconds": _LATER,
    "claim.starts": "how often an item was started bounds how often it is again",
    "claim.topic_actor_no": "who may settle it: its run has who did",
    "due_item.actor_no": _TRACE,
    "due_item.traceparent": _TRACE,
    "due_item.tzdata": "which tz database placed it: the time itself is compared",
    "event.matched": "counted at receipt, for people",
    "event.subject": _TRACE,
    "event.traceparent": _TRACE,
    "expedited.reason": _TRACE,
    "held_key.held_at": _TRACE,
    "materialised.failed_at": "when a failure, which is a finding, was last seen",
    "missed_range.occurrences": "a count for people: the range decides",
    "pause.lane": "of a kind with one lane: the flows that it pauses are compared",
    "pause.pause_no": _TRACE,
    "pause.reason": _TRACE,
    "pending.batch_max": "in how large runs suspects are started",
    "pending.state": "whether it is claimed as a first attempt or as a retry",
    "pending.starts": "how often an item was started bounds how often it is again",
    "review.parked_at": _TRACE,
    "review.reason": _TRACE,
    "review.run_no": _TRACE,
    "review.actor_no": _TRACE,
    "review.starts": "a redriven item is started anew",
    "run.extended_at": _TRACE,
    "run.flow_no": "which flow's items in flight are counted, which only bounds them",
    "run.isolated_in": _TRACE,
    "run.lease_seconds": _LATER,
    "run.overran": "who is blamed when a run is reaped",
    "run.run_until": _LATER,
}
"""Columns of which an edit changes nothing that is owed, and why."""
NOT_YET_FOUND: Final = {
    "claim.base_offset": _KAFKA,
    "claim.partition": _KAFKA,
    "claim.published_at": _KAFKA,
    "claim.topic": _KAFKA,
    "event.business_key": _INBOX,
    "event.id": _INBOX,
    "event.occurred_at": _INBOX,
    "event.received_at": _INBOX,
    "event.source": _INBOX,
    "event_key.event_no": _INBOX,
    "event_key.id": _INBOX,
    "event_key.occurred_at": _INBOX,
    "event_key.received_at": _INBOX,
    "event_key.source": _INBOX,
    "event_key.tenant": _INBOX,
    "event_other_key.business_key": _INBOX,
    "event_other_key.event_no": _INBOX,
    "event_other_key.occurred_at": _INBOX,
    "event_other_key.tenant": _INBOX,
    "materialised.definition_no": "the watermark of another version stays as it was",
    "materialised.ends_at": "what takes a version over is read from the versions",
    "materialised.tzdata": "an item that another tz database places is found when it is due",
    "run.lease_until": "a lease that was lengthened has no other record",
    "run.worker_no": "of a run that completed nothing, no other row says who had it",
    "transition.attempt": "of a transition outside of a run, no other row has the attempt",
}
"""Columns of which an edit is silent and should not be, and why."""

COLUMNS: Final = """
select table_name || '.' || column_name, data_type, is_nullable = 'YES'
from information_schema.columns
where table_schema = 'ledger' and table_name = any ($1::text[])
order by table_name, ordinal_position
"""
ROWS: Final = """
select t::text as was, to_jsonb(t) as columns from ledger.{table} t
order by to_jsonb(t) ->> 'definition_no' is null, md5($1 || t::text) limit $2
"""
DELETE: Final = "delete from ledger.{table} t where t::text = $1"
INSERT: Final = """
insert into ledger.{table} overriding system value
select (jsonb_populate_record($1::text::ledger.{table}, $2::jsonb)).*
returning {table}::text
"""
SAMPLE: Final = 25
ROWS_TRIED: Final = 3
EDITS_TRIED: Final = 4
"""Rows that name a definition first: what a service emitted, nothing else says."""


class Edited:
    """A row that was edited: as it was, and as it is."""

    def __init__(self, table: str, was: str, became: str) -> None:
        self.table, self.was, self.became = table, was, became


async def _edits(
    connection: Connection, column: str, type_: str, *, nullable: bool
) -> AsyncGenerator[Edited]:
    """Change a column of some rows, one after another, to values that their table accepts."""
    table, name = column.split(".")
    rows = await connection.fetch(ROWS.format(table=table), column, ROWS_TRIED)
    assert rows, table
    edits = [
        (row["was"], value)
        for row in rows
        for value in _others(row["columns"][name], type_, nullable=nullable)
    ]
    for was, value in edits:
        try:
            async with connection.transaction():
                await connection.execute(DELETE.format(table=table), was)
                became = await connection.fetchval(
                    INSERT.format(table=table), was, orjson.dumps({name: value}).decode()
                )
        except asyncpg.IntegrityConstraintViolationError:
            continue
        edited = Edited(table, was, became)
        if became != was:
            yield edited
        else:
            await _undo(connection, edited)


async def _undo(connection: Connection, edited: Edited) -> None:
    async with connection.transaction():
        deleted = await connection.execute(DELETE.format(table=edited.table), edited.became)
        assert deleted == "DELETE 1"
        await connection.execute(INSERT.format(table=edited.table), edited.was, "{}")


def _others(value: Any, type_: str, *, nullable: bool) -> Iterator[Any]:  # noqa: ANN401 - of any type
    """Yield other values of a type."""
    if nullable and value is not None:
        yield None
    if type_ in {"smallint", "integer", "bigint", "double precision"}:
        yield from ((value or 0) + 1, max(0, (value or 0) - 1), (value or 0) + 3, 4711)
    elif type_ in {"date", "timestamp with time zone"}:
        at = datetime.fromisoformat(value if value and value != "infinity" else "2027-04-01")
        for by in (timedelta(days=1), -timedelta(days=3)):
            yield (at + by).isoformat()[: 10 if type_ == "date" else None]
    elif type_ == "bit varying":
        yield "".join("10"[int(bit)] for bit in value or "0")
    elif type_ == "ARRAY":
        items: list[Any] = list(value or ())
        items[0] = items[0] + 1 if isinstance(items[0], int) else "2027-04-30"
        yield items
    else:
        yield {
            "text": f"{value or ''}x",
            "boolean": not value,
            "uuid": "00518e1a-afd2-82d7-9f6a-3b95e30f012d",
            "json": {"edited": True},
            "jsonb": {"edited": True},
        }[type_]


@pytest.fixture(scope="module")
async def copies(stack: Endpoints) -> AsyncGenerator[DatabasePool]:
    async def prepare(connection: Connection) -> None:
        name = await connection.fetchval("select current_database()")
        await build_small_ledger(connection, named_database(stack.dsn, name))

    async with open_database_pool(stack, prepare) as pool:
        yield pool


async def _silent(copies: DatabasePool, columns_max: int | None) -> tuple[set[str], set[str]]:
    """Edit columns, one after another; return those of which nothing was found, and all."""
    async with copies.lease(damaged=True) as dsn:
        connection = await connect(dsn, application_name="test")
        await clock.set_clock(connection, NOW, 0, database=True)
        number = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
        policies = SqlPopulation(dsn, "select * from policy_due", "policies", complete=True)
        bookings = SqlEvidence(
            dsn, "select item_id, reference from booking", ACME, KIND, "bookings", complete=True
        )
        columns = await connection.fetch(COLUMNS, TABLES)
        if columns_max is not None:
            columns = random.Random("columns").sample(columns, columns_max)  # noqa: S311
        async with open_pool(
            with_login(dsn, "reconciler"), application_name="test", profile=PlanProfile.ANALYTIC
        ) as pool:
            reconciler = Reconciler(
                pool, ReconcilerSources((policies,), (bookings,)), number, limits=PassLimits()
            )
            await reconciler.run_pass()
            clean = (await reconciler.run_pass()).found
            assert not clean, clean
            await connection.execute("set session_replication_role = replica")
            silent: set[str] = set()
            for column, type_, nullable in columns:
                edits = _edits(connection, column, type_, nullable=nullable)
                async with aclosing(edits):
                    if await _is_silent(reconciler, connection, clean, edits):
                        silent.add(column)
            assert (await reconciler.run_pass()).found == clean
        await connection.close()
        return silent, {row[0] for row in columns}


async def _is_silent(
    reconciler: Reconciler,
    connection: Connection,
    clean: Counter[FindingType],
    edits: AsyncIterator[Edited],
) -> bool:
    """Return whether some edits were accepted and none was found, of so many."""
    tried = 0
    async for edited in edits:
        found = (await reconciler.run_pass()).found
        await _undo(connection, edited)
        tried += 1
        if found != clean or tried == EDITS_TRIED:
            return found == clean
    return tried > 0


def _check(silent: set[str], edited: set[str]) -> None:
    listed = WITHOUT_MEANING.keys() | NOT_YET_FOUND.keys()
    assert silent - listed == set(), "not found, and not listed with a reason"
    assert (NOT_YET_FOUND.keys() & edited) - silent == set(), "found: take it from the list"


async def test_g11_an_edit_of_any_of_some_columns_is_found_or_without_meaning(
    copies: DatabasePool,
) -> None:
    _check(*await _silent(copies, SAMPLE))


@pytest.mark.full
async def test_g11_an_edit_of_any_column_is_found_or_without_meaning(copies: DatabasePool) -> None:
    silent, edited = await _silent(copies, None)
    _check(silent, edited)
    assert (WITHOUT_MEANING.keys() | NOT_YET_FOUND.keys()) - edited == set(), "no such column"
    assert WITHOUT_MEANING.keys() & NOT_YET_FOUND.keys() == set()
