"""A clean ledger: more than 50,000 items of every origin, of which each ended as it should."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.intake.apply.events_by_subject import interpret_event
from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.intake.record import record_batch
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, clock, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    claim_serial_items,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.definitions import define, list_event_rules, read_rules_version
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.ledger.store.partitions import make_event_months, make_partitions
from dueledger.ledger.store.runs import (
    Outcome,
    Settlement,
    StartResult,
    settle_runs,
    start_runs,
)
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings
from tests.claim_ids import claim_ids, run_ids
from tests.logins import make_logins, with_login
from tests.seals import put_grace

from .damaged_ledger import TARGETS
from .documents import (
    ACME,
    FIRST,
    HORIZON,
    LATER,
    NOW,
    PAYMENTS,
    START,
    UMBRELLA,
    letter_declaration,
)

STARTED_BEFORE: Final = "update ledger.run set started_at = started_at - interval '1 millisecond'"
"""The clock stands still while items are worked, and work takes time."""
EVENTS: Final = 1_200
"""Of each of two tenants."""
PREMIUMS: Final = 26_000
NOTICES: Final = 10_000
LETTERS_BY_KAFKA: Final = 2_000
LETTERS: Final = 6_000
PAYMENTS_OF_A_KEY: Final = 3
BOOKED: Final = "Reminder"
"""A kind of a schedule whose effects are evidence."""
IN_FLIGHT: Final = ("Reminder", "Renewal", "Premium", "Notice")
ITEMS_IN_FLIGHT: Final = 24
"""Of each flow of these kinds: half of them started."""
PAYERS: Final = 400
BATCH: Final = 4_000
EVENTS_A_BATCH: Final = 500
LEASE_SECONDS: Final = 30 * 86_400
"""Longer than a run of all cases: a run that an edit opens again is not late."""
QUOTA: Final = 5_000
HOUR: Final = timedelta(hours=1)

COMPLETED: Final = Outcome(TransitionEvent.COMPLETED)
FAILED: Final = Outcome(TransitionEvent.FAILED, '{"reason":"busy"}', 1.0)
PARKED: Final = Outcome(TransitionEvent.PARKED, '{"reason":"unclear"}')

DOMAIN: Final = """
create table public.policy_due (
  tenant text, kind text, business_key text, cycle text, effective_date date,
  due_at timestamptz, payload text);
create table public.booking (item_id uuid, reference text);
create index on public.booking (item_id);
grant all on public.policy_due, public.booking to public
"""
OWE: Final = """
insert into public.policy_due
select tenant, kind, business_key, cycle, effective_date, due_at, payload
from jsonb_to_recordset($1::jsonb) as r
  (tenant text, kind text, business_key text, cycle text, effective_date date,
   due_at timestamptz, payload text)
"""
FLOWS: Final = "select flow_no from ledger.flow where kind = any ($1::text[]) order by flow_no"
OPEN_CLAIMS: Final = """
select fence, size, started from ledger.claim
where closed_at is null and started < size order by fence
"""
OPEN_RUNS: Final = """
select run_no, to_position - from_position + 1 as size from ledger.run
where closed_at is null order by run_no
"""
BOOK_ENDED: Final = """
insert into public.booking
select i.id, k.name || '-' || i.item_no
from ledger.due_item i
join ledger.flow f using (flow_no)
join ledger.kind k using (kind_no)
join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
where k.name = $1 and t.event = 5 /* completed */
  and not exists (select from public.booking b where b.item_id = i.id)
"""


@asynccontextmanager
async def connected(dsn: str) -> AsyncGenerator[Connection]:
    """Connect to a database for a while."""
    connection = await connect(dsn, application_name="clean")
    try:
        yield connection
    finally:
        await connection.close()


@dataclass(slots=True)
class CleanLedger:
    """Builds the ledger on one connection; `letters` is a kind of its own, and so is its topic."""

    connection: Connection
    dsn: str
    bootstrap_servers: str
    letters: str
    actors: dict[ActorKind, int] = field(default_factory=dict[ActorKind, int])

    async def begin(self) -> None:
        """Make logins, the domain's tables, partitions and actors, at the start of the run."""
        await make_logins(self.connection)
        await self.connection.execute(DOMAIN)
        await self.set_time(START)
        await make_partitions(self.connection, ahead=timedelta(days=62))
        for kind in ActorKind:
            self.actors[kind] = await register_actor(self.connection, f"{kind}:clean", kind)

    async def build(self) -> None:
        """Make all of it."""
        await self.begin()
        for document in (*FIRST, letter_declaration(self.letters), PAYMENTS):
            await self.accept(document)
        await self.materialise(HORIZON)
        for document in LATER:
            await self.accept(document)
        await self.set_time(NOW - timedelta(minutes=1))
        await self.materialise(timedelta(days=1))
        await self._receive_events()
        letters = drafts_of(self.letters, LETTERS)
        await self.emit(letters[:LETTERS_BY_KAFKA])
        await self._publish_letters()  # now, as it makes the topics of all kinds that are due
        await asyncio.gather(self._print_letters(), self._emit_all())
        await put_grace(self.connection, 30 * 86_400)
        await self.emit(letters[LETTERS_BY_KAFKA:])
        await self.set_time(NOW)
        await self._leave_in_flight()
        await self._work_serially()
        await self._work_in_bulk()
        for kind in (self.letters, BOOKED):
            await self.connection.execute(BOOK_ENDED, kind)
        await self.connection.execute(TARGETS)
        await self.connection.execute(STARTED_BEFORE)
        await self.connection.execute("analyze")

    async def set_time(self, instant: datetime) -> None:
        """Set business time for this session and those that come after it."""
        await clock.set_clock(self.connection, instant, 0, database=True)

    async def accept(self, document: dict[str, Any]) -> None:
        definition = parse_definition(document, calendars=None)
        await define(
            self.connection,
            definition.normalised(),
            tenant=definition.tenant,
            name=definition.definition,
            kind=definition.kind,
            event_type=definition.event,
            effective_from=START,
            actor_no=self.actors[ActorKind.PERSON],
        )

    async def materialise(self, horizon: timedelta) -> None:
        dsn = with_login(self.dsn, "materialiser")
        settings = MaterialiserSettings(
            dsn=SecretStr(dsn),
            materialise_horizon_seconds=horizon.total_seconds(),
            materialise_items_max=20_000,
        )
        async with open_pool(dsn, application_name="clean", profile=PlanProfile.ANALYTIC) as pool:
            materialiser = Materialiser(
                pool, settings, actor_no=self.actors[ActorKind.MATERIALISER]
            )
            while any((await materialiser.tick()).values()):
                pass

    async def _receive_events(self) -> None:
        """Receive what activates policies, of two tenants, and what cancels some of them."""
        events = [
            event_of(tenant, "PolicyActivated", number)
            for tenant in (ACME, UMBRELLA)
            for number in range(EVENTS)
        ]
        events += [event_of(ACME, "PolicyCancelled", number) for number in range(0, EVENTS, 40)]
        await self.receive(events)

    async def receive(self, events: Sequence[DomainEvent]) -> None:
        """Receive domain events, as the intake does."""
        await make_event_months(self.connection, [START.date()])
        for first in range(0, len(events), EVENTS_A_BATCH):
            async with self.connection.transaction():
                rules = RulesInForce(
                    await read_rules_version(self.connection),
                    await list_event_rules(self.connection),
                )
                reads = [
                    interpret_event(rules, event, orjson.dumps(event.data).decode())
                    for event in events[first : first + EVENTS_A_BATCH]
                ]
                await record_batch(
                    self.connection, rules, reads, actor_no=self.actors[ActorKind.INTAKE]
                )
            if not first:
                await self.connection.execute("analyze ledger.event, ledger.due_item")

    async def _emit_all(self) -> None:
        """Emit as services do; a person cancels some, and the domain says what it owes."""
        premiums = drafts_of("Premium", PREMIUMS)
        notices = drafts_of("Notice", NOTICES)
        payments = [
            replace(
                draft,
                business_key=f"payment-{number:06}",
                partition_key=f"payer-{number % PAYERS:04}",
                due_at=START + HOUR * (1 + number // PAYERS),
            )
            for number, draft in enumerate(drafts_of("Payment", PAYERS * PAYMENTS_OF_A_KEY))
        ]
        await self.emit([*premiums, *notices, *payments])
        await self.owe(premiums)
        await withdraw_items(
            self.connection,
            [draft.id for draft in notices[::100]],
            event=TransitionEvent.CANCELLED,
            reason="asked for",
            actor_no=self.actors[ActorKind.PERSON],
        )

    async def owe(self, drafts: Sequence[ItemDraft]) -> None:
        """Let the domain say that it owes these."""
        owed = [
            {
                "tenant": draft.tenant,
                "kind": draft.kind,
                "business_key": draft.business_key,
                "cycle": draft.cycle,
                "effective_date": draft.effective_date,
                "due_at": draft.due_at,
                "payload": draft.payload,
            }
            for draft in drafts
        ]
        await self.connection.execute(OWE, orjson.dumps(owed).decode())

    async def emit(self, drafts: Sequence[ItemDraft]) -> None:
        for first in range(0, len(drafts), BATCH):
            await emit_items(
                self.connection,
                drafts[first : first + BATCH],
                actor_no=self.actors[ActorKind.SERVICE],
            )

    async def _publish_letters(self) -> None:
        """Let the allocator publish what is due of the letters."""
        topics = [work_topic(self.letters)]
        worker_no = self.actors[ActorKind.WORKER]
        async with connected(self.dsn) as connection:
            await grant_credits(connection, worker_no, topics, [LETTERS_BY_KAFKA], 600)
        settings = AllocatorSettings(
            dsn=SecretStr(with_login(self.dsn, "allocator")),
            bootstrap_servers=self.bootstrap_servers,
        )
        async with open_allocator(settings, stop=Stop()) as allocator:
            while (await allocator.tick()).get("claimed"):
                pass

    async def _print_letters(self) -> None:
        """Let a worker print the letters that were published."""
        await run_worker(
            self.worker_settings(), booking_handlers(self.letters, self.dsn), Stop(), once=True
        )

    def worker_settings(self) -> WorkerSettings:
        """Return the settings of the worker that prints letters."""
        return WorkerSettings(
            dsn=SecretStr(with_login(self.dsn, "worker")),
            bootstrap_servers=self.bootstrap_servers,
            worker_group_id=f"group-{self.letters}",
            worker_session_timeout_seconds=6,
        )

    async def _leave_in_flight(self) -> None:
        """Leave items of some kinds claimed and running."""
        for row in await self.connection.fetch(FLOWS, IN_FLIGHT):
            claims = await self.claim_some(
                serial=False, flows=[row["flow_no"]], quota=ITEMS_IN_FLIGHT, seconds=LEASE_SECONDS
            )
            await self.start(claims, [len(claim.item_nos) // 2 for claim in claims])

    async def finish_in_flight(self) -> None:
        """Start what is claimed, and complete what is running."""
        worker_no = await register_actor(self.connection, "worker:clean", ActorKind.WORKER)
        self.actors[ActorKind.WORKER] = worker_no
        opened = await self.connection.fetch(OPEN_CLAIMS)
        await start_runs(
            self.connection,
            await claim_ids(self.connection, [claim["fence"] for claim in opened]),
            [claim["started"] + 1 for claim in opened],
            [claim["size"] for claim in opened],
            worker_no=worker_no,
            lease_seconds=LEASE_SECONDS,
        )
        runs = await self.connection.fetch(OPEN_RUNS)
        settlements = [
            Settlement(run, [COMPLETED] * row["size"])
            for row, run in zip(
                runs,
                await run_ids(self.connection, [row["run_no"] for row in runs]),
                strict=True,
            )
        ]
        assert await settle_runs(self.connection, settlements, worker_no) == []

    async def _work_serially(self) -> None:
        """Work what is ordered by key: one of a key at a time; what overlaps is skipped."""
        while await self.settle_some(serial=True):
            pass

    async def _work_in_bulk(self) -> None:
        """Complete the rest of what is due; some fail first, some are parked."""
        while await self.settle_some(serial=False):
            pass

    async def work_what_is_due_at(self, instant: datetime) -> None:
        """Work everything that is due at an instant, to its end, retries too."""
        for kind in ActorKind:
            self.actors[kind] = await register_actor(self.connection, f"{kind}:clean", kind)
        await self.set_time(instant)
        while await self.settle_some(serial=True) + await self.settle_some(serial=False):
            await self.set_time(instant := instant + HOUR)

    async def claim_some(
        self,
        *,
        serial: bool,
        flows: Sequence[int] = (),
        quota: int = QUOTA,
        seconds: float = 600,
    ) -> list[Claim]:
        """Claim what is due and serial, or not: of all flows, or of some."""
        connection, worker_no = self.connection, self.actors[ActorKind.WORKER]
        if not flows:
            rows = await connection.fetch("select flow_no from ledger.flow order by flow_no")
            flows = [row["flow_no"] for row in rows]
        quotas = [quota] * len(flows)
        async with connection.transaction():
            if serial:
                claimed = await claim_serial_items(connection, flows, quotas, worker_no)
            else:
                claimed = await claim_items(connection, flows, quotas)
            if not claimed:
                return []
            items = claimed.items()
            chunks = [items[first : first + 1_000] for first in range(0, len(items), 1_000)]
            fences = await next_fences(connection, len(chunks))
            claims = [
                Claim(
                    id=new_claim_id(fence, claimed.claimed_at),
                    allocator_no=self.actors[ActorKind.ALLOCATOR],
                    topic="due.bulk",
                    partition=0,
                    item_nos=[row.item_no for row in chunk],
                    effective_dates=[row.effective_date for row in chunk],
                    attempts=[row.attempt + 1 for row in chunk],
                    starts=[row.starts + 1 for row in chunk],
                    queue_seconds=seconds,
                    dispatch_seconds=seconds,
                )
                for fence, chunk in zip(fences, chunks, strict=True)
            ]
            await record_claims(connection, claims)
        return claims

    async def start(self, claims: Sequence[Claim], sizes: Sequence[int]) -> list[StartResult]:
        """Start so many items of each claim."""
        return await start_runs(
            self.connection,
            [claim.id for claim in claims],
            [1] * len(claims),
            sizes,
            worker_no=self.actors[ActorKind.WORKER],
            lease_seconds=LEASE_SECONDS,
        )

    async def settle_some(self, *, serial: bool) -> int:
        """Claim, start and settle what is due; return how much that was."""
        claims = await self.claim_some(serial=serial)
        if not claims:
            return 0
        sizes = [len(claim.item_nos) for claim in claims]
        starts = await self.start(claims, sizes)
        settlements: list[Settlement] = []
        for started, claim in zip(starts, claims, strict=True):
            assert started.run is not None
            outcomes = [
                _outcome(item_no, attempt)
                for item_no, attempt in zip(claim.item_nos, claim.attempts, strict=True)
            ]
            settlements.append(Settlement(started.run, outcomes))
        worker_no = self.actors[ActorKind.WORKER]
        assert await settle_runs(self.connection, settlements, worker_no) == []
        return sum(sizes)


def _outcome(item_no: int, attempt: int) -> Outcome:
    if attempt > 1:
        return COMPLETED
    if item_no % 500 == 7:
        return PARKED
    return FAILED if item_no % 100 == 3 else COMPLETED


def event_of(tenant: str, type_: str, number: int) -> DomainEvent:
    expires = START + timedelta(days=number % 14)
    return DomainEvent(
        tenant,
        "/policies",
        f"{type_}-{number}",
        type_,
        START
        - timedelta(days=1)
        + timedelta(seconds=number + (50_000 if type_ == "PolicyCancelled" else 0)),
        f"P-{number:06}",
        {
            "policy": f"P-{number:06}",
            "term": "2027",
            "expires_on": expires.date().isoformat(),
            "premium": 100 + number % 900,
            "region": f"R{number % 7}",
            "customer": f"C-{number % 500:04}",
        },
    )


def drafts_of(kind: str, count: int) -> list[ItemDraft]:
    """Make items due within the days of the run; about one in fourteen is not due at its end."""
    drafts: list[ItemDraft] = []
    for number in range(count):
        due_at = START + timedelta(days=number % 14, hours=1 + number % 9, minutes=number % 60)
        drafts.append(
            ItemDraft(
                tenant=UMBRELLA if kind == "Notice" and number % 3 == 0 else ACME,
                kind=kind,
                business_key=f"{kind}-{number:06}",
                cycle="2027",
                effective_date=due_at.date(),
                due_at=due_at,
                payload=f'{{"amount":"{number}.00"}}',
            )
        )
    return drafts


def booking_handlers(kind: str, dsn: str) -> Handlers:
    """Return handlers that record an effect of each item of a kind outside the ledger."""
    handlers = Handlers()

    @handlers.on_batch(kind, batch_max=200, concurrency=2)
    async def print_letters(items: list[DueItem]) -> Sequence[Verdict]:
        domain = await asyncpg.connect(dsn)
        await domain.execute(
            "insert into public.booking select i, 'printed' from unnest($1::uuid[]) i",
            [item.id for item in items],
        )
        await domain.close()
        return [Completed() for _ in items]

    return handlers
