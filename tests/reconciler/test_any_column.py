"""An edit of any column of any journal table is found, or the column is without meaning by name."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson
import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, PlanProfile, clock, open_pool
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

from .damage.clean_ledger import connected
from .damage.documents import ACME, NOW
from .damage.small_ledger import KIND, build_small_ledger

pytestmark = pytest.mark.long

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
_KAFKA: Final = "no records are read here: test_kafka_check.py finds an edit beside a broker"
_LATER: Final = "what waits longer is OVERDUE when its item is late"
_TRACE: Final = "a trace for people: no item, time or state follows from it"
_NAME: Final = "names an event to its sender; what it owes is read from its type, body and order"
_INDEX: Final = (
    "by which the intake finds events: keys are read again from bodies, so an item that the intake"
    " makes wrong by it is found"
)
WITHOUT_MEANING: Final = {
    "claim.allocator_no": _TRACE,
    "claim.base_offset": _KAFKA,
    "claim.batch_max": "in how large runs suspects are started",
    "claim.flow_no": "which flow's items in flight are counted, which only bounds them",
    "claim.lease_seconds": _LATER,
    "claim.partition": _KAFKA,
    "claim.published_at": "without it the mark was lost in a crash; offsets say what is published",
    "claim.queue_seconds": _LATER,
    "claim.run_seconds": _LATER,
    "claim.starts": "how often an item was started bounds how often it is again",
    "claim.topic": _KAFKA,
    "claim.topic_actor_no": "who may settle it: its run has who did",
    "due_item.actor_no": _TRACE,
    "due_item.traceparent": _TRACE,
    "due_item.tzdata": "which tz database placed it: the time itself is compared",
    "event.business_key": _INDEX,
    "event.id": _NAME,
    "event.matched": "counted at receipt, for people",
    "event.occurred_at": "the order of a subject's events follows from it: an edit that changes"
    " what is owed is found by its items, as the test below has it",
    "event.received_at": "when a rule was in force and whether it came in time follow from it: an"
    " edit that changes either is found by its items, as the test below has it",
    "event.source": _NAME,
    "event.subject": _TRACE,
    "event.traceparent": _TRACE,
    **dict.fromkeys(
        (
            "event_key.event_no",
            "event_key.id",
            "event_key.occurred_at",
            "event_key.received_at",
            "event_key.source",
            "event_key.tenant",
        ),
        "by which the intake takes an event once, for some weeks: it owes nothing itself",
    ),
    **dict.fromkeys(
        (
            "event_other_key.business_key",
            "event_other_key.event_no",
            "event_other_key.occurred_at",
            "event_other_key.tenant",
        ),
        _INDEX,
    ),
    "expedited.reason": _TRACE,
    "held_key.held_at": _TRACE,
    "materialised.failed_at": "when a failure, which is a finding, was last seen",
    "materialised.tzdata": "which tz database placed the items: their times are compared with it",
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
    "run.withdrawn": "excuses endings by request at the very start of the run, and no others",
}
"""Columns of which an edit changes nothing that is owed, and why."""
FOUND_AS: Final = {
    "materialised.definition_no": FindingType.TAMPERED,
    "materialised.ends_at": FindingType.TAMPERED,
    "run.lease_until": FindingType.STUCK,
    "run.worker_no": FindingType.STUCK,
    "transition.attempt": FindingType.OUTCOME_CONFLICT,
}
"""Under which code an edit of some columns is found; edits of items have theirs in test_terms."""
COLUMNS: Final = """
select table_name || '.' || column_name, data_type, is_nullable = 'YES'
from information_schema.columns
where table_schema = 'ledger' and table_name = any ($1::text[])
order by table_name, ordinal_position
"""
ROWS: Final = """
select t::text as was, to_jsonb(t) as columns from ledger.{table} t
order by to_jsonb(t) ->> 'definition_no' is null, to_jsonb(t) ->> 'closed_at' is not null,
  md5($1 || t::text)
limit $2
"""
DELETE: Final = "delete from ledger.{table} t where t::text = $1"
INSERT: Final = """
insert into ledger.{table} overriding system value
select (jsonb_populate_record($1::text::ledger.{table}, $2::jsonb)).*
returning {table}::text
"""
SAMPLE: Final = 25
Codes = frozenset[FindingType]
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


@asynccontextmanager
async def _opened(copies: DatabasePool) -> AsyncGenerator[tuple[Connection, Reconciler]]:
    """Open a reconciler on a copy of the small ledger, in which it finds nothing."""
    async with copies.lease(damaged=True) as dsn, connected(dsn) as connection:
        await clock.set_clock(connection, NOW, 0, database=True)
        number = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
        policies = SqlPopulation(dsn, "select * from policy_due", "policies", complete=True)
        bookings = SqlEvidence(
            dsn, "select item_id, reference from booking", ACME, KIND, "bookings", complete=True
        )
        async with open_pool(
            with_login(dsn, "reconciler"), application_name="test", profile=PlanProfile.ANALYTIC
        ) as pool:
            reconciler = Reconciler(
                pool, ReconcilerSources((policies,), (bookings,)), number, limits=PassLimits()
            )
            await reconciler.run_pass()
            assert (await reconciler.run_pass()).found == {}
            await connection.execute("set session_replication_role = replica")
            yield connection, reconciler


async def _found(copies: DatabasePool, columns_max: int | None) -> dict[str, Codes | None]:
    """Edit columns, one after another; return what was found of each."""
    codes: dict[str, Codes | None] = {}
    async with _opened(copies) as (connection, reconciler):
        columns = await connection.fetch(COLUMNS, TABLES)
        if columns_max is not None:
            chosen = random.Random("columns").sample(columns, columns_max)  # noqa: S311
            columns = [each for each in columns if each in chosen or each[0] in FOUND_AS]
        for column, type_, nullable in columns:
            edits = _edits(connection, column, type_, nullable=nullable)
            async with aclosing(edits):
                codes[column] = await _codes(reconciler, connection, edits)
        assert (await reconciler.run_pass()).found == {}
    return codes


async def _codes(
    reconciler: Reconciler,
    connection: Connection,
    edits: AsyncIterator[Edited],
) -> Codes | None:
    """Return what is found of the first edit of which anything is; None if all were refused."""
    tried = 0
    async for edited in edits:
        found = (await reconciler.run_pass()).found
        await _undo(connection, edited)
        tried += 1
        if found or tried == EDITS_TRIED:
            return frozenset(found)
    return frozenset() if tried else None


def _check(codes: Mapping[str, Codes | None]) -> None:
    """Check that each edit was found, under its code, or is listed with a reason."""
    silent = {column for column, found in codes.items() if found is not None and not found}
    assert silent - WITHOUT_MEANING.keys() == set(), "not found, and not listed with a reason"
    wrong = {
        column: found
        for column, found in codes.items()
        if column in FOUND_AS and found and FOUND_AS[column] not in found
    }
    assert wrong == {}, "found under another code"


async def test_g11_an_edit_of_any_of_some_columns_is_found_or_without_meaning(
    copies: DatabasePool,
) -> None:
    _check(await _found(copies, SAMPLE))


@pytest.mark.full
async def test_g11_an_edit_of_any_column_is_found_or_without_meaning(copies: DatabasePool) -> None:
    codes = await _found(copies, None)
    _check(codes)
    listed = WITHOUT_MEANING.keys() | FOUND_AS.keys()
    assert listed - codes.keys() == set(), "no such column"


@pytest.mark.parametrize(
    ("moved", "days", "of", "finds"),
    [
        # Before its rule was in force, and before what it cancels.
        ("received_at", 60, "PolicyActivated", FindingType.UNEXPECTED),
        ("occurred_at", 1, "PolicyCancelled", FindingType.UNEXCUSED),
    ],
)
async def test_g11_events_moved_to_where_they_owe_or_withdraw_nothing_are_found(
    copies: DatabasePool, moved: str, days: int, of: str, finds: FindingType
) -> None:
    async with _opened(copies) as (connection, reconciler):
        await connection.execute(
            f"update ledger.event set {moved} = {moved} - $1 * interval '1 day' where type = $2",  # noqa: S608 - of the test
            days,
            of,
        )
        assert finds in (await reconciler.run_pass()).found
