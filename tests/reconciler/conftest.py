"""A reconciler on a database of the test's own, and a domain database beside it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime

import asyncpg
import pytest

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.finding_types import FindingType, RepairAction
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, Pool, clock, findings, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    claim_serial_items,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.events import InboxEvent, record_events
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.repair.command_publisher import RepairPublisher
from tests.claim_ids import claim_ids
from tests.conftest import make_partitions_at, prepared_database_pool
from tests.databases import DatabasePool, MakeDatabase
from tests.logins import with_login
from tests.published_records import nothing_published

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
"""Business time in these tests; it is fixed until a test advances it."""

DOMAIN = """
create table policy_due (
  tenant text, kind text, business_key text, cycle text, effective_date date,
  due_at timestamptz, payload text);
create table booking (item_id uuid, business_key text, cycle text, reference text)
"""
"""What the domain says is owed, and what it booked."""
POLICY_QUERY = (
    "select tenant, kind, business_key, cycle, effective_date, due_at, payload from policy_due"
)
BOOKING_QUERY = "select item_id, reference from booking"


async def resolutions(connection: Connection, type_: FindingType) -> list[str]:
    """Return the states of the findings of a type."""
    rows = await findings.list_findings(connection, open_only=False, type_=type_)
    return [row["resolution"] for row in rows]


async def mend(reconciler: Reconciler, **choice: RepairAction) -> int:
    """Plan and execute."""
    reconciler.choice = {FindingType[name]: action for name, action in choice.items()}
    return await reconciler.repair(await reconciler.plan())


domain_database_pool = prepared_database_pool(make_partitions_at(NOON, 62, DOMAIN))


@pytest.fixture(scope="session")
def make_database(domain_database_pool: DatabasePool) -> MakeDatabase:
    return domain_database_pool.lease


@pytest.fixture
async def frozen(connection: Connection) -> Connection:
    """A connection to a database with business time fixed at noon of 2027-03-01."""
    await clock.set_clock(connection, NOON, 0, database=True)
    return connection


@pytest.fixture
async def analytic(
    frozen: Connection,  # noqa: ARG001 - its clock must be set before the pool connects
    database: str,
) -> AsyncGenerator[Pool]:
    dsn = with_login(database, "reconciler")
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield pool


@pytest.fixture
async def reconciler_no(frozen: Connection) -> int:
    return await register_actor(frozen, "reconciler:test", ActorKind.RECONCILER)


@pytest.fixture
def make_reconciler(analytic: Pool, reconciler_no: int) -> Callable[..., Reconciler]:
    def make(
        sources: ReconcilerSources | None = None,
        *,
        limits: PassLimits | None = None,
        publisher: RepairPublisher | None = None,
        repair_max: int = 1_000,
    ) -> Reconciler:
        return Reconciler(
            analytic,
            sources or ReconcilerSources(),
            reconciler_no,
            limits=limits or PassLimits(stuck_seconds=0),
            publisher=publisher,
            repair_max=repair_max,
            record_index=nothing_published(),
        )

    return make


@pytest.fixture
async def domain(database: str) -> AsyncGenerator[asyncpg.Connection]:
    """A session of the domain, to its tables."""
    domain = await asyncpg.connect(database)
    yield domain
    await domain.close()


@pytest.fixture
def policies(database: str) -> SqlPopulation:
    """The items that the domain says are owed."""
    return SqlPopulation(database, POLICY_QUERY, "policies", complete=True)


@pytest.fixture
def bookings(database: str, kind: str) -> SqlEvidence:
    """The effects that the domain booked."""
    return SqlEvidence(database, BOOKING_QUERY, "acme", kind, "bookings")


@pytest.fixture
def owe(domain: asyncpg.Connection) -> Callable[[list[ItemDraft]], Awaitable[None]]:
    """Let the domain say that these drafts are owed."""

    async def say(drafts: list[ItemDraft]) -> None:
        await domain.executemany(
            "insert into policy_due values ($1, $2, $3, $4, $5, $6, $7)",
            [
                (
                    draft.tenant,
                    draft.kind,
                    draft.business_key,
                    draft.cycle,
                    draft.effective_date,
                    draft.due_at,
                    draft.payload,
                )
                for draft in drafts
            ],
        )

    return say


@pytest.fixture
def claim_all(frozen: Connection, actor_no: int) -> Callable[..., Awaitable[list[int]]]:
    """Hand out everything due as one claim a flow; return the fences."""

    async def claim(queue_seconds: int = 60) -> list[int]:
        async with frozen.transaction():
            flows = await frozen.fetch("select flow_no from ledger.flow")
            flow_nos, quotas = [row["flow_no"] for row in flows], [1000] * len(flows)
            rows = await claim_serial_items(frozen, flow_nos, quotas, actor_no)
            rows.add(await claim_items(frozen, flow_nos, quotas))
            if not rows:
                return []
            (fence,) = await next_fences(frozen, 1)
            await record_claims(
                frozen,
                [
                    Claim(
                        id=new_claim_id(fence, rows.claimed_at),
                        allocator_no=actor_no,
                        topic="due.test",
                        partition=0,
                        item_nos=[row.item_no for row in rows.items()],
                        effective_dates=[row.effective_date for row in rows.items()],
                        attempts=[row.attempt for row in rows.items()],
                        starts=[row.starts for row in rows.items()],
                        queue_seconds=queue_seconds,
                        dispatch_seconds=30,
                    )
                ],
            )
        return [fence]

    return claim


@pytest.fixture
def complete_all(
    frozen: Connection, actor_no: int, claim_all: Callable[..., Awaitable[list[int]]]
) -> Callable[..., Awaitable[None]]:
    """Claim, start and settle everything due with one verdict."""

    async def complete(event: TransitionEvent = TransitionEvent.COMPLETED) -> None:
        for fence in await claim_all():
            size = await frozen.fetchval("select size from ledger.claim where fence = $1", fence)
            (start,) = await start_runs(
                frozen,
                await claim_ids(frozen, [fence]),
                [1],
                [size],
                worker_no=actor_no,
                lease_seconds=60,
            )
            assert start.run is not None
            outcomes = [Outcome(event, '{"reason":"because"}', None)] * size
            refused = await settle_runs(frozen, [Settlement(start.run, outcomes)], actor_no)
            assert refused == []
        # The clock stands still, and work takes time.
        await frozen.execute("update ledger.run set started_at = started_at - interval '1 ms'")

    return complete


@pytest.fixture
def land(frozen: Connection) -> Callable[..., Awaitable[None]]:
    """Record domain events in the inbox, as the intake does."""

    async def landed(type_: str, *bodies: str, at: datetime = NOON, tenant: str = "acme") -> None:
        count = await frozen.fetchval("select count(*) from ledger.event")
        await record_events(
            frozen,
            [
                InboxEvent(
                    tenant=tenant,
                    source="/policies",
                    id=f"event-{count + number}",
                    type=type_,
                    occurred_at=at,
                    subject=None,
                    business_key=None,
                    body=body,
                )
                for number, body in enumerate(bodies)
            ],
            actor_no=await register_actor(frozen, "intake:test", ActorKind.INTAKE),
        )

    return landed
