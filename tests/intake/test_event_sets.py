"""Sets of events in any order and any batches: the same set owes the same.

The test folds each set itself, event by event in the order of their times. That one set is one
ledger holds for items that nobody was handed. What has ended is final: if an event comes after an
item ended that happened before, the item stays ended as it was.
"""

import hashlib
import os
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, Final, NamedTuple, cast

import pytest

from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection, PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.reconciler import Reconciler, ReconcilerSources

from .conftest import BEGINNING, Take, renewal

SetRule = Callable[..., Awaitable[int]]
Base = tuple[str, str]

SEED_VARIABLE: Final = "DUELEDGER_EVENT_SEED"
ORDERS: Final = 4
"""Of each set: in order one by one, in one batch, and twice in random batches."""
SETS_TOGETHER: Final = 100


class OwedRow(NamedTuple):
    """An item as it should be, or is: `ending` is empty while it is open."""

    cycle: str
    day: str
    number: int
    ending: str = ""


class EventSet(NamedTuple):
    """The events of one policy, and the batches in which they arrive."""

    policy: str
    events: list[DomainEvent]
    batches: list[list[DomainEvent]]
    in_order: bool


def random_events(seed: random.Random) -> list[tuple[str, int, str, str]]:
    """Return type, minute, source and day of up to eight events, some at the same time."""
    types = ["PolicyActivated"] * 4 + ["PolicyCancelled"] * 3 + ["PolicyAmended"] * 2
    return [
        (
            seed.choice(types),
            seed.randrange(12),
            seed.choice(["/north", "/south"]),
            seed.choice(["2150-03-01", "2150-04-01"]),
        )
        for _ in range(seed.randint(2, 8))
    ]


def event_sets(name: str, seed: random.Random) -> Iterator[EventSet]:
    """Yield one random set as several policies, each in another order of arrival."""
    shapes = random_events(seed)
    for order in range(ORDERS):
        policy = f"{name}-{order}"
        events = [
            DomainEvent(
                "insurer",
                source,
                f"{policy}/{number}",
                type_,
                BEGINNING + timedelta(minutes=minute),
                policy,
                {"policy": policy, "term": "2150", "expires_on": day, "number": number},
            )
            for number, (type_, minute, source, day) in enumerate(shapes)
        ]
        arrivals = sorted(events, key=_place)
        if order:
            arrivals += seed.choices(events, k=2)
            seed.shuffle(arrivals)
        if order == 1:
            batches = [arrivals]
        elif order == 0:
            batches = [[event] for event in arrivals]
        else:
            cuts = sorted(seed.sample(range(len(arrivals) + 1), 3))
            edges = zip([0, *cuts], [*cuts, len(arrivals)], strict=True)
            batches = [arrivals[start:end] for start, end in edges]
        yield EventSet(policy, events, batches, order < 2)


def _place(event: DomainEvent) -> tuple[datetime, bool, str, str]:
    return event.time, event.type == "PolicyCancelled", event.source, event.id


def fold(events: Sequence[DomainEvent]) -> list[OwedRow]:
    """Return the items of a set, one event after another."""
    rows: list[OwedRow] = []
    opened: dict[Base, int] = {}
    followed: dict[Base, str] = {}
    for event in sorted(events, key=_place):
        data = cast("dict[str, Any]", event.data)
        base = None if event.type == "PolicyCancelled" else (data["term"], data["expires_on"])
        cycle = ""
        if base is not None:
            cycle = base[0] + followed.get(base, "")
            if base in opened:
                cycle = rows[opened[base]].cycle
        if event.type != "PolicyActivated":
            ending = f"cancelled {event.type}"
            if base is not None:
                ending = f"superseded {event.type} {base[1]} {cycle}"
            for other in [other for other in opened if other != base]:
                row = opened.pop(other)
                rows[row] = rows[row]._replace(ending=ending)
            for other in followed.keys() - {base}:
                name = f"{event.tenant}\x1f{event.source}\x1f{event.id}"
                followed[other] = "~r" + hashlib.sha256(name.encode()).hexdigest()[:8]
        if base is not None and base not in opened:
            opened[base] = len(rows)
            followed.setdefault(base, "")
            rows.append(OwedRow(cycle, base[1], data["number"]))
    return sorted(rows)


@pytest.fixture
async def reconciler(connection: Connection, database: str) -> AsyncGenerator[Reconciler]:
    actor_no = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
    async with open_pool(database, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield Reconciler(pool, ReconcilerSources(), actor_no)


async def read_rows(connection: Connection, policies: Sequence[str]) -> dict[str, list[OwedRow]]:
    """Read the items of policies."""
    rows = await connection.fetch(
        """
        select i.business_key, i.cycle, i.effective_date::text as day, i.payload,
          coalesce(concat_ws(' ', e.name, t.detail ->> 'reason', r.effective_date, r.cycle), '')
            as ending
        from ledger.due_item i
        left join ledger.transition t on t.effective_date = i.effective_date
          and t.item_no = i.item_no and t.event <> 15 /* revised */
        left join ledger.transition_event e on e.event = t.event
        left join ledger.due_item r on r.id = (t.detail ->> 'replacement')::uuid
        where i.business_key = any($1::text[])
        """,
        policies,
    )
    found: dict[str, list[OwedRow]] = {}
    for row in rows:
        number = row["payload"]["number"]
        item = OwedRow(row["cycle"], row["day"], number, row["ending"])
        found.setdefault(row["business_key"], []).append(item)
    return {policy: sorted(items) for policy, items in found.items()}


def check(events: EventSet, items: Sequence[OwedRow]) -> None:
    """Compare the ledger with the fold of a set."""
    owed = fold(events.events)
    if events.in_order:
        assert items == owed, events.policy
        return
    live = [row for row in items if not row.ending]
    assert live == [row for row in owed if not row.ending], events.policy
    ended = {(row.cycle, row.day) for row in items if row.ending}
    assert {(row.cycle, row.day) for row in owed if row.ending} <= ended, events.policy


async def check_sets(count: int, take: Take, connection: Connection) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or secrets.randbelow(1 << 32))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201 - shown when the test fails
    randomness = random.Random(seed)  # noqa: S311 - a seed names the sets
    for begin in range(0, count, SETS_TOGETHER):
        sets = [
            events
            for number in range(begin, min(begin + SETS_TOGETHER, count))
            for events in event_sets(f"P-{number}", randomness)
        ]
        for step in zip_longest(*(events.batches for events in sets), fillvalue=()):
            await take(*(event for batch in step for event in batch))
        items = await read_rows(connection, [events.policy for events in sets])
        for events in sets:
            check(events, items.get(events.policy, []))


async def test_g1_one_set_of_events_owes_the_same_in_any_order_and_the_reconciler_agrees(
    take: Take, set_rule: SetRule, reconciler: Reconciler, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    await check_sets(100, take, connection)
    assert (await reconciler.run_pass()).found == {}


@pytest.mark.full
async def test_g1_two_thousand_sets_of_events_owe_the_same_in_any_order(
    take: Take, set_rule: SetRule, reconciler: Reconciler, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    await check_sets(2_000, take, connection)
    assert (await reconciler.run_pass()).found == {}
