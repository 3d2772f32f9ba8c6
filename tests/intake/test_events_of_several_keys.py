"""An event that concerns several business keys is applied to each by its own time."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from aiokafka import ConsumerRecord

from dueledger.ledger.intake import record
from dueledger.ledger.kafka.envelope import REJECTED_CODE, REJECTED_FIELD, REJECTED_REASON
from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.events import list_key_events
from dueledger.reconciler import Reconciler

from .conftest import (
    BEGINNING,
    Send,
    Take,
    TakeAll,
    TakeAtOnce,
    activated,
    cancelled,
    message,
    renewal,
)

SetRule = Callable[..., Awaitable[int]]

STATES = """
select i.business_key, coalesce(e.name, 'open') as state
from ledger.due_item i
left join ledger.transition t on t.item_no = i.item_no
left join ledger.transition_event e on e.event = t.event
"""


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


@pytest.mark.usefixtures("rules")
async def test_g1_two_processes_that_record_events_of_one_key_at_once_miss_neither(
    take_at_once: TakeAtOnce, connection: Connection, reconciler: Reconciler
) -> None:
    """The key is the first of one event, and either the first or the second of the other."""
    await take_at_once(replaced("old", "new", minute=20), activated("old", minute=10))
    assert await states(connection) == {"old": "cancelled", "new": "open"}
    assert (await reconciler.run_pass()).found == {}


@pytest.mark.usefixtures("rules")
async def test_an_event_is_listed_once_however_many_of_its_keys_are_asked_about(
    take: Take, set_rule: SetRule, connection: Connection, kind: str
) -> None:
    await set_rule(
        renewal(kind, definition="third", event="PolicyReplaced", business_key="data.term")
    )
    event = replaced("old", "new", minute=20)
    await take(event)
    for keys in (["old"], ["new", "2027"], ["old", "2027"], ["old", "new", "2027"]):
        tenants = ["insurer"] * len(keys)
        listed = await list_key_events(connection, tenants, keys, [event.type], limit=9)
        assert [each.id for each in listed] == [event.id], keys


async def test_a_key_with_more_events_than_are_read_rejects_the_next_and_says_what_to_do(
    intake: TopicIntake,
    send: Send,
    take_all: TakeAll,
    read_rejected: Callable[[int], Awaitable[list[ConsumerRecord]]],
    set_rule: SetRule,
    connection: Connection,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await set_rule(renewal(kind))
    monkeypatch.setattr(record, "_KNOWN_EVENTS_MAX", 2)
    await send([message(activated("P-1", minute=minute)) for minute in range(3)])
    await take_all(intake, 3)
    await send([message(cancelled("P-1", minute=3)), message(activated("P-2", minute=3))])
    sums = await take_all(intake, 2)
    assert (sums["events"], sums["rejected"]) == (1, 1)
    assert await connection.fetchval("select count(*) from ledger.event") == 4
    (rejected,) = await read_rejected(1)
    headers = dict(rejected.headers)
    assert (headers[REJECTED_CODE], headers[REJECTED_FIELD]) == (b"INVALID_EVENT", b"business_key")
    assert (
        headers[REJECTED_REASON]
        .decode()
        .endswith(
            "business_key: has over 2 earlier events (got P-1)."
            " Write: a business key that fewer events concern."
        )
    )
