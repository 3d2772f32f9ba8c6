"""Looking at items and deciding about them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dueledger.ledger.item_verbs import OperationVerb, refusal
from dueledger.ledger.states import State
from tests.logins import with_login

Command = Callable[..., Any]

OWED = ("--tenant", "acme", "--kind", "ReminderDue", "--effective-date", "2027-03-01")


@pytest.fixture
def database(database: str) -> str:
    """Run the commands under an operator's login."""
    return with_login(database, "operator")


def test_emitting_again_returns_the_same_item(dueledger_on: Command) -> None:
    first, again = (
        dueledger_on("emit", *OWED, "--key", "INV-1", "--due-at", "2027-03-01T09:00", "--json")
        for _ in range(2)
    )
    assert first.document["created"] is True
    assert again.document == {"id": first.document["id"], "created": False}


def test_an_item_that_cannot_be_is_refused_by_field(dueledger_on: Command) -> None:
    ran = dueledger_on("emit", *OWED, "--key", "", "--due-at", "2027-03-01", "--json")
    assert ran.code == 2
    assert ran.document["error"]["code"] == "INVALID_ITEM"
    assert "business_key" in ran.document["error"]["detail"]


def test_an_item_is_listed_shown_and_explained_by_its_business_key(dueledger_on: Command) -> None:
    item = dueledger_on(
        "emit", *OWED, "--key", "INV-1", "--due-at", "2199-01-01", "--payload", '{"n":1}', "--json"
    ).document["id"]
    [listed] = dueledger_on("items", "--json").lines
    assert (listed["id"], listed["state"]) == (item, "Scheduled")
    assert dueledger_on("items", "--state", "Completed", "--json").lines == []
    shown = dueledger_on("show", "INV-1", "--json").document
    assert json.loads(shown["payload"]) == {"n": 1}
    assert [step["event"] for step in shown["timeline"]] == ["emitted"]
    why = dueledger_on("why", item, "--json").document
    assert why["code"] == "NOT_DUE"
    assert why["sentence"].startswith("It is not due before 2199-01-01")


def test_items_are_listed_from_either_end_of_their_effective_dates(dueledger_on: Command) -> None:
    for key in ("INV-1", "INV-2", "INV-3"):
        dueledger_on("emit", *OWED, "--key", key, "--due-at", "2199-01-01", "--json")
    latest = [each["business_key"] for each in dueledger_on("items", "--json").lines]
    earliest = dueledger_on("items", "--oldest-first", "--json").lines
    assert latest == ["INV-3", "INV-2", "INV-1"]
    assert [each["business_key"] for each in earliest] == latest[::-1]


def test_what_is_due_and_unclaimed_is_explained_with_its_remedy(dueledger_on: Command) -> None:
    dueledger_on("emit", *OWED, "--key", "INV-1", "--due-at", "2026-01-01")
    why = dueledger_on("why", "INV-1", "--json").document
    assert why["code"] == "NO_ALLOCATOR"
    assert "dueledger allocate" in why["remedy"]


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(dueledger_on: Command) -> None:
    ran = dueledger_on("items", "--state", "Donne", "--json")
    assert ran.code == 2
    assert "ManualReview" in ran.document["error"]["details"]["problems"][0]["accepted"]


def test_a_decision_that_does_not_fit_the_state_fails_and_says_so(dueledger_on: Command) -> None:
    item = dueledger_on(
        "emit", *OWED, "--key", "INV-1", "--due-at", "2199-01-01", "--json"
    ).document["id"]
    ran = dueledger_on("redrive", item, "--reason", "try again", "--json")
    assert ran.code == 1
    why = refusal(OperationVerb.REDRIVE, State.SCHEDULED)
    assert ran.lines == [{"id": item, "result": "illegal", "reason": why}]


def test_nothing_is_found_under_a_key_that_nobody_owes(dueledger_on: Command) -> None:
    ran = dueledger_on("show", "INV-404", "--json")
    assert ran.code == 2
    assert ran.document["error"]["code"] == "NOT_FOUND"


def test_parked_items_and_refused_writes_can_be_listed(dueledger_on: Command) -> None:
    item = dueledger_on(
        "emit", *OWED, "--key", "INV-1", "--due-at", "2199-01-01", "--json"
    ).document["id"]
    assert dueledger_on("reviews", "--json").lines == []
    dueledger_on("redrive", item, "--reason", "try again")
    [refused] = dueledger_on("rejected", "--json").lines
    assert (refused["verb"], refused["reason"]) == ("redrive", "illegal")
    assert refused["actor"].startswith("person:")
