"""Upkeep of keys: it frees those of ended and missing items, and unblocks their next items."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.held_keys import (
    WokenItems,
    free_ended_keys,
    free_ended_keys_of,
    release_keys,
)

from .conftest import Ledger
from .keyed_items import DELETE, Item, holder, make_items, names_of

WAIT, BUFFER = Overlap.WAIT, Overlap.BUFFER_ONE
WAITING: Final = "ledger.pending where available_at = 'infinity'"


async def test_g5_upkeep_visits_the_keys_that_items_wait_for_and_frees_those_that_none_holds(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    items = {
        "early": Item(WAIT, 1, key=0),
        "held": Item(WAIT, 1, "waits", key=1),
        "h": holder(key=1),
        "due": Item(WAIT, 1, key=2),
        "first": Item(WAIT, 1, "waits", key=3),
        "second": Item(WAIT, 2, "waits", key=3),
        "later": Item(WAIT, 1, "later", key=4),
        "last": Item(WAIT, 1, "waits", key=5),
    }
    await make_items(ledger, noon, items)
    assert await release_keys(ledger.connection, None, 2) == WokenItems(1, 3)
    assert await names_of(ledger, WAITING) == {"held", "second", "last"}
    assert await release_keys(ledger.connection, 3, 3) == WokenItems(1, None)
    assert await names_of(ledger, WAITING) == {"held", "second"}
    later = "ledger.pending where available_at > ledger.now() and available_at < 'infinity'"
    assert await names_of(ledger, later) == {"later"}


async def test_g5_upkeep_unblocks_an_item_unless_an_earlier_one_of_its_key_goes_first(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    await ledger.emit(lane="paused", due_at=noon + timedelta(days=1))
    paused = FlowScope("acme", ledger.kind, "paused")
    await pause_flows(ledger.connection, paused, reason="test", actor_no=ledger.worker_no)
    blocked = {
        "after one that is due": (Item(WAIT, 2, "waits"), Item(WAIT, 1)),
        "after one of a paused flow": (Item(WAIT, 2, "waits"), Item(WAIT, 1, lane="paused")),
        "buffered after one that is due": (Item(BUFFER, 2, "waits"), Item(BUFFER, 1)),
    }
    free = {
        "before one that is due": (Item(WAIT, 1, "waits"), Item(WAIT, 2)),
        "after one that is not available yet": (Item(WAIT, 2, "waits"), Item(WAIT, 1, "later")),
        "buffered after one of a paused flow": (
            Item(BUFFER, 2, "waits"),
            Item(BUFFER, 1, lane="paused"),
        ),
    }
    for key, (name, (waiting, other)) in enumerate({**blocked, **free}.items()):
        items = {name: replace(waiting, key=key), f"other of {name}": replace(other, key=key)}
        await make_items(ledger, noon, items)

    assert await release_keys(ledger.connection, None, 10) == WokenItems(len(free), None)

    assert await names_of(ledger, WAITING) == blocked.keys()


async def test_g2_upkeep_frees_the_keys_of_ended_items_and_no_other_some_at_a_time(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    names = ("ended", "runs", "parked", "completed")
    await make_items(ledger, noon, {name: Item(WAIT, 1, "") for name in names})
    ends = {
        "ended": TransitionEvent.CANCELLED,
        "parked": TransitionEvent.PARKED,
        "completed": TransitionEvent.COMPLETED,
    }
    for name, event in ends.items():
        await ledger.connection.execute(
            "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)"
            " select effective_date, item_no, $2, 1, $3, ledger.now() from ledger.due_item"
            " where business_key like $1 || '-%'",
            name,
            event,
            ledger.worker_no,
        )
    for key, name in enumerate(names):  # as if the ends had freed no key
        await ledger.connection.execute(
            "insert into ledger.held_key select $2, item_no, effective_date, flow_no, $3"
            " from ledger.due_item where business_key like $1 || '-%'",
            name,
            key,
            noon,
        )

    assert await free_ended_keys(ledger.connection, None, 3) == (1, 2)
    assert await names_of(ledger, "ledger.held_key") == {"runs", "parked", "completed"}
    assert await free_ended_keys(ledger.connection, 2, 3) == (1, None)
    assert await names_of(ledger, "ledger.held_key") == {"runs", "parked"}


async def test_g2_a_repair_frees_the_keys_of_the_ended_items_that_it_names_and_no_other(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    names = ("other", "runs", "ended")
    await make_items(ledger, noon, {name: Item(WAIT, 1, "", key=1) for name in names})
    numbers = {
        row["business_key"].partition("-")[0]: row["item_no"]
        for row in await ledger.connection.fetch(
            "select business_key, item_no from ledger.due_item"
        )
    }
    await ledger.connection.execute(
        "insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)"
        " select effective_date, item_no, $1, 1, $2, ledger.now() from ledger.due_item"
        " where item_no <> $3",
        TransitionEvent.CANCELLED,
        ledger.worker_no,
        numbers["runs"],
    )
    await ledger.connection.execute(
        "insert into ledger.held_key select item_no, item_no, effective_date, flow_no, $1"
        " from ledger.due_item",
        noon,
    )

    named = [numbers["runs"], numbers["ended"]]
    assert await free_ended_keys_of(ledger.connection, named) == {numbers["ended"]}
    assert await names_of(ledger, "ledger.held_key") == {"runs", "other"}


async def test_g2_upkeep_frees_the_key_of_a_missing_item_that_is_not_waiting_open_or_in_review(
    undone_ledger: Ledger, noon: datetime
) -> None:
    ledger = undone_ledger
    await set_clock(ledger.connection, noon, 0)
    states = (
        State.CLAIMED,
        State.RUNNING,
        State.MANUAL_REVIEW,
        State.RETRYABLE_FAILURE,
        State.SCHEDULED,
    )
    keeping = [(await ledger.place(state, due_at=noon)).id for state in states]
    (gone,) = await ledger.emit()
    await ledger.connection.execute(DELETE, gone)
    await ledger.connection.execute(
        "insert into ledger.held_key select item_no, item_no, effective_date, flow_no, $1"
        " from ledger.due_item",
        noon,
    )
    await ledger.connection.execute("create temporary table item as table ledger.due_item")
    # A run that was edited to reach beyond its claim has no item there.
    await ledger.connection.execute(
        "update ledger.run set to_position = to_position + 1, ended = ended || b'0'"
    )

    assert await free_ended_keys(ledger.connection, None, 10) == (0, None)
    await ledger.connection.execute("delete from ledger.due_item")
    assert await free_ended_keys(ledger.connection, None, 10) == (1, None)

    held = "select id from item join ledger.held_key using (item_no)"
    assert {row["id"] for row in await ledger.connection.fetch(held)} == set(keeping)


async def test_upkeep_frees_no_item_that_another_has_locked(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    await ledger.stand_at(noon)
    await make_items(ledger, noon, {"a": Item(WAIT, 1, "waits")})
    rival = await connect(database, application_name="rival")
    await ledger.connection.execute("set lock_timeout = '1s'")
    async with rival.transaction():
        await rival.execute("select from ledger.pending for update")
        assert (await release_keys(ledger.connection, None, 10)).unblocked == 0
    await rival.close()
    assert (await release_keys(ledger.connection, None, 10)).unblocked == 1
