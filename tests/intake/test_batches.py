"""Batches of events against a real ledger: order, duplicates, unknown tenants, replays."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.items import emit_items, read_accounting

from .conftest import (
    BEGINNING,
    Take,
    TakeAtOnce,
    activated,
    amended,
    cancelled,
    complete_everything,
    renewal,
)

SetRule = Callable[[Mapping[str, Any]], Awaitable[int]]
States = Callable[[], Awaitable[dict[str, str]]]

EVENTS = [
    activated("P-1", minute=0),
    amended("P-1", minute=10, expires_on="2027-04-01"),
    amended("P-1", minute=20, expires_on="2027-05-01"),
    cancelled("P-1", minute=30),
    activated("P-1", minute=40, expires_on="2028-03-01"),
]
WITHDRAWN = {TransitionEvent.CANCELLED.label, TransitionEvent.SUPERSEDED.label}


async def test_an_activation_owes_a_renewal_once_however_often_it_comes(
    take: Take, set_rule: SetRule, read_states: States, kind: str
) -> None:
    await set_rule(renewal(kind))
    event = activated("P-1")
    first = await take(event, event)
    again = await take(event)
    assert (first.emitted, first.duplicates, again.emitted, again.duplicates) == (1, 1, 0, 1)
    assert await read_states() == {"P-1 2027-03-01": "open"}


async def test_of_two_events_with_one_source_and_id_the_first_counts_whatever_the_other_contains(
    take: Take, set_rule: SetRule, read_states: States, kind: str
) -> None:
    await set_rule(renewal(kind))
    event = activated("P-1")
    later = replace(event, time=event.time + timedelta(days=40))
    changed = replace(event, data={"policy": "P-1", "term": "2028", "expires_on": "2028-03-01"})
    together = await take(event, later, event)
    assert (together.emitted, together.duplicates, together.altered) == (1, 2, 1)
    again = await take(changed, event, later)
    assert (again.emitted, again.duplicates, again.altered) == (0, 3, 2)
    assert await read_states() == {"P-1 2027-03-01": "open"}


async def test_events_of_two_tenants_with_one_source_and_id_are_two_events(
    take: Take, set_rule: SetRule, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    await set_rule(renewal(kind, tenant="bank"))
    event = activated("P-1")
    taken = await take(event, replace(event, tenant="bank"))
    assert (taken.emitted, taken.duplicates) == (2, 0)
    assert (await take(replace(event, tenant="bank"))).duplicates == 1
    rows = await connection.fetch(
        "select k.tenant from ledger.due_item i join ledger.flow f using (flow_no)"
        " join ledger.kind k using (kind_no) order by 1"
    )
    assert [row["tenant"] for row in rows] == ["bank", "insurer"]


async def test_a_cancellation_that_overtook_its_activation_wins(
    take: Take, set_rule: SetRule, read_states: States, kind: str
) -> None:
    await set_rule(renewal(kind))
    await take(cancelled("P-1", minute=5))
    await take(activated("P-1", minute=1), activated("P-2", minute=1))
    assert await read_states() == {"P-1 2027-03-01": "cancelled", "P-2 2027-03-01": "open"}


async def test_a_late_cancellation_leaves_what_was_activated_after_it(
    take: Take, set_rule: SetRule, read_states: States, kind: str
) -> None:
    await set_rule(renewal(kind))
    await take(activated("P-1", minute=9))
    await take(cancelled("P-1", minute=5))
    assert await read_states() == {"P-1 2027-03-01": "open"}


async def test_an_amendment_supersedes_and_names_the_replacement(
    take: Take, set_rule: SetRule, read_states: States, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    await take(amended("P-1", minute=5), activated("P-1", minute=1))
    assert await read_states() == {"P-1 2027-03-01": "superseded", "P-1 2027-04-01": "open"}
    detail = await connection.fetchval("select detail from ledger.transition")
    replacement = await connection.fetchval(
        "select id::text from ledger.due_item where effective_date = date '2027-04-01'"
    )
    assert detail == {"reason": "PolicyAmended", "replacement": replacement}


async def test_a_cancellation_ends_what_a_service_emitted_itself(
    take: Take,
    set_rule: SetRule,
    read_states: States,
    connection: Connection,
    actor_no: int,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await emit_items(connection, make_drafts(2, tenant="insurer"), actor_no=actor_no)
    await take(cancelled("key-000000", minute=5))
    assert await read_states() == {
        "key-000000 2027-03-01": "cancelled",
        "key-000001 2027-03-01": "open",
    }


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations([*EVENTS, *EVENTS[:3]]),
    cuts=st.sets(st.integers(1, len(EVENTS) + 2), max_size=4),
    number=st.uuids(),
)
async def test_any_order_of_a_keys_events_with_duplicates_leaves_the_same_items_open(
    take: Take,
    set_rule: SetRule,
    read_states: States,
    kind: str,
    order: Sequence[DomainEvent],
    cuts: set[int],
    number: object,
) -> None:
    """Which withdrawal ended an item may differ, for an end is final; whether one did may not."""
    await set_rule(renewal(kind))
    edges = [0, *sorted(cuts), len(order)]
    for start, end in pairwise(edges):
        await take(*(_renamed(event, f"P-{number}") for event in order[start:end]))
    states = {item: end for item, end in (await read_states()).items() if str(number) in item}
    assert {item[-10:]: end in WITHDRAWN for item, end in states.items()} == {
        "2027-03-01": True,
        "2027-04-01": True,
        "2027-05-01": True,
        "2028-03-01": False,
    }


def _renamed(event: DomainEvent, policy: str) -> DomainEvent:
    data = cast("dict[str, str]", event.data)
    return DomainEvent(
        event.tenant,
        event.source,
        f"{event.id}-{policy}",
        event.type,
        event.time,
        policy,
        data | {"policy": policy},
    )


async def test_any_order_of_activation_and_cancellation_leaves_the_very_same_states(
    take: Take, set_rule: SetRule, read_states: States, kind: str
) -> None:
    await set_rule(renewal(kind))
    for seed in range(12):
        policy = f"P-{seed}"
        events = [
            activated(policy, minute=0),
            cancelled(policy, minute=1),
            activated(policy, minute=2, expires_on="2028-03-01"),
            cancelled(policy, minute=3),
            activated(policy, minute=4, expires_on="2029-03-01"),
        ]
        for event in random.Random(seed).sample(events * 2, 10):  # noqa: S311 - a seed names the case
            await take(event)
        states = {item: end for item, end in (await read_states()).items() if policy + " " in item}
        assert list(states.values()) == ["cancelled", "cancelled", "open"], seed


async def test_two_processes_that_record_a_keys_events_at_once_miss_neither(
    take_at_once: TakeAtOnce, set_rule: SetRule, read_states: States, kind: str
) -> None:
    """Each would fold without the other's event, were the key not held until the commit."""
    await set_rule(renewal(kind))
    await take_at_once(activated("P-1", minute=1), cancelled("P-1", minute=5))
    assert await read_states() == {"P-1 2027-03-01": "cancelled"}


async def test_an_event_of_an_unknown_tenant_or_type_is_recorded_as_unmatched(
    take: Take, set_rule: SetRule, connection: Connection, kind: str
) -> None:
    await set_rule(renewal(kind))
    stranger = DomainEvent("nobody", "/nobody", "1", "PolicyActivated", BEGINNING, None, {})
    novelty = DomainEvent("insurer", "/insurer", "2", "PolicyPraised", BEGINNING, "P-1", None)
    taken = await take(stranger, novelty, activated("P-1"))
    assert (taken.unmatched, taken.emitted) == (2, 1)
    rows = await connection.fetch(
        "select tenant, type, matched from ledger.event order by tenant desc, type desc"
    )
    assert [tuple(row) for row in rows] == [
        ("nobody", "PolicyActivated", False),
        ("insurer", "PolicyPraised", False),
        ("insurer", "PolicyActivated", True),
    ]


async def test_g10_a_replay_years_later_returns_what_happened(
    take: Take,
    set_rule: SetRule,
    read_states: States,
    connection: Connection,
    actor_no: int,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await take(activated("P-1"))
    await set_clock(connection, datetime(2027, 3, 1, tzinfo=UTC), 0)
    await complete_everything(connection, actor_no)
    await set_clock(connection, datetime(2034, 1, 1, tzinfo=UTC), 0)
    same = await take(activated("P-1"))
    under_a_new_id = await take(activated("P-1", minute=7))
    assert (same.duplicates, same.emitted) == (1, 0)
    assert (under_a_new_id.duplicates, under_a_new_id.emitted) == (0, 0)
    assert await read_states() == {"P-1 2027-03-01": "completed"}
    (accounting,) = await read_accounting(connection)
    assert (accounting.items, accounting.completed, accounting.difference) == (1, 1, 0)


async def test_a_cancellation_after_completion_changes_nothing(
    take: Take,
    set_rule: SetRule,
    read_states: States,
    connection: Connection,
    actor_no: int,
    kind: str,
) -> None:
    await set_rule(renewal(kind))
    await take(activated("P-1"))
    await set_clock(connection, datetime(2027, 3, 1, tzinfo=UTC), 0)
    await complete_everything(connection, actor_no)
    await take(cancelled("P-1", minute=5))
    assert await read_states() == {"P-1 2027-03-01": "completed"}
