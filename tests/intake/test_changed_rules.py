"""Known events that the next version of a rule reads otherwise than the one of their time."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection
from dueledger.reconciler import Reconciler

from .conftest import BEGINNING, Take, TakeAtOnce, activated, cancelled, renewal
from .test_reinstatements import name_after

SetRule = Callable[..., Awaitable[int]]

UNREAD_EXPIRY: Final = {FindingType.EVENT_UNMATCHED: 1}
"""What a pass finds: no version in force when the expiry was received read it."""


def expired(policy: str, *, minute: int) -> DomainEvent:
    event = cancelled(policy, minute=minute)
    return DomainEvent(
        event.tenant,
        event.source,
        f"expired-{event.id}",
        "PolicyExpired",
        event.time,
        event.subject,
        event.data,
    )


async def read_endings(connection: Connection) -> dict[str, str]:
    rows = await connection.fetch(
        "select i.cycle, coalesce(e.name, 'open') as ending from ledger.due_item i"
        " left join ledger.transition t on t.effective_date = i.effective_date"
        " and t.item_no = i.item_no and t.event <> 15"
        " left join ledger.transition_event e on e.event = t.event order by i.item_no"
    )
    return {row["cycle"]: row["ending"] for row in rows}


async def name_expiry(connection: Connection, set_rule: SetRule, kind: str) -> None:
    """Put a version in force by which an expiry cancels."""
    cancelling = [
        {"event": event, "business_key": "data.policy"}
        for event in ("PolicyCancelled", "PolicyExpired")
    ]
    now = await connection.fetchval("select clock_timestamp()")
    assert now > BEGINNING
    await set_rule(renewal(kind, cancel_on=cancelling), effective_from=now)


@pytest.fixture
async def expiry_cancels(
    connection: Connection, take: Take, set_rule: SetRule, kind: str
) -> DomainEvent:
    """An activation, and an expiry that no rule named when it was received and one names now."""
    expiry = expired("P-1", minute=10)
    await set_rule(renewal(kind))
    await take(activated("P-1", minute=0))
    await take(expiry)
    await name_expiry(connection, set_rule, kind)
    return expiry


async def test_g1_a_cancellation_ends_what_an_earlier_one_ends_only_by_the_rule_of_now(
    connection: Connection,
    take: Take,
    reconciler: Reconciler,
    expiry_cancels: DomainEvent,
) -> None:
    assert expiry_cancels
    assert (await take(cancelled("P-1", minute=20))).withdrawn == 1
    assert await read_endings(connection) == {"2027": "cancelled"}
    assert (await reconciler.run_pass()).found == UNREAD_EXPIRY


async def test_g1_an_activation_after_it_leaves_one_item_open(
    connection: Connection,
    take: Take,
    reconciler: Reconciler,
    expiry_cancels: DomainEvent,
) -> None:
    await take(activated("P-1", minute=30))
    assert await read_endings(connection) == {
        "2027": "cancelled",
        name_after(expiry_cancels): "open",
    }
    assert (await reconciler.run_pass()).found == UNREAD_EXPIRY


async def test_g1_an_event_that_waits_for_one_without_a_rule_sees_it_by_the_rule_of_now(
    connection: Connection,
    take: Take,
    take_at_once: TakeAtOnce,
    set_rule: SetRule,
    reconciler: Reconciler,
    kind: str,
) -> None:
    """The process that records the first event has not read the newer version of the rule."""
    expiry = expired("P-1", minute=10)
    await set_rule(renewal(kind))
    await take(activated("P-1", minute=0))

    await take_at_once(
        expiry, activated("P-1", minute=30), between=lambda: name_expiry(connection, set_rule, kind)
    )

    assert await read_endings(connection) == {"2027": "cancelled", name_after(expiry): "open"}
    assert (await reconciler.run_pass()).found == UNREAD_EXPIRY


async def test_g1_an_activation_is_owed_once_a_rule_reinstates(
    connection: Connection,
    take: Take,
    set_rule: SetRule,
    reconciler: Reconciler,
    kind: str,
) -> None:
    cancellation = cancelled("P-1", minute=10)
    await set_rule(renewal(kind, reinstate="never"))
    await take(activated("P-1", minute=0), cancellation)
    await take(activated("P-1", minute=20))
    assert await read_endings(connection) == {"2027": "cancelled"}
    now = await connection.fetchval("select clock_timestamp()")
    await set_rule(renewal(kind), effective_from=now)

    await take(activated("P-1", minute=30))

    assert await read_endings(connection) == {"2027": "cancelled", name_after(cancellation): "open"}
    assert (await reconciler.run_pass()).found == {}
