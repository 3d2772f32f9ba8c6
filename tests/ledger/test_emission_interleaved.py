"""Emission inside a service's own transaction: no interleaving aborts it or holds it up."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Final

import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.items import emit_items, skip_items
from dueledger.ledger.store.partitions import make_partitions, split_default_partition

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
MakeDrafts = Callable[..., list[ItemDraft]]
Step = Callable[[], Awaitable[object]]

TODAY: Final = date(2027, 3, 1)
NEW: Final = date(2040, 5, 1)
NEWER: Final = date(2041, 6, 1)
LOCK_TIMEOUT: Final = "100ms"
"""No emission may wait for longer. Each step is awaited, so that only a transaction that is idle
could hold one up."""


Door = Callable[[Connection, list[ItemDraft], int], Awaitable[bool]]
"""Emits one item; returns whether it is new."""


async def _batch_of_one(connection: Connection, drafts: list[ItemDraft], actor_no: int) -> bool:
    (result,) = await emit_items(connection, drafts, actor_no=actor_no)
    return result.created


async def _one_item(connection: Connection, drafts: list[ItemDraft], _: int) -> bool:
    (draft,) = drafts
    return await connection.fetchval(
        "select created from ledger.emit($1, $2, $3, $4, $5, cycle => $6)",
        *(draft.tenant, draft.kind, draft.business_key, draft.effective_date, draft.due_at),
        draft.cycle,
    )


@dataclass
class Service:
    """A session that emits in transactions of its own."""

    connection: Connection
    make_drafts: MakeDrafts
    actor_no: int
    isolation: str
    name: str
    door: Door
    emitted: int = 0

    async def begin(self) -> None:
        await self.connection.execute(f"begin isolation level {self.isolation}")

    async def emit(self, day: date, *, skipped: bool = False) -> None:
        self.emitted += 1
        drafts = self.make_drafts(prefix=f"{self.name}-{self.emitted}", effective_date=day)
        if skipped:
            (result,) = await skip_items(self.connection, drafts, ["gap"], actor_no=self.actor_no)
            assert result.created
        else:
            assert await self.door(self.connection, drafts, self.actor_no)

    async def begin_and_emit(self, day: date) -> None:
        await self.begin()
        await self.emit(day)

    async def emit_and_roll_back(self, day: date) -> None:
        """Emit within a savepoint: its locks are released with it."""
        await self.connection.execute("savepoint before")
        await self.emit(day)
        await self.connection.execute("rollback to before")
        self.emitted -= 1

    async def commit(self) -> None:
        await self.connection.execute("commit")


@dataclass
class Site:
    """Three services, and upkeep."""

    services: Sequence[Service]
    upkeep: Connection

    async def split(self) -> None:
        await split_default_partition(self.upkeep)

    async def start_over(self) -> None:
        """Check that each item is there once, and drop the new partitions and all items."""
        counted = await self.upkeep.fetchrow(
            "select (select count(*) from ledger.due_item) as items, count(*) as states"
            " from ledger.due_item left join (select item_no from ledger.pending"
            " union all select item_no from ledger.transition) state using (item_no)"
            " where state.item_no is not null"
        )
        emitted = sum(service.emitted for service in self.services)
        assert counted is not None
        assert tuple(counted) == (emitted, emitted)
        while await self.upkeep.fetchval("select count(*) from ledger.due_item_default"):
            await self.split()  # again where the server analyses the table
        await self.upkeep.execute(
            "drop table if exists "
            + ", ".join(
                f"ledger.{parent}_{month:%Y%m}"
                for parent in ("due_item", "transition")
                for month in (NEW, NEWER)
            )
        )
        await self.upkeep.execute(
            "delete from ledger.partition_span where starts_on >= '2040-01-01';"
            "delete from ledger.pending; delete from ledger.transition;"
            "delete from ledger.due_item"
        )
        for service in self.services:
            service.emitted = 0


@pytest.fixture(params=["read committed", pytest.param("repeatable read", marks=pytest.mark.full)])
def isolation(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[_batch_of_one, _one_item], ids=["batch", "one"])
def door(request: pytest.FixtureRequest) -> Door:
    return request.param


@pytest.fixture
async def site(
    connection: Connection,
    database: str,
    actor_no: int,
    make_drafts: MakeDrafts,
    isolation: str,
    door: Door,
) -> AsyncGenerator[Site]:
    # The flow exists: who makes a flow keeps others from making it until the commit.
    await emit_items(connection, make_drafts(prefix="first"), actor_no=actor_no)
    await connection.fetchval("select ledger.emitting_actor($1)", make_drafts()[0].tenant)
    await connection.execute("delete from ledger.pending; delete from ledger.due_item")
    async with AsyncExitStack() as exits:
        services: list[Service] = []
        for name in ("one", "two", "three"):
            session = await connect(database, application_name=name)
            exits.push_async_callback(session.close)
            await session.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'")
            services.append(Service(session, make_drafts, actor_no, isolation, name, door))
        yield Site(services, connection)


def interleavings(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield each order of so many steps of each, as whose step is next."""
    if not any(lengths):
        yield []
    for place, length in enumerate(lengths):
        if length:
            left = [*lengths[:place], length - 1, *lengths[place + 1 :]]
            for rest in interleavings(left):
                yield [place, *rest]


async def run_all(site: Site, scripts: Sequence[Sequence[Step]]) -> int:
    """Run the scripts in each interleaving of their steps; return how many there are."""
    count = 0
    for order in interleavings([len(script) for script in scripts]):
        steps = [iter(script) for script in scripts]
        try:
            for place in order:
                await next(steps[place])()
        except Exception as error:
            error.add_note(f"in the order {order}")
            raise
        await site.start_over()
        count += 1
    return count


def _long(service: Service) -> list[Step]:
    return [
        partial(service.begin_and_emit, TODAY),
        partial(service.emit, date(2040, 5, 2)),
        service.commit,
    ]


def _short(service: Service) -> list[Step]:
    return [partial(service.begin_and_emit, NEW), service.commit]


async def test_no_interleaving_with_a_new_month_aborts_an_emission_or_makes_it_wait(
    site: Site,
) -> None:
    one, two, _ = site.services
    assert await run_all(site, [_long(one), _short(two), [site.split]]) == 60


@pytest.mark.full
@pytest.mark.parametrize(
    ("isolation", "scripts"),
    [
        ("read committed", "twice"),
        ("read committed", "three"),
        ("read committed", "savepoints"),
        ("read committed", "skipped"),
        ("repeatable read", "savepoints"),
        ("serializable", "savepoints"),
    ],
    indirect=["isolation"],
)
async def test_no_interleaving_of_three_sessions_aborts_an_emission_or_makes_it_wait(
    site: Site, scripts: str
) -> None:
    one, two, three = site.services
    # Vacuum excludes everybody while it shortens a table that was emptied.
    for table in ("due_item_202703", "due_item_default", "transition_default", "pending"):
        await site.upkeep.execute(f"alter table ledger.{table} set (autovacuum_enabled = off)")
    upkeep: list[Step] = [site.split]
    match scripts:
        case "twice":
            sessions = [_long(one), [*_short(two)[:1], partial(two.emit, NEWER), two.commit]]
            upkeep *= 2
        case "three":
            sessions = [
                _long(one),
                _short(two),
                [partial(three.emit, NEWER)],
            ]
        case "savepoints":
            sessions = [
                [
                    partial(one.begin_and_emit, TODAY),
                    partial(one.emit_and_roll_back, NEW),
                    partial(one.emit, NEW),
                    one.commit,
                ],
                _short(two),
            ]
        case _:
            sessions = [
                [
                    partial(one.begin_and_emit, TODAY),
                    partial(one.emit, NEW, skipped=True),
                    one.commit,
                ],
                [two.begin, partial(two.emit, NEW, skipped=True), two.commit],
            ]
            upkeep *= 2
    await run_all(site, [*sessions, upkeep])


async def test_the_months_made_ahead_are_made_beside_open_emissions(site: Site) -> None:
    one, two, _ = site.services
    await one.begin_and_emit(TODAY)
    await site.upkeep.fetchval("select ledger.make_partition('due_item', $1)", NEWER)
    await two.begin_and_emit(NEWER)
    await one.emit(NEWER)
    await one.commit()
    await two.commit()
    await site.start_over()


async def test_an_emission_while_its_month_is_made_waits_for_that_statement_and_no_longer(
    site: Site, eventually: Eventually
) -> None:
    one, two, _ = site.services
    await one.begin_and_emit(TODAY)
    await two.begin_and_emit(NEW)
    await two.commit()
    await one.connection.execute("set local lock_timeout = 0")
    await site.upkeep.execute("begin")
    assert await site.upkeep.fetchval("select ledger.make_partition('due_item', $1)", NEW)
    emitting = asyncio.ensure_future(one.emit(NEW))

    async def waits() -> object:
        return await site.upkeep.fetchval("select count(*) from pg_locks where not granted")

    await eventually(waits)
    await two.begin_and_emit(TODAY)  # a month with a partition is not concerned
    await two.commit()
    await site.upkeep.execute("commit")
    await emitting
    await one.commit()
    await site.start_over()


async def test_making_a_partition_gives_up_where_a_transaction_holds_the_default_one(
    site: Site, connection: Connection
) -> None:
    one, *_ = site.services
    await one.begin_and_emit(NEW)
    await one.commit()
    await one.begin_and_emit(NEW)
    assert await split_default_partition(connection) == (0, 1)
    assert not await connection.fetch("select from ledger.partition_span where starts_on = $1", NEW)
    await one.commit()
    assert await split_default_partition(connection) == (1, 0)
    await site.start_over()


async def test_items_that_change_while_they_are_copied_keep_their_newest_terms(
    site: Site, connection: Connection, database: str, eventually: Eventually
) -> None:
    one, two, _ = site.services
    await one.begin_and_emit(NEW)
    await one.emit(NEW)
    await one.commit()
    await connection.execute("set lock_timeout = 0")
    await two.begin()
    await two.emit(NEW)
    await two.connection.execute(
        "update ledger.due_item set decision = 'gap' where business_key like 'one-1%'"
    )
    making = asyncio.ensure_future(_make_however_long(database))

    async def waits() -> object:
        return await connection.fetchval("select count(*) from pg_locks where not granted")

    await eventually(waits)  # it has copied what was committed
    await two.commit()
    assert await making
    rows = await connection.fetch(
        "select business_key, decision from ledger.due_item_204005 order by 1"
    )
    assert [(row["business_key"][:5], row["decision"]) for row in rows] == [
        ("one-1", "gap"),
        ("one-2", None),
        ("two-1", None),
    ]
    await site.start_over()


async def _make_however_long(database: str) -> bool:
    """Make the partition as an operator does, who lets everybody wait."""
    operator = await connect(database, application_name="operator")
    made = await operator.fetchval("select ledger.make_partition('due_item', $1, null)", NEW)
    await operator.close()
    return made


@pytest.mark.parametrize("parent", ["due_item", "transition"])
async def test_a_month_with_too_many_rows_stays_in_the_default_partition_until_all_are_moved(
    site: Site, connection: Connection, parent: str
) -> None:
    one, *_ = site.services
    await one.begin()
    for _ in range(3):
        await one.emit(NEW, skipped=parent == "transition")
    await one.commit()
    rows_max = 2 if parent == "due_item" else 29
    made = "select ledger.make_partition('due_item', $1, $2)"

    assert not await connection.fetchval(made, NEW, rows_max)

    assert await split_default_partition(connection) == (0, 0)  # not tried each second
    unmade = await connection.fetchrow("select * from ledger.partition_span where leaf is null")
    assert unmade is not None
    assert (unmade["starts_on"], unmade["ends_before"]) == (NEW, date(2040, 6, 1))
    await one.begin_and_emit(NEW)
    await one.commit()
    assert await make_partitions(connection, ahead=timedelta(0), rows_max=None) >= 1
    assert not await connection.fetch("select from ledger.partition_span where leaf is null")
    await site.start_over()
