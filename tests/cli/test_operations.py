"""Verbs on keys and filters from the terminal, and the operations that they record."""

from collections.abc import Callable
from typing import Any

import pytest

from dueledger.ledger.presence import open_presence
from dueledger.ledger.store import Connection, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.processes import ProcessRole
from dueledger.ledger.upkeep import Upkeep
from tests.logins import with_login

Command = Callable[..., Any]

OWED = ("--tenant", "acme", "--kind", "ReminderDue", "--effective-date", "2027-03-01")
REASON = ("--reason", "the product is withdrawn")
COPY = """
insert into ledger.operation (
  verb, as_of, item_no_max, matched, matched_capped, in_flight, reason, actor_no, ended_at)
select verb, as_of, item_no_max, matched, {capped}, in_flight, reason, actor_no, {ended_at}
from ledger.operation cross join generate_series(1, $1)
"""
FILTER = ("--tenant", "acme", "--kind", "ReminderDue")


@pytest.fixture
def database(database: str) -> str:
    """Run the commands under an operator's login."""
    return with_login(database, "operator")


def _emit(dueledger_on: Command, *keys: str) -> list[str]:
    return [
        dueledger_on("emit", *OWED, "--key", key, "--due-at", "2199-01-01", "--json").document["id"]
        for key in keys
    ]


async def _do_upkeep(database: str) -> None:
    dsn = with_login(database, "allocator")
    async with open_pool(dsn, application_name="upkeep") as pool:
        async with pool.acquire() as connection:
            actor_no = await register_actor(connection, "upkeep", ActorKind.ALLOCATOR)
        await Upkeep(pool, actor_no=actor_no, seconds=1.0, role="test").tick()


async def test_a_filter_counts_first_and_is_carried_out_by_upkeep_once_it_is_executed(
    dueledger_on: Command, database: str
) -> None:
    items = _emit(dueledger_on, "INV-1", "INV-2")
    counted = dueledger_on("cancel", *FILTER, *REASON)
    assert "It would be 2 items. Nothing was changed" in counted.err
    document = dueledger_on("cancel", *FILTER, *REASON, "--json").document
    assert (document["items"], document["capped"], document["seconds"]) == (2, False, None)
    [group] = document["groups"]
    assert (group["state"], group["business_keys"]) == ("Scheduled", ["INV-1", "INV-2"])
    assert dueledger_on("operation", "list", "--json").lines == []

    asked = dueledger_on("cancel", *FILTER, *REASON, "--execute", "--json", DUELEDGER_ACTOR="jane")
    number = str(asked.document["operation_no"])
    assert (asked.document["status"], asked.document["matched"]) == ("waiting", 2)
    assert f"dueledger operation abort {number}" in asked.err
    await _do_upkeep(database)

    shown = dueledger_on("operation", "show", number, "--json").document
    assert (shown["status"], shown["done"], shown["requested_by"]) == ("done", 2, "person:jane")
    timeline = dueledger_on("show", items[0], "--json").document["timeline"]
    assert [(step["event"], step["actor"]) for step in timeline][1:] == [
        ("cancelled", "person:jane")
    ]
    aborted = dueledger_on("operation", "abort", number, "--reason", "late")
    assert (aborted.code, "it has ended" in aborted.err) == (1, True)


async def test_an_operation_that_is_paused_or_aborted_says_by_whom_and_moves_nothing(
    dueledger_on: Command, database: str
) -> None:
    [item] = _emit(dueledger_on, "INV-1")
    execute = ("trigger", *FILTER, *REASON, "--execute", "--json")
    number = str(dueledger_on(*execute).document["operation_no"])
    paused = ("operation", "pause", number, "--reason", "INC-7", "--json")
    for code in (0, 1):  # the second time, it is paused already
        ran = dueledger_on(*paused)
        assert (ran.code, ran.document["status"], ran.document["pause_reason"]) == (
            code,
            "paused",
            "INC-7",
        )
    assert "it is paused already" in ran.err
    await _do_upkeep(database)
    assert dueledger_on("why", item, "--json").document["code"] == "OPERATION_PAUSED"
    checks = dueledger_on("doctor", "--json").document["checks"]
    assert f"{number} (trigger, paused)" in str(checks)
    resumed = ("operation", "resume", number, "--reason", "INC-7 has ended", "--json")
    assert dueledger_on(*resumed).document["status"] == "waiting"
    aborted = dueledger_on("operation", "abort", number, "--reason", "wrong kind", "--json")
    document = aborted.document
    assert (aborted.code, document["status"], document["abort_reason"]) == (
        0,
        "aborted",
        "wrong kind",
    )
    await _do_upkeep(database)
    assert dueledger_on("why", item, "--json").document["code"] == "NOT_DUE"


async def test_an_operation_that_waits_for_a_second_person_is_approved_by_one(
    dueledger_on: Command, database: str, connection: Connection
) -> None:
    [item] = _emit(dueledger_on, "INV-1")
    await connection.execute("update ledger.kind set operation_approval_above = 0")
    previewed = dueledger_on("cancel", *FILTER, *REASON)
    assert (
        "It would wait for a second person: a policy asks for one above 0 items." in previewed.err
    )
    execute = ("cancel", *FILTER, *REASON, "--execute", "--json")
    asked = dueledger_on(*execute, DUELEDGER_ACTOR="jane")
    number = str(asked.document["operation_no"])
    assert asked.document["awaits_approval"]
    assert f"It waits for a second person: `dueledger operation approve {number}" in asked.err
    await _do_upkeep(database)
    why = dueledger_on("why", item, "--json").document
    assert why["code"] == "OPERATION_UNAPPROVED"
    assert f"dueledger operation approve {number}" in why["remedy"]
    checks = dueledger_on("doctor", "--json").document["checks"]
    assert f"{number} (cancel, waits for a second person)" in str(checks)
    approver = {"DUELEDGER_DSN": with_login(database, "approver")}
    approve = ("operation", "approve", number, "--reason", "INC-1", "--json")
    own = dueledger_on(*approve, DUELEDGER_ACTOR="jane", **approver)
    assert (own.code, "you asked for it: somebody else approves it" in own.err) == (1, True)
    approved = dueledger_on(*approve, DUELEDGER_ACTOR="bob", **approver)
    assert (approved.code, approved.document["approved_by"]) == (0, "person:bob")
    assert approved.err == ""
    await _do_upkeep(database)
    ended = dueledger_on("operation", "show", number, "--json").document
    assert (ended["status"], ended["done"]) == ("done", 1)
    listed = await connection.fetch(
        "select operation, reason from ledger.audit where target = $1 order by audit_no",
        f"operations/{number}",
    )
    assert [tuple(row) for row in listed][1:] == [("approveOperation", "INC-1")]


def test_a_list_of_operations_that_is_cut_says_so(dueledger_on: Command) -> None:
    _emit(dueledger_on, "INV-1")
    for _ in range(2):
        dueledger_on("cancel", *FILTER, *REASON, "--execute")
    cut = dueledger_on("operation", "list", "--limit", "1")
    assert "Only the newest 1 are shown" in cut.err
    whole = dueledger_on("operation", "list", "--limit", "2", "--json")
    assert [each["operation_no"] for each in whole.lines] == [2, 1]
    assert whole.err == ""
    oldest = dueledger_on("operation", "list", "--oldest-first", "--limit", "1", "--json")
    assert [each["operation_no"] for each in oldest.lines] == [1]
    assert "Only the oldest 1 are shown" in oldest.err


async def test_a_count_that_stopped_is_marked_where_an_operation_is_shown(
    dueledger_on: Command, database: str, connection: Connection
) -> None:
    [item] = _emit(dueledger_on, "INV-1")
    dueledger_on("cancel", *FILTER, *REASON, "--execute")
    await connection.execute(COPY.format(capped=True, ended_at="null"), 1)
    dueledger_on("operation", "abort", "1", *REASON)
    for shown in (("operation", "list"), ("operation", "show", "2")):
        assert "1+" in dueledger_on(*shown).out
    assert dueledger_on("operation", "list", "--json").lines[0]["matched_capped"]
    allocator = with_login(database, "allocator")
    async with open_presence(allocator, "allocator:host:1:abcd", ProcessRole.ALLOCATOR):
        assert "0 of 1+ items" in dueledger_on("why", item, "--json").document["sentence"]


async def test_the_doctor_names_an_open_operation_however_many_newer_ones_have_ended(
    dueledger_on: Command, connection: Connection
) -> None:
    _emit(dueledger_on, "INV-1")
    dueledger_on("cancel", *FILTER, *REASON, "--execute")
    await connection.execute(COPY.format(capped=False, ended_at="now()"), 101)
    checks = dueledger_on("doctor", "--json").document["checks"]
    [text] = [each["text"] for each in checks if each["name"] == "operations"]
    assert text.startswith("1 open: 1 (cancel);")


def test_a_business_key_names_its_items_at_once(dueledger_on: Command) -> None:
    first, second = _emit(dueledger_on, "INV-1", "INV-2")
    named = ("--business-key", "INV-1", "--tenant", "acme")
    ran = dueledger_on("cancel", *named, *REASON, "--json")
    assert (ran.code, ran.lines) == (0, [{"id": first, "result": "done", "reason": None}])
    again = dueledger_on("cancel", *named, *REASON, "--json")
    assert (again.code, again.document["error"]["code"]) == (2, "NOT_FOUND")
    ran = dueledger_on("cancel", second, *REASON, "--json")
    assert ran.lines == [{"id": second, "result": "done", "reason": None}]
    assert dueledger_on("rejected", "--json").lines == []


def test_a_filter_that_matches_nothing_records_nothing(dueledger_on: Command) -> None:
    ran = dueledger_on("redrive", *FILTER, *REASON, "--execute")
    assert (ran.code, "No item matches" in ran.err) == (0, True)
    assert "No item matches" in dueledger_on("redrive", *FILTER, *REASON).err
    assert dueledger_on("operation", "list", "--json").lines == []
    missing = dueledger_on("operation", "show", "1", "--json")
    assert missing.document["error"]["code"] == "NOT_FOUND"


ITEM = "018f0000-0000-8000-8000-000000000000"


@pytest.mark.parametrize(
    "arguments",
    [
        ("redrive",),
        ("redrive", ITEM, "--execute"),
        ("redrive", ITEM, "--tenant", "acme"),
        ("redrive", ITEM, "--business-key", "K", "--tenant", "acme"),
        ("redrive", "--business-key", "K"),
        ("redrive", "--business-key", "K", "--tenant", "acme", "--error", "OSError"),
        ("redrive", "--tenant", "acme", "--since", "yesterday"),
        ("trigger",),
        ("trigger", "nightly", "--tenant", "acme", "--kind", "ReminderDue"),
        ("trigger", "nightly", "--tenant", "acme", "--execute"),
        ("trigger", "--tenant", "acme", "--cycle", "1"),
        ("operation", "abort", "0"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_ledger_is_asked(
    dueledger: Command, arguments: tuple[str, ...]
) -> None:
    ran = dueledger(*arguments, *REASON, "--json")
    assert (ran.code, ran.document["error"]["code"]) == (2, "USAGE")


async def test_who_has_taken_a_parked_item_is_said_and_a_comment_is_in_the_audit(
    dueledger_on: Command, connection: Connection
) -> None:
    item, _ = _emit(dueledger_on, "INV-1", "INV-2")
    await connection.execute(
        "with taken as (delete from ledger.pending returning *) insert into ledger.review"
        " (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)"
        " select item_no, effective_date, flow_no, now(), 5, 5, 'x', 1 from taken"
    )
    taken = dueledger_on("review", "take", item, "--json", DUELEDGER_ACTOR="jane")
    assert [(each["result"], each["taken_by"]) for each in taken.lines] == [("done", "person:jane")]
    group = dueledger_on("review", "take", *FILTER, "--json", DUELEDGER_ACTOR="bob")
    assert group.code == 1
    assert {each["taken_by"] for each in group.lines} == {"person:jane", "person:bob"}
    assert "1 of 2 stay as they were" in group.err
    listed = dueledger_on("reviews", "--json").lines
    assert {each["taken_by"] for each in listed} == {"person:jane", "person:bob"}
    instead = ("--instead-of", "person:jane")
    assert dueledger_on("review", "take", item, *instead, DUELEDGER_ACTOR="bob").code == 0
    assert dueledger_on("review", "return", *FILTER, DUELEDGER_ACTOR="bob").code == 0
    assert {each["taken_by"] for each in dueledger_on("reviews", "--json").lines} == {None}
    about = ("review", "comment", item, "--tenant", "acme")
    assert dueledger_on(*about, "--comment", "INC-1: asked").code == 0
    target = f"items/{item}/review"
    [entry] = dueledger_on("audit", "--target", target, "--json").lines
    assert entry["operation"] == "commentOnReviews"
    assert entry["detail"] == {"comment": "INC-1: asked"}
    assert dueledger_on(*about, "--comment", " ").code == 2
    assert dueledger_on("review", "take", "--tenant", "acme").code == 2


async def test_a_count_says_how_long_so_many_items_take_once_many_were_moved(
    dueledger_on: Command, database: str
) -> None:
    _emit(dueledger_on, "INV-1")
    dueledger_on("cancel", *FILTER, *REASON, "--execute")
    await _do_upkeep(database)
    upkeep = await connect(with_login(database, "allocator"), application_name="test")
    await upkeep.execute("update ledger.operation set done = 1000, worked_seconds = 240000")
    await upkeep.close()
    _emit(dueledger_on, "INV-2")
    counted = dueledger_on("cancel", *FILTER, *REASON)
    assert "It would be 1 items, about 4 minutes of work. Nothing" in counted.err
    assert dueledger_on("cancel", *FILTER, *REASON, "--json").document["seconds"] == 240


@pytest.mark.parametrize("verb", ["cancel", "trigger"])
def test_a_filter_takes_the_items_of_a_time_at_which_they_are_due(
    dueledger_on: Command, verb: str
) -> None:
    _emit(dueledger_on, "INV-1")
    last, night = ("--due-before", "2199-01-01T00:00Z"), ("--due-from", "2199-01-01T00:00Z")
    for due, items in ((last, 0), (night, 1), (("--due-before", "2199-01-02T00:00Z"), 1)):
        counted = dueledger_on(verb, *FILTER, *REASON, *due, "--json").document
        assert counted["items"] == items
    asked = dueledger_on(verb, *FILTER, *REASON, *night, "--execute", "--json").document
    assert (asked["due_from"], asked["due_before"]) == ("2199-01-01T00:00:00Z", None)
    named = dueledger_on(verb, "--business-key", "INV-1", "--tenant", "acme", *REASON, *night)
    assert (named.code, "--due-from" in named.err) == (2, True)
