"""Passes with a partition cache report what a full pass reports, after any change of the ledger."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool, clock, findings
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.reconciler import (
    PassLimits,
    PassResult,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.columns import engine
from dueledger.reconciler.columns.engine import comparison_statement
from tests.reconciler.past_loads import counted_load, recorded_load
from tests.seals import put_grace

pytestmark = pytest.mark.long

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
MONTHS = [date(2027, month, 10) for month in range(2, 8)]
STEPS = 20
STEPS_IN_FULL = 30
EVENT_RULE = """
definition: renewal
tenant: acme
kind: {kind}Renewal
event: PolicyActivated
business_key: data.policy
cycle: data.term
effective_date: data.expires_on
when: {{relative: P0D, to: effective_date, at: "09:00", timezone: UTC}}
cancel_on: [{{event: PolicyCancelled, business_key: data.policy}}]
"""


@dataclass
class World:
    """A ledger, a domain and their clock, changed at random: each step is one of the methods."""

    connection: Connection
    pool: Pool
    domain: asyncpg.Connection
    chance: random.Random
    kind: str
    actor_no: int
    make_drafts: Callable[..., list[ItemDraft]]
    owe: Callable[[list[ItemDraft]], Awaitable[None]]
    land: Callable[..., Awaitable[None]]
    complete_all: Callable[..., Awaitable[None]]
    now: datetime = NOON
    made: int = 0
    drafts: list[ItemDraft] = field(default_factory=list[ItemDraft])

    def invent(self) -> list[ItemDraft]:
        self.made += 1
        return self.make_drafts(
            self.chance.randint(1, 4),
            kind=f"{self.kind}{self.chance.choice(['', 'Other', 'Proven'])}",
            due_at=self.now + self.chance.choice([-10, 5, 60, 600]) * timedelta(minutes=1),
            effective_date=self.chance.choice(MONTHS),
            prefix=f"batch-{self.made}",
        )

    async def emit(self) -> None:
        drafts = self.invent()
        await self.owe(drafts)
        await emit_items(self.connection, drafts, actor_no=self.actor_no)
        self.drafts += drafts

    async def emit_unowed(self) -> None:
        await emit_items(self.connection, self.invent(), actor_no=self.actor_no)

    async def emit_twice(self) -> None:
        (draft, *_) = self.invent()
        twice = [draft, replace(draft, cycle="2028")]
        await self.owe(twice[:1])
        await emit_items(self.connection, twice, actor_no=self.actor_no)

    async def owe_alone(self) -> None:
        await self.owe(self.invent()[:1])

    async def emit_what_is_owed(self) -> None:
        rows = await self.domain.fetch("select * from policy_due")
        drafts = [
            replace(draft, **{name: row[name] for name in ("kind", "business_key", "cycle")})
            for row in rows
            for (draft,) in [
                self.make_drafts(due_at=row["due_at"], effective_date=row["effective_date"])
            ]
        ]
        await emit_items(self.connection, drafts, actor_no=self.actor_no)

    async def disown(self) -> None:
        await self.domain.execute(
            "delete from policy_due where ctid in (select ctid from policy_due limit 2)"
        )

    async def complete(self) -> None:
        await self.complete_all()

    async def park(self) -> None:
        await self.complete_all(TransitionEvent.PARKED)

    async def withdraw(self) -> None:
        ids = [draft.id for draft in self.chance.sample(self.drafts, min(2, len(self.drafts)))]
        await withdraw_items(
            self.connection,
            ids,
            event=TransitionEvent.CANCELLED,
            reason="test",
            actor_no=self.actor_no,
        )

    async def lose(self) -> None:
        """Let one item be nowhere: its row in pending goes."""
        await self.connection.execute(
            "delete from ledger.pending where item_no in (select item_no from ledger.pending"
            " order by item_no limit 1)"
        )

    async def erase(self) -> None:
        await self.connection.execute(
            "with gone as (delete from ledger.due_item where effective_date = $1 and item_no ="
            " (select min(item_no) from ledger.due_item where effective_date = $1)"
            " returning item_no)"
            " delete from ledger.pending where item_no in (select item_no from gone)",
            self.chance.choice(MONTHS),
        )

    async def postpone(self) -> None:
        await self.connection.execute(
            "update ledger.due_item set due_at = due_at + interval '1 hour'"
            " where effective_date = $1",
            self.chance.choice(MONTHS),
        )

    async def move(self) -> None:
        """Let items of a month wait longer, or shorter, than they have to."""
        await self.connection.execute(
            "update ledger.pending set available_at = available_at + $2 where effective_date = $1",
            self.chance.choice(MONTHS),
            self.chance.choice([-2, 2]) * timedelta(days=1),
        )

    async def activate(self) -> None:
        self.made += 1
        day = self.chance.choice(MONTHS)
        await self.land(
            "PolicyActivated",
            f'{{"policy": "P-{self.made}", "term": "1", "expires_on": "{day}"}}',
            at=self.now,
        )

    async def cancel_policies(self) -> None:
        bodies = [f'{{"policy": "P-{number}"}}' for number in range(self.made)]
        await self.land("PolicyCancelled", *bodies, at=self.now)

    async def book(self) -> None:
        await self.domain.execute("insert into booking select id, '', '', 'B' from ledger.due_item")

    async def change_grace(self) -> None:
        await put_grace(self.connection, self.chance.choice([0, 60, 7200]))

    async def reset_counters(self) -> None:
        await self.connection.execute("select pg_stat_reset()")

    async def wait(self) -> None:
        await self.pass_time(self.chance.choice([1, 10, 60, 1440]))

    async def rest(self) -> None:
        """Nothing happens, as in most minutes."""

    async def pass_time(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)
        async with self.pool.acquire() as connection:
            for each in (self.connection, connection):
                await clock.set_clock(each, self.now, 0)


STEPS_OF_A_WORLD = (
    *[World.emit] * 4,
    World.emit_unowed,
    World.emit_twice,
    World.owe_alone,
    World.emit_what_is_owed,
    World.disown,
    *[World.complete] * 3,
    World.park,
    World.withdraw,
    World.lose,
    World.erase,
    World.postpone,
    World.move,
    World.activate,
    World.cancel_policies,
    World.book,
    World.change_grace,
    World.reset_counters,
    *[World.wait] * 3,
    *[World.rest] * 6,
)


def reported(result: PassResult) -> dict[str, Any]:
    """Return all that a pass reports of the ledger."""
    return {
        "tallies": dict(result.comparison.tallies),
        "expected": result.expected_count,
        "found": result.found,
        "omitted": result.omitted,
        "missing": result.missing,
        "unexpected": result.unexpected,
        "accounting": result.accounting,
        "watermarks": result.watermarks,
    }


async def finding_states(connection: Connection) -> dict[Any, Any]:
    """Return the state of each finding."""
    rows = await findings.list_findings(connection, open_only=False, page_size=100_000)
    names = ("type", "resolution", "sentence", "expected", "actual")
    return {row["id"]: tuple(row[name] for name in names) for row in rows}


def judge_all(name: str) -> str:
    """Return a statement of the comparison that leaves every pair to be judged."""
    text = comparison_statement(name)
    return text.replace("where c.differences > 0 or r.flow is not null", "")


@pytest.mark.damages
@pytest.mark.parametrize(
    ("seed", "steps"),
    [(7, STEPS), *(pytest.param(seed, STEPS_IN_FULL, marks=pytest.mark.full) for seed in range(8))],
)
async def test_g11_passes_with_a_cache_report_what_a_full_pass_reports(
    seed: int,
    steps: int,
    frozen: Connection,
    analytic: Pool,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    land: Callable[..., Awaitable[None]],
    complete_all: Callable[..., Awaitable[None]],
    domain: asyncpg.Connection,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    kind: str,
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed names the case
    world = World(
        frozen,
        analytic,
        domain,
        chance,
        kind,
        actor_no,
        make_drafts,
        owe,
        land,
        complete_all,
    )
    (definition,) = load_definitions(EVENT_RULE.format(kind=kind), source="test")
    await define(
        frozen,
        definition.normalised(),
        tenant="acme",
        name=definition.definition,
        kind=definition.kind,
        event_type=definition.event,
        effective_from=NOON - timedelta(days=1),
        actor_no=actor_no,
    )
    sources = ReconcilerSources(
        (replace(policies, complete=seed % 2 == 0),), (replace(bookings, kind=f"{kind}Proven"),)
    )
    limits = PassLimits(stuck_seconds=0, findings_max=10_000 if seed % 4 < 2 else 3)
    loop = make_reconciler(sources, limits=limits)
    cached = 0
    for _ in range(4):
        await world.emit()
    for _ in range(steps):
        step = chance.choice(STEPS_OF_A_WORLD)
        await step(world)
        await world.pass_time(1)

        part = await loop.run_pass(cache=loop.cache)
        left = await finding_states(frozen)
        assert await recorded_load(frozen, NOON - WEEK, world.now) == await counted_load(
            frozen, NOON - WEEK, world.now
        )
        whole = await make_reconciler(sources, limits=limits).run_pass()

        assert whole.cached_windows == 0
        assert reported(part) == reported(whole), step.__name__
        assert left == await finding_states(frozen), step.__name__
        with monkeypatch.context() as patched:
            patched.setattr(engine, "comparison_statement", judge_all)
            judged = await make_reconciler(sources, limits=limits).run_pass()
        assert reported(judged) == reported(whole), step.__name__
        assert left == await finding_states(frozen), step.__name__
        cached += part.cached_items
    assert cached > 0


@pytest.mark.damages
async def test_g11_a_place_that_no_longer_fits_is_found_among_cached_windows_until_it_fits(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    actor_no: int,
) -> None:
    for month in MONTHS:
        drafts = make_drafts(2, due_at=NOON + timedelta(days=9), effective_date=month)
        await emit_items(frozen, drafts, actor_no=actor_no)
    loop = make_reconciler()

    async def found() -> tuple[int, int]:
        result = await loop.run_pass(cache=loop.cache)
        return result.cached_windows, result.found[FindingType.WRONG_DATE]

    assert await found() == (0, 0)
    windows, wrong = await found()
    assert (windows > 1, wrong) == (True, 0)
    move = (
        "update ledger.pending set available_at = available_at + $1 * interval '2 days'"
        " where item_no = (select min(item_no) from ledger.pending)"
    )
    await frozen.execute(move, 1)
    assert await found() == (windows - 1, 1)
    assert await found() == (windows, 1)
    await frozen.execute(move, -1)
    assert await found() == (windows - 1, 0)
    assert await found() == (windows, 0)
