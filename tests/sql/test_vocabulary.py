"""The states are declared once, in ledger/states.py: SQL says the same, the refusals too."""

import os
from pathlib import Path

import pytest

from dueledger.ledger.states import (
    TERMINAL_EVENTS,
    TERMINAL_STATES,
    TRANSITIONS,
    State,
    TransitionEvent,
)
from dueledger.ledger.store import Connection

AFTER = {move.event: move.after for move in TRANSITIONS}


async def test_g8_lookup_tables_hold_exactly_the_declared_states(connection: Connection) -> None:
    rows = await connection.fetch("select state, name, terminal from ledger.state")
    assert {tuple(row) for row in rows} == {
        (state.value, state.label, state in TERMINAL_STATES) for state in State
    }


async def test_g8_lookup_tables_hold_exactly_the_declared_events(connection: Connection) -> None:
    rows = await connection.fetch("select event, name, after_state from ledger.transition_event")
    assert {tuple(row) for row in rows} == {
        (event.value, event.label, AFTER[event].value) for event in TransitionEvent
    }


async def test_g8_exactly_the_listed_transitions_are_permitted(connection: Connection) -> None:
    rows = await connection.fetch("select event, before_state from ledger.permitted_transition")
    permitted = {(row["event"], row["before_state"]) for row in rows}
    assert permitted == {
        (move.event.value, move.before and move.before.value) for move in TRANSITIONS
    }
    assert len(permitted) == len(TRANSITIONS)


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_g8_nothing_leads_out_of_a_terminal_state(state: State) -> None:
    assert not [move for move in TRANSITIONS if move.before is state]


@pytest.mark.parametrize("event", TransitionEvent)
def test_g8_an_event_is_terminal_where_its_state_is(event: TransitionEvent) -> None:
    assert (event in TERMINAL_EVENTS) == (AFTER[event] in TERMINAL_STATES)


def test_g9_every_waiting_state_can_be_left() -> None:
    left = {move.before for move in TRANSITIONS}
    assert set(State) - TERMINAL_STATES <= left


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "states.md"
MEANINGS = {
    State.SCHEDULED: "waits to be claimed: not due yet, due, snoozed or released",
    State.CLAIMED: "handed out: to Kafka, or to a worker that has not started it",
    State.RUNNING: "started by a worker, under a lease",
    State.RETRYABLE_FAILURE: "an attempt failed; the next one follows after the backoff",
    State.MANUAL_REVIEW: "parked: a person must decide",
    State.COMPLETED: "done, with its evidence",
    State.CANCELLED: "not owed any more",
    State.SUPERSEDED: "another item or version takes its place",
    State.SKIPPED: "not executed, by a rule: the reason is recorded",
    State.WRITTEN_OFF: "not done, in a person's name",
}


def describe_states() -> str:
    """Write docs/states.md from the declaration."""
    table = [
        f"| {event.label} | {', '.join(befores)} | {AFTER[event].label} |"
        for event in TransitionEvent
        if (
            befores := [
                move.before.label if move.before else "—"
                for move in TRANSITIONS
                if move.event is event
            ]
        )
    ]
    return "\n".join(
        [
            "# States",
            "",
            "Every item has one state. `make schema` makes this page of `ledger/states.py`.",
            "",
            "![The usual path through the states](pictures/states.svg)",
            "",
            "| state | an item in it | final |",
            "|---|---|---|",
            *(
                f"| {state.label} | {meaning} | {'yes' if state in TERMINAL_STATES else 'no'} |"
                for state, meaning in MEANINGS.items()
            ),
            "",
            "*Due* is no state: it is a comparison of `available_at` with the database's clock.",
            "",
            "## Transitions",
            "The picture has the usual path, this table every transition. Others are refused.",
            "",
            "| event | from | to |",
            "|---|---|---|",
            *table,
            "",
        ]
    )


def test_docs_show_exactly_the_declared_states() -> None:
    assert list(MEANINGS) == list(State)
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        DOCUMENT.write_text(describe_states())
    assert DOCUMENT.read_text() == describe_states(), "run `make schema` and read the difference"
