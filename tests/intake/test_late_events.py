"""Events that are received after the window of their rule: skipped with a row, in any order."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection, PlanProfile, clock, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import read_accounting
from dueledger.reconciler import PassLimits, Reconciler, ReconcilerSources
from tests.databases import DatabasePool, MakeDatabase
from tests.examples import examples
from tests.published_records import nothing_published

from .conftest import Take, renewal

pytestmark = pytest.mark.long

SetRule = Callable[..., Awaitable[int]]
Ends = Callable[[], Awaitable[dict[str, str]]]

FIRST_DUE = datetime(2027, 3, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)
WINDOW_DAYS = 2
WINDOW = {"policy": "all", "window": f"P{WINDOW_DAYS}D", "max_items": 1}
NOW = FIRST_DUE + 20 * DAY
AT_NINE = {"relative": "P0D", "to": "effective_date", "at": "09:00", "timezone": "UTC"}
SKIPPED, OPEN = "skipped catch_up", "open"
NOTHING = {FindingType.OVERDUE: 0}


class Delivery(NamedTuple):
    """An event of a policy's occurrence: due and received so many days after FIRST_DUE.

    Each `telling` is another event of the same occurrence, the higher the earlier it happened.
    """

    policy: int
    due: int
    telling: int
    received: int

    def event(self, name: str) -> DomainEvent:
        happened = FIRST_DUE - timedelta(minutes=self.telling)
        return event_of("PolicyActivated", f"{name}-{self.policy}", self.due, happened)


DELIVERIES = st.lists(
    st.builds(Delivery, st.integers(0, 1), st.integers(0, 3), st.integers(0, 2), st.integers(0, 6)),
    min_size=1,
    max_size=14,
)


def event_of(event_type: str, policy: str, due: int, happened: datetime) -> DomainEvent:
    day = (FIRST_DUE + due * DAY).date().isoformat()
    identity = f"{event_type}-{policy}-{due}-{happened.isoformat()}"
    body = {"policy": policy, "term": "2027", "expires_on": day}
    return DomainEvent("insurer", "/policies", identity, event_type, happened, policy, body)


def late(kind: str, **changed: object) -> dict[str, Any]:
    """Return the rule: due on the day itself at nine, and owed for two days after that."""
    return renewal(kind, when=AT_NINE, catch_up=WINDOW) | changed


@pytest.fixture(scope="module")
def make_database(march_database_pool: DatabasePool) -> MakeDatabase:
    return march_database_pool.lease


@pytest.fixture
async def at(connection: Connection) -> Callable[[datetime], Awaitable[None]]:
    """Set the clock to an instant."""

    async def stand(instant: datetime) -> None:
        await clock.set_clock(connection, instant, 0)

    return stand


@pytest.fixture
async def reconciler(connection: Connection, database: str) -> AsyncGenerator[Reconciler]:
    """A reconciler for whom it is twenty days after the first item was due."""
    await clock.set_clock(connection, NOW, 0, database=True)
    actor_no = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
    async with open_pool(database, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield Reconciler(
            pool,
            ReconcilerSources(),
            actor_no,
            limits=PassLimits(stuck_seconds=0),
            record_index=nothing_published(),
        )


@pytest.fixture
def read_ends(connection: Connection) -> Ends:
    """Read the state of each item, by business key and effective date; if skipped, the reason."""

    async def read() -> dict[str, str]:
        rows = await connection.fetch(
            """
            select i.business_key || ' ' || i.effective_date as item,
              coalesce(e.name || ' ' || (t.detail ->> 'reason'), 'open') as state
            from ledger.due_item i
            left join ledger.transition t on t.effective_date = i.effective_date
              and t.item_no = i.item_no and t.event <> 15 /* revised */
            left join ledger.transition_event e on e.event = t.event
            order by 1
            """
        )
        return {row["item"]: row["state"] for row in rows}

    return read


async def lose_everything(connection: Connection) -> int:
    """Take every item away and leave the events; return how many there were."""
    for table in ("due_item", "transition"):
        await connection.execute(f"alter table ledger.{table} disable trigger user")
    for table in ("pending", "transition"):
        await connection.execute(f"delete from ledger.{table}")  # noqa: S608 - named above
    return len(await connection.fetch("delete from ledger.due_item returning id"))


async def count_found(reconciler: Reconciler) -> dict[FindingType, int]:
    """Count the findings of a pass, without those of due items that no worker worked."""
    found = (await reconciler.run_pass()).found
    return {type_: count for type_, count in found.items() if count} | NOTHING


@pytest.mark.parametrize(
    ("received", "end"),
    [
        (FIRST_DUE - DAY, OPEN),
        (FIRST_DUE + 2 * DAY, OPEN),
        (FIRST_DUE + 2 * DAY + timedelta(microseconds=1), SKIPPED),
    ],
)
async def test_g2_what_was_due_before_the_window_when_its_event_came_is_skipped_with_the_reason(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    at: Callable[[datetime], Awaitable[None]],
    connection: Connection,
    kind: str,
    received: datetime,
    end: str,
) -> None:
    await set_rule(late(kind))
    await at(received)
    event = event_of("PolicyActivated", "P-1", 0, FIRST_DUE - 9 * DAY)
    taken = await take(event, event_of("PolicyActivated", "P-2", 6, FIRST_DUE - 9 * DAY))
    assert await read_ends() == {"P-1 2027-03-01": end, "P-2 2027-03-07": OPEN}
    assert (taken.emitted, taken.skipped) == ((2, 0) if end == OPEN else (1, 1))
    (accounting,) = await read_accounting(connection)
    assert (accounting.skipped, accounting.difference) == (taken.skipped, 0)
    event_nos = await connection.fetch("select event_no from ledger.due_item")
    assert all(row["event_no"] for row in event_nos)


async def test_the_instant_that_counts_is_the_smeared_one(
    take: Take,
    set_rule: SetRule,
    at: Callable[[datetime], Awaitable[None]],
    connection: Connection,
    kind: str,
) -> None:
    await set_rule(late(kind, smear="PT10H"))
    await at(FIRST_DUE + WINDOW_DAYS * DAY + timedelta(hours=5))
    events = [event_of("PolicyActivated", f"P-{n}", 0, FIRST_DUE - DAY) for n in range(20)]
    taken = await take(*events)
    rows = await connection.fetch(
        "select i.smear_seconds >= 18000 as owed, i.item_no in (select item_no from ledger.pending)"
        " as waits from ledger.due_item i"
    )
    assert all(row["owed"] == row["waits"] for row in rows)
    assert taken.emitted + taken.skipped == 20
    assert taken.emitted
    assert taken.skipped


async def test_a_duplicate_a_replay_and_an_amendment_leave_as_it_is_what_the_first_event_decided(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    at: Callable[[datetime], Awaitable[None]],
    kind: str,
) -> None:
    await set_rule(late(kind))
    events = [event_of("PolicyActivated", f"P-{n}", n, FIRST_DUE - DAY) for n in (0, 3)]
    await at(FIRST_DUE + 3 * DAY)
    await take(*events)
    decided = await read_ends()
    assert decided == {"P-0 2027-03-01": SKIPPED, "P-3 2027-03-04": OPEN}
    await at(FIRST_DUE + 9 * DAY)
    again = await take(*events)
    repeated = [event_of("PolicyActivated", f"P-{n}", n, FIRST_DUE - 2 * DAY) for n in (0, 3)]
    amended = [event_of("PolicyAmended", f"P-{n}", n, FIRST_DUE - DAY / 2) for n in (0, 3)]
    replayed = await take(*repeated, *amended)
    assert (again.duplicates, replayed.duplicates) == (2, 0)
    assert (again.emitted, again.skipped, replayed.emitted, replayed.skipped) == (0, 0, 0, 0)
    assert await read_ends() == decided


async def test_a_replacement_that_comes_too_late_is_skipped_and_what_it_replaces_still_ends(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    reconciler: Reconciler,
    at: Callable[[datetime], Awaitable[None]],
    kind: str,
) -> None:
    await set_rule(late(kind))
    await at(FIRST_DUE)
    await take(event_of("PolicyActivated", "P-1", 5, FIRST_DUE - DAY))
    await at(FIRST_DUE + 4 * DAY)
    await take(event_of("PolicyAmended", "P-1", 0, FIRST_DUE))
    assert await read_ends() == {
        "P-1 2027-03-01": SKIPPED,
        "P-1 2027-03-06": "superseded PolicyAmended",
    }
    assert await count_found(reconciler) == NOTHING


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_cancellation_leaves_skipped_what_came_too_late(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    reconciler: Reconciler,
    at: Callable[[datetime], Awaitable[None]],
    kind: str,
    *,
    cancelled_first: bool,
) -> None:
    await set_rule(late(kind))
    await at(FIRST_DUE + 4 * DAY)
    events = [
        event_of("PolicyActivated", "P-1", 0, FIRST_DUE - DAY),
        event_of("PolicyCancelled", "P-1", 0, FIRST_DUE),
    ]
    for event in reversed(events) if cancelled_first else events:
        await take(event)
    assert await read_ends() == {"P-1 2027-03-01": SKIPPED}
    assert await count_found(reconciler) == NOTHING


@settings(
    max_examples=examples(10, full=25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(deliveries=DELIVERIES, cut=st.integers(1, 4), number=st.uuids())
async def test_g11_shuffled_doubled_and_late_events_end_alike_and_so_do_their_repairs(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    reconciler: Reconciler,
    at: Callable[[datetime], Awaitable[None]],
    connection: Connection,
    kind: str,
    deliveries: Sequence[Delivery],
    cut: int,
    number: object,
) -> None:
    """Of one item's events the first to come decides; within an instant no order matters."""
    await lose_everything(connection)
    await connection.execute("delete from ledger.event")  # of the example before
    await connection.execute("delete from ledger.event_key")
    await set_rule(late(kind))
    name = f"P-{number}"
    for received in sorted({delivery.received for delivery in deliveries}):
        await at(FIRST_DUE + received * DAY)
        together = [each.event(name) for each in deliveries if each.received == received]
        for begin in range(0, len(together), cut):
            await take(*together[begin : begin + cut])
    ends = await read_ends()
    assert ends == _expected(deliveries, name)

    assert await count_found(reconciler) == NOTHING
    lost = await lose_everything(connection)
    assert (await reconciler.run_pass()).found[FindingType.MISSING] == lost == len(ends)
    assert await reconciler.repair(await reconciler.plan()) == lost
    assert await read_ends() == ends
    assert await count_found(reconciler) == NOTHING


def _expected(deliveries: Sequence[Delivery], name: str) -> dict[str, str]:
    first: dict[tuple[str, date], int] = {}
    for each in sorted(deliveries, key=lambda delivery: delivery.received):
        day = (FIRST_DUE + each.due * DAY).date()
        first.setdefault((f"{name}-{each.policy}", day), each.received - each.due)
    return {
        f"{policy} {day}": SKIPPED if days > WINDOW_DAYS else OPEN
        for (policy, day), days in first.items()
    }


@pytest.mark.parametrize("first_has_window", [True, False])
async def test_g11_the_version_in_force_when_the_first_event_came_decides_in_a_repair_too(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    reconciler: Reconciler,
    at: Callable[[datetime], Awaitable[None]],
    connection: Connection,
    kind: str,
    *,
    first_has_window: bool,
) -> None:
    """The second event happened before the first, so its terms count in a repair."""
    without: Mapping[str, Any] = late(kind, catch_up={"policy": "all"})
    change = FIRST_DUE + 5 * DAY
    versions = [late(kind), without] if first_has_window else [without, late(kind)]
    await set_rule(versions[0])
    await set_rule(versions[1], effective_from=change)
    await at(FIRST_DUE + 4 * DAY)
    await take(event_of("PolicyActivated", "P-1", 0, FIRST_DUE))
    await at(FIRST_DUE + 6 * DAY)
    await take(event_of("PolicyActivated", "P-1", 0, FIRST_DUE - DAY))
    end = SKIPPED if first_has_window else OPEN
    assert await read_ends() == {"P-1 2027-03-01": end}

    assert await lose_everything(connection) == 1
    assert (await count_found(reconciler))[FindingType.MISSING] == 1
    (planned,) = await reconciler.plan()
    assert planned.would.startswith("Record" if first_has_window else "Emit")
    assert await reconciler.repair([planned]) == 1
    assert await read_ends() == {"P-1 2027-03-01": end}
    assert await count_found(reconciler) == NOTHING


async def test_of_two_rules_that_one_event_owes_the_same_item_under_one_decides_everywhere(
    take: Take,
    set_rule: SetRule,
    read_ends: Ends,
    reconciler: Reconciler,
    at: Callable[[datetime], Awaitable[None]],
    connection: Connection,
    kind: str,
) -> None:
    """The rule defined first, though the other comes first by name."""
    await set_rule(late(kind, definition="z"))
    await set_rule(late(kind, definition="a", catch_up={"policy": "all"}))
    await at(FIRST_DUE + 4 * DAY)
    await take(event_of("PolicyActivated", "P-1", 0, FIRST_DUE))
    assert await read_ends() == {"P-1 2027-03-01": SKIPPED}
    assert await lose_everything(connection) == 1
    assert (await count_found(reconciler))[FindingType.MISSING] == 1
    assert await reconciler.repair(await reconciler.plan()) == 1
    assert await read_ends() == {"P-1 2027-03-01": SKIPPED}
