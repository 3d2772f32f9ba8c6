"""An event that concerns several business keys is applied to each by its own time."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta

import pytest

from dueledger.ledger.errors import InvalidEvent
from dueledger.ledger.intake import record
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection, PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.reconciler import Reconciler, ReconcilerSources

from .conftest import BEGINNING, Take, activated, renewal

SetRule = Callable[..., Awaitable[int]]

STATES = """
select i.business_key, coalesce(e.name, 'open') as state
from ledger.due_item i
left join ledger.transition t on t.item_no = i.item_no
left join ledger.transition_event e on e.event = t.event
"""


@pytest.fixture
async def reconciler(connection: Connection, database: str) -> AsyncGenerator[Reconciler]:
    actor_no = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
    async with open_pool(database, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield Reconciler(pool, ReconcilerSources(), actor_no)


def replaced(old: str, new: str, *, minute: int) -> DomainEvent:
    return DomainEvent(
        "insurer",
        "/insurer/policies",
        f"replaced-{old}-{new}",
        "PolicyReplaced",
        BEGINNING + timedelta(minutes=minute),
        new,
        {"policy": new, "old": old, "term": "2027", "expires_on": "2027-03-01"},
    )


@pytest.fixture(params=[True, False], ids=["ends_first", "owes_first"])
async def rules(request: pytest.FixtureRequest, set_rule: SetRule, kind: str) -> None:
    """A replacement ends what the old policy owes, and owes for the new one: two rules."""
    ends = renewal(
        kind,
        definition="ends",
        cancel_on=[{"event": "PolicyReplaced", "business_key": "data.old"}],
        supersede_on=[],
    )
    owes = renewal(kind, definition="owes", event="PolicyReplaced", cancel_on=[], supersede_on=[])
    for rule in (ends, owes) if request.param else (owes, ends):
        await set_rule(rule)


async def states(connection: Connection) -> dict[str, str]:
    return {row["business_key"]: row["state"] for row in await connection.fetch(STATES)}


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("late", [False, True])
async def test_g1_an_event_of_two_keys_is_applied_to_both_whatever_is_received_later(
    take: Take, connection: Connection, reconciler: Reconciler, *, late: bool
) -> None:
    events = [activated("old", minute=10), replaced("old", "new", minute=20)]
    for event in reversed(events) if late else events:
        await take(event)
    assert await states(connection) == {"old": "cancelled", "new": "open"}
    copies = await take(*events)
    assert (copies.duplicates, copies.emitted) == (2, 0)
    await take(replaced("new", "newest", minute=15))  # before the other one owes the new policy
    found = await states(connection)
    assert found == {"old": "cancelled", "new": "open", "newest": "open"}
    assert (await reconciler.run_pass()).found == {}


async def test_a_key_with_more_events_than_are_read_refuses_the_next_and_says_so(
    take: Take,
    set_rule: SetRule,
    connection: Connection,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await set_rule(renewal(kind))
    monkeypatch.setattr(record, "_KNOWN_EVENTS_MAX", 2)
    for minute in range(3):
        await take(activated("P-1", minute=minute))
    with pytest.raises(InvalidEvent, match=r"business_key: has over 2 earlier events \(got P-1\)"):
        await take(activated("P-1", minute=3))
    await take(activated("P-2", minute=3))
    assert await connection.fetchval("select count(*) from ledger.event") == 4
