"""All statements at once, in every order: no deadlock, and the identity holds."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import pytest

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import (
    apply_withdrawals,
    mark_published,
    reap_claims,
    reap_runs,
    release_claims,
)
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.ledger.store.reviews import park_items, redrive_items, write_off_items
from dueledger.ledger.store.runs import (
    Outcome,
    Settlement,
    StartResult,
    extend_leases,
    settle_runs,
    start_runs,
)

from .conftest import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

ENDINGS = (
    TransitionEvent.COMPLETED,
    TransitionEvent.COMPLETED,
    TransitionEvent.FAILED,
    TransitionEvent.SNOOZED,
    TransitionEvent.PARKED,
)
ROUNDS = 60
KEYS = 300


@dataclass
class World:
    """The rows that all of them change; each chooses from them in an order of its own."""

    ids: list[UUID] = field(default_factory=list[UUID])
    claims: dict[ClaimId, int] = field(default_factory=dict[ClaimId, int])
    starts: list[StartResult] = field(default_factory=list[StartResult])


class Actor:
    """One connection that runs all actions of processes and persons, in random order."""

    def __init__(
        self, ledger: Ledger, world: World, chance: random.Random, drafts: list[ItemDraft]
    ) -> None:
        self._ledger = ledger
        self._world = world
        self._chance = chance
        self._drafts = drafts

    async def act(self) -> None:
        verbs: list[Callable[[], Awaitable[None]]] = [
            self.emit,
            self.claim,
            self.claim,
            self.start,
            self.start,
            self.settle,
            self.settle,
            self.extend,
            self.mark,
            self.release,
            self.withdraw,
            self.review,
            self.reap,
        ]
        for _ in range(ROUNDS):
            await self._chance.choice(verbs)()

    async def emit(self) -> None:
        drafts = self._chance.sample(self._drafts, 60)
        answers = await emit_items(self._ledger.connection, drafts, actor_no=self._ledger.worker_no)
        self._world.ids += [answer.id for answer in answers if answer.created]

    async def claim(self) -> None:
        claim = await self._ledger.claim(limit=40)
        if claim.item_nos:
            self._world.claims[claim.id] = len(claim.item_nos)

    async def start(self) -> None:
        some = sorted(self._some(list(self._world.claims), 4))
        if not some:
            return
        starts = await start_runs(
            self._ledger.connection,
            some,
            [1] * len(some),
            [self._world.claims[claim_id] for claim_id in some],
            worker_no=self._ledger.worker_no,
            lease_seconds=60,
            run_items_max=[self._chance.choice((1, 3, 100))] * len(some),
        )
        self._world.starts += [start for start in starts if start.run]

    async def settle(self) -> None:
        settlements = [
            Settlement(
                start.run,
                [
                    Outcome(self._chance.choice(ENDINGS), after_seconds=0)
                    if self._chance.random() < 0.8
                    else None
                    for _ in range(start.from_position, start.to_position + 1)
                ],
            )
            for start in self._some(self._world.starts, 10)
            if start.run
        ]
        await settle_runs(self._ledger.connection, settlements, self._ledger.worker_no)

    async def extend(self) -> None:
        runs = [start.run for start in self._some(self._world.starts, 20) if start.run]
        await extend_leases(self._ledger.connection, runs, self._ledger.worker_no, 60)

    async def mark(self) -> None:
        claims = self._some(list(self._world.claims), 10)
        offsets = [claim_id.fence for claim_id in claims]
        await mark_published(self._ledger.connection, claims, offsets)

    async def release(self) -> None:
        claims = sorted(self._some(list(self._world.claims), 2))
        await release_claims(self._ledger.connection, claims, self._ledger.worker_no)

    async def withdraw(self) -> None:
        await withdraw_items(
            self._ledger.connection,
            self._some(self._world.ids, 10),
            event=TransitionEvent.CANCELLED,
            reason="test",
            actor_no=self._ledger.worker_no,
        )

    async def review(self) -> None:
        verb = self._chance.choice((park_items, redrive_items, write_off_items))
        ids = self._some(self._world.ids, 20)
        await verb(self._ledger.connection, ids, reason="test", actor_no=self._ledger.worker_no)

    async def reap(self) -> None:
        connection = self._ledger.connection
        if self._chance.random() < 0.1:
            await self._ledger.end_leases()
        await reap_runs(connection, 3, self._ledger.worker_no)
        await reap_claims(connection, 3, self._ledger.worker_no)
        await apply_withdrawals(connection, 10)

    def _some(self, every: list[T], most: int) -> list[T]:
        return self._chance.sample(every, min(most, len(every)))


@pytest.mark.parametrize("seed", [1, 2])
async def test_g4_g8_everybody_at_once_neither_deadlocks_nor_breaks_the_identity(
    ledger: Ledger, database: str, seed: int
) -> None:
    world = World()
    drafts = ledger.make_drafts(KEYS)
    ledgers = [
        Ledger(
            await connect(database, application_name=f"actor-{number}"),
            ledger.worker_no,
            ledger.other_worker_no,
            ledger.make_drafts,
            ledger.kind,
        )
        for number in range(8)
    ]
    actors = [
        Actor(each, world, random.Random(f"{seed}-{number}"), drafts)  # noqa: S311 - no secret
        for number, each in enumerate(ledgers)
    ]

    await asyncio.gather(*(actor.act() for actor in actors))

    await ledger.check_balance()
    doubled = await ledger.connection.fetchval(
        "select count(*) from (select item_no from ledger.pending union all"
        " select item_no from ledger.review union all select item_no from ledger.open_item"
        " union all select item_no from ledger.transition where event in (5, 11, 12, 13, 14)"
        ") standing group by item_no having count(*) > 1"
    )
    assert doubled is None
    emitted = await ledger.connection.fetchval("select count(*) from ledger.due_item")
    assert emitted == len(set(world.ids))
    for each in ledgers:
        await each.connection.close()


async def test_emitters_who_need_a_month_that_is_being_made_wait_for_it(
    ledger: Ledger, database: str
) -> None:
    """The window is a moment wide: many sessions that know the table, many new months."""
    rivals = [await connect(database, application_name="rival") for _ in range(8)]
    for number, rival in enumerate(rivals):
        await emit_items(
            rival, ledger.make_drafts(prefix=f"first-{number}"), actor_no=ledger.worker_no
        )
    for month in range(1, 13):
        await asyncio.gather(
            *(
                emit_items(
                    rival,
                    ledger.make_drafts(
                        prefix=f"rival-{number}", effective_date=date(2031, month, 1)
                    ),
                    actor_no=ledger.worker_no,
                )
                for number, rival in enumerate(rivals)
            )
        )
    emitted = await ledger.connection.fetchval("select count(*) from ledger.due_item")
    assert emitted == 8 * 13
    for rival in rivals:
        await rival.close()
