"""Each item has one state and ended as its run has it: what was edited is found by item."""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Final

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, findings, reconciled_rows
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.ledger.store.runs import start_runs
from dueledger.reconciler import (
    PassLimits,
    PassScope,
    Reconciler,
    ReconcilerSources,
    SqlPopulation,
)
from dueledger.reconciler.find import run_findings
from dueledger.reconciler.partition_cache import PartitionCache
from dueledger.reconciler.read import run_counts
from tests.claim_ids import claim_ids

from .conftest import NOON

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Settle = Callable[..., Awaitable[None]]

CONFLICT: Final = FindingType.OUTCOME_CONFLICT
PREMATURE: Final = FindingType.PREMATURE
UNBALANCED: Final = FindingType.UNBALANCED
TAMPERED: Final = FindingType.TAMPERED
WRONG_DATE: Final = FindingType.WRONG_DATE

ADD_PENDING: Final = """
insert into ledger.pending (item_no, effective_date, flow_no, available_at)
select item_no, effective_date, flow_no, due_at from ledger.due_item where item_no = $1
"""
ADD_REVIEW: Final = """
insert into ledger.review
  (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select item_no, effective_date, flow_no, ledger.now(), 0, 1, 'edited', 1
from ledger.due_item where item_no = $1
"""
ADD_REVIEW_ELSEWHERE: Final = """
with was as (delete from ledger.pending where item_no = $1 returning 1)
insert into ledger.review
  (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select item_no, effective_date, flow_no + 1, ledger.now(), 0, 1, 'edited', 1
from ledger.due_item where item_no = $1
"""
HOLD_KEY: Final = """
insert into ledger.held_key select 7, item_no, effective_date, flow_no, ledger.now()
from ledger.due_item where item_no = $1
"""
OPEN_RUN: Final = """
update ledger.run r set ended = set_bit(r.ended, 0, 0), closed_at = null
from ledger.claim c where c.fence = r.fence and c.item_no[r.from_position] = $1
"""
COMPLETE_BEFORE_EMISSION: Final = """
with ended as (
  update ledger.transition set at = at - interval '2 seconds' where item_no = $1 returning 1)
update ledger.due_item set emitted_at = ledger.now() - interval '1 second' where item_no = $1
"""
OF_ENDING: Final = "update ledger.transition set {} where item_no = $1"
OF_PENDING: Final = "update ledger.pending set {} where item_no = $1"
DONE_EDITS: Final = (
    (OF_ENDING.format("at = at - interval '6 minutes'"), PREMATURE),
    (OF_ENDING.format("run_no = null"), CONFLICT),
    (OF_ENDING.format("run_no = run_no + 1"), CONFLICT),
    (OF_ENDING.format("run_no = 4711"), CONFLICT),
    (OF_ENDING.format("run_no = run_no - 1"), CONFLICT),
    (OF_ENDING.format("actor_no = (select min(actor_no) from ledger.actor)"), CONFLICT),
    (OF_ENDING.format("at = at - interval '1 second'"), CONFLICT),
    ("delete from ledger.transition where item_no = $1", UNBALANCED),
    (ADD_PENDING, UNBALANCED),
    (ADD_PENDING, UNBALANCED),
    (ADD_PENDING, UNBALANCED),
    (ADD_REVIEW, UNBALANCED),
    (HOLD_KEY, FindingType.HELD_KEY),
    (OPEN_RUN, UNBALANCED),
    (COMPLETE_BEFORE_EMISSION, PREMATURE),
    (OF_ENDING.format("at = '2198-01-01'"), TAMPERED),
)
WAITING_EDITS: Final = (
    # As many are taken away as were added above: the sums are as before.
    ("delete from ledger.pending where item_no = $1", UNBALANCED),
    ("delete from ledger.pending where item_no = $1", UNBALANCED),
    ("delete from ledger.pending where item_no = $1", UNBALANCED),
    (ADD_REVIEW, UNBALANCED),
    (OF_PENDING.format("flow_no = flow_no + 1"), TAMPERED),
    (OF_PENDING.format("serial = 7, serial_due_at = available_at, overlap = 1"), TAMPERED),
    (OF_PENDING.format("available_at = available_at + interval '2 minutes'"), WRONG_DATE),
    (OF_PENDING.format("available_at = 'infinity'"), WRONG_DATE),
    (ADD_REVIEW_ELSEWHERE, TAMPERED),
    (HOLD_KEY.replace("7", "8"), FindingType.HELD_KEY),
)
CLAIMED_EDITS: Final = (
    ("update ledger.due_item set serial = 9 where item_no = $1", FindingType.HELD_KEY),
    ("update ledger.due_item set serial = 11 where item_no = $1", FindingType.HELD_KEY),
)
HOLD_FOR_NONE: Final = (
    "insert into ledger.held_key values (10, 1000000000, current_date, 1, ledger.now())"
)


async def _numbers(connection: Connection, prefix: str) -> list[int]:
    rows = await connection.fetch(
        "select item_no from ledger.due_item where business_key like $1 || '-%' order by item_no",
        prefix,
    )
    return [row["item_no"] for row in rows]


@pytest.mark.damages
async def test_g11_an_item_that_has_no_state_or_two_or_ended_otherwise_than_its_run_is_found(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    claim_all: Callable[..., Awaitable[list[int]]],
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciled_rows, "HELD_KEYS_PAGE", 1)
    monkeypatch.setattr(reconciled_rows, "PLACES_PAGE", 2)
    monkeypatch.setattr(reconciled_rows, "FLOW_RULES_PAGE", 1)
    await emit_items(
        frozen, make_drafts(20, prefix="other", due_at=NOON - timedelta(hours=1)), actor_no=actor_no
    )
    await complete_all(TransitionEvent.COMPLETED)
    done = make_drafts(20, prefix="done", due_at=NOON - timedelta(minutes=5))
    await emit_items(frozen, done, actor_no=actor_no)
    await frozen.execute("update ledger.due_item set emitted_at = due_at - interval '1 hour'")
    await complete_all(TransitionEvent.COMPLETED)
    waiting = make_drafts(20, prefix="waiting", due_at=NOON + timedelta(hours=1))
    await emit_items(frozen, waiting, actor_no=actor_no)
    claimed = make_drafts(3, prefix="claimed", due_at=NOON)
    await emit_items(frozen, claimed, actor_no=actor_no)
    await claim_all(queue_seconds=600)
    reconciler = make_reconciler()
    assert {*(await reconciler.run_pass()).found} <= {FindingType.LATE}

    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    wrong: set[tuple[str, str]] = set()
    for prefix, edits in (
        ("done", DONE_EDITS),
        ("waiting", WAITING_EDITS),
        ("claimed", CLAIMED_EDITS),
    ):
        numbers = await _numbers(frozen, prefix)
        # The first item of the run is for the edit of the run.
        for number, (edit, type_) in zip(numbers[1:], edits, strict=False):
            edited = numbers[0] if edit == OPEN_RUN else number
            assert (await frozen.execute(edit, edited)).endswith(" 1"), edit
            id_ = await frozen.fetchval(
                "select id::text from ledger.due_item where item_no = $1", edited
            )
            wrong.add((type_, id_))
    unowned, waits = (await _numbers(frozen, "other"))[:2]
    held = (await _numbers(frozen, "claimed"))[0]
    await frozen.execute(HOLD_FOR_NONE)
    for number in (unowned, waits, held):
        await frozen.execute("delete from ledger.due_item where item_no = $1", number)
    await frozen.execute("delete from ledger.transition where item_no = $1", waits)
    await frozen.execute(
        "insert into ledger.pending (item_no, effective_date, flow_no, available_at)"
        " select $1, current_date, min(flow_no), ledger.now() from ledger.flow",
        waits,
    )

    await reconciler.run_pass()

    rows = await findings.list_findings(frozen)
    found = {(row["type"], str(row["item_id"] or row["subject"])) for row in rows}
    assert wrong - found == set()
    assert found - wrong == {
        (UNBALANCED, f"ending:{unowned}"),
        (UNBALANCED, f"waiting:{waits}"),
        (UNBALANCED, f"handed_out:{held}"),
        (FindingType.HELD_KEY, "key:1000000000"),
    }


@pytest.mark.damages
async def test_g11_a_run_that_reaches_beyond_its_claim_is_one_finding_of_every_pass(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    actor_no: int,
) -> None:
    for prefix in ("first", "second"):
        drafts = make_drafts(3, prefix=prefix, due_at=NOON - timedelta(minutes=5))
        await emit_items(frozen, drafts, actor_no=actor_no)
        await complete_all()
    await frozen.execute(
        "update ledger.run set to_position = to_position + 1, ended = ended || b'0',"
        " closed_at = null, lease_until = now() + interval '1 day'"
    )
    reconciler = make_reconciler()

    for _ in range(2):
        await reconciler.tick()
        assert reconciler.last is not None
        assert reconciler.last.found[UNBALANCED] == 2
    runs = {f"run:{row[0]}" for row in await frozen.fetch("select run_no from ledger.run")}
    assert {row["subject"] for row in await findings.list_findings(frozen)} == runs
    # A pass that lists fewer closes none of the others.
    await make_reconciler(limits=PassLimits(stuck_seconds=0, findings_max=1)).run_pass()
    assert {row["subject"] for row in await findings.list_findings(frozen)} == runs


@pytest.mark.damages
async def test_g11_endings_of_a_date_without_any_item_are_found(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    actor_no: int,
) -> None:
    day = date(2027, 3, 20)
    drafts = make_drafts(3, due_at=NOON - timedelta(minutes=5), effective_date=day)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all(TransitionEvent.COMPLETED)
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute("delete from ledger.due_item where effective_date = $1", day)

    found = (await make_reconciler().run_pass()).found

    assert found[UNBALANCED] == 3


REWRITE: Final = """
update ledger.transition t
set event = $2, detail = jsonb_build_object('reason', $3::text),
  actor_no = (select actor_no from ledger.actor where name = $4),
  run_no = case when $5 then t.run_no end
from ledger.due_item i
where i.item_no = t.item_no and i.effective_date = t.effective_date and i.business_key = $1
"""
ENDINGS: Final = (
    (TransitionEvent.CANCELLED, "sold", "person", True),
    (TransitionEvent.CANCELLED, "sold", "clerk", False),
    (TransitionEvent.CANCELLED, "overlap", "worker", False),
    (TransitionEvent.CANCELLED, "repair", "reconciler", False),
    (TransitionEvent.CANCELLED, None, "worker", False),
    (TransitionEvent.CANCELLED, None, "person", False),
    (TransitionEvent.SKIPPED, "sold", "person", False),
    (TransitionEvent.CANCELLED, "PolicyCancelled", "intake", False),
    (TransitionEvent.CANCELLED, "overlap", "service", False),
    (TransitionEvent.SKIPPED, "overlap", "allocator", False),
    (TransitionEvent.SKIPPED, "catch_up", "materialiser", False),
    (TransitionEvent.SKIPPED, "gap", "materialiser", False),
    (TransitionEvent.SKIPPED, None, "worker", False),
    (TransitionEvent.SKIPPED, "overlap", "service", False),
    (TransitionEvent.SUPERSEDED, "version", "materialiser", False),
    (TransitionEvent.WRITTEN_OFF, "hopeless", "person", True),
    (TransitionEvent.WRITTEN_OFF, "hopeless", "worker", False),
)


async def test_g11_what_is_owed_and_ends_without_being_completed_needs_a_rule_or_a_person(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(len(ENDINGS) + 2, due_at=NOON - timedelta(minutes=5))
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute("update ledger.due_item set emitted_at = due_at - interval '1 hour'")
    await complete_all(TransitionEvent.COMPLETED)
    for kind in ActorKind:
        await register_actor(frozen, f"{kind}:edits", kind)
    await register_actor(frozen, "clerk:edits", ActorKind.PERSON)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    assert {*(await reconciler.run_pass()).found} <= {FindingType.LATE}

    # One of their keys each, so that no other item of it can have been open.
    await frozen.execute("update ledger.due_item set serial = item_no, overlap = 2")
    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    for in_run in (True, False):
        for draft, (event, reason, by, _) in zip(drafts, ENDINGS, strict=False):
            named = draft.business_key, event, reason, f"{by}:edits"
            assert await frozen.execute(REWRITE, *named, in_run) == "UPDATE 1"

        await reconciler.run_pass()

        # All were completed in a run: one that has none any more contradicts it.
        rows = await findings.list_findings(frozen)
        assert {(row["type"], row["item_id"]) for row in rows} == {
            (FindingType.UNEXCUSED, draft.id)
            for draft, (*_, is_excused) in zip(drafts, ENDINGS, strict=False)
            if in_run or not is_excused
        } | {(CONFLICT, draft.id) for draft, _ in zip(drafts, ENDINGS, strict=False) if not in_run}


@pytest.mark.parametrize("event", [TransitionEvent.CANCELLED, TransitionEvent.SUPERSEDED])
async def test_g11_an_item_that_was_withdrawn_while_it_was_handed_out_is_no_finding(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    claim_all: Callable[..., Awaitable[list[int]]],
    actor_no: int,
    event: TransitionEvent,
) -> None:
    """It ends when its run starts, in the name of the person who asked."""
    drafts = make_drafts(2, due_at=NOON - timedelta(minutes=5))
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute("update ledger.due_item set emitted_at = due_at - interval '1 hour'")
    (fence,) = await claim_all()
    person_no = await register_actor(frozen, "person:test", ActorKind.PERSON)
    ids = [draft.id for draft in drafts]
    asked = await withdraw_items(frozen, ids, event=event, reason="sold", actor_no=person_no)
    assert [each.result for each in asked] == ["requested", "requested"]
    await start_runs(
        frozen, await claim_ids(frozen, [fence]), [1], [2], worker_no=actor_no, lease_seconds=60
    )
    ended = await frozen.fetch("select event, actor_no, run_no from ledger.transition")
    assert {(row["event"], row["actor_no"]) for row in ended} == {(event, person_no)}
    assert None not in {row["run_no"] for row in ended}

    assert (await make_reconciler(ReconcilerSources((policies,))).run_pass()).found == {}


END_AT_START: Final = """
update ledger.transition t set at = r.started_at
from ledger.run r
where r.run_no = t.run_no
  and t.item_no = (select item_no from ledger.due_item where business_key = $1)
"""
REOPEN: Final = """
update ledger.run r set closed_at = null, lease_until = ledger.machine_now() + interval '30 s'
from ledger.claim c
where c.fence = r.fence
  and c.item_no[1] = (select item_no from ledger.due_item where business_key = $1)
"""
FORGET: Final = """
delete from ledger.transition
where item_no = (select item_no from ledger.due_item where business_key = $1)
"""


@pytest.mark.damages
async def test_g11_a_run_that_no_transition_names_any_more_is_found_by_its_items(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    complete_all: Settle,
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each item had a run of its own. What one pass found, others that read less find, too."""
    monkeypatch.setattr(run_counts, "RUNS_PAGE", 1)
    monkeypatch.setattr(run_findings, "ITEMS_A_READ", 1)
    drafts = make_drafts(4, due_at=NOON - timedelta(minutes=5))
    await owe(drafts)
    for draft in drafts:
        await emit_items(frozen, [draft], actor_no=actor_no)
        await frozen.execute("update ledger.due_item set emitted_at = due_at - interval '1 hour'")
        is_parked = draft is drafts[-1]
        await complete_all(TransitionEvent.PARKED if is_parked else TransitionEvent.COMPLETED)
    await register_actor(frozen, "person:edits", ActorKind.PERSON)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    cache = PartitionCache()
    assert (await reconciler.run_pass()).found == {}
    await frozen.execute("set session_replication_role = replica")  # nothing in the ledger objects
    _, without_run, at_start, parked = (draft.business_key for draft in drafts)
    for key, in_run in ((without_run, False), (at_start, True)):
        named = key, TransitionEvent.CANCELLED, "sold", "person:edits", in_run
        assert await frozen.execute(REWRITE, *named) == "UPDATE 1"
    await frozen.execute(END_AT_START, at_start)
    await frozen.execute(FORGET, parked)

    everything, some = PassScope(), PassScope.between(date(2027, 3, 1), None)
    expected: set[tuple[FindingType, str | None]] = {
        (CONFLICT, without_run),
        (FindingType.UNEXCUSED, at_start),
        (CONFLICT, parked),
    }
    for scope in (everything, everything, some, None, everything, some):
        if scope is None:  # what an open run says has ended is held against the journal, too
            await frozen.execute(REOPEN, without_run)
            expected.add((UNBALANCED, None))  # and an open run has an item that has not ended
            continue
        await reconciler.run_pass(scope, cache=cache)

        rows = await findings.list_findings(frozen)
        assert {(row["type"], row["business_key"]) for row in rows} == expected


QUARTERS: Final = (date(2026, 9, 1), date(2026, 12, 1), date(2027, 3, 1))
END_AS: Final = """
insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)
select effective_date, item_no, $3, 0, $4, $5::timestamptz from ledger.due_item
where serial = $1 and effective_date = $2
"""


@pytest.mark.damages
async def test_g11_an_item_ended_for_overlap_with_one_of_a_quarter_ago_was_not_alone(
    frozen: Connection, make_drafts: Drafts, actor_no: int
) -> None:
    completed, skipped, cancelled = (
        TransitionEvent.COMPLETED,
        TransitionEvent.SKIPPED,
        TransitionEvent.CANCELLED,
    )
    first, second, third = QUARTERS
    at = NOON + timedelta(hours=1)
    later = at + timedelta(seconds=1)
    early = NOON - timedelta(days=2)
    # By key: what ended when, the item asked about, and whether it was alone.
    cases = (
        (((third, skipped, at),), third, False),  # an earlier one is open
        (((first, completed, at), (second, completed, at), (third, skipped, NOON)), third, False),
        (
            ((first, completed, early), (second, completed, early), (third, skipped, at)),
            third,
            True,
        ),
        (((first, cancelled, at),), first, False),  # a newer one is open
        (((second, skipped, early), (third, cancelled, at)), third, True),
        # A newer one asked for its end, and was skipped for one that fell due after that.
        (((first, cancelled, at), (second, skipped, at), (third, skipped, at)), first, False),
        (((second, cancelled, at), (third, skipped, early)), second, False),
        # A newer one waited, and was skipped in its turn: that excuses if the newest goes first.
        (
            ((first, completed, early), (second, skipped, at), (third, skipped, later)),
            second,
            False,
        ),
        (((first, completed, early), (second, skipped, later), (third, skipped, at)), third, True),
    )
    for day in QUARTERS:
        due_at = NOON - timedelta(days=(third - day).days)
        drafts = make_drafts(len(cases), due_at=due_at, effective_date=day)
        await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute(
        "update ledger.due_item set serial = k.serial, overlap = 4"
        " from (select business_key, row_number() over (order by business_key) as serial"
        "   from ledger.due_item group by business_key) k"
        " where k.business_key = due_item.business_key"
    )
    asked: dict[int, bool] = {}
    places: list[tuple[date, int]] = []
    for serial, (endings, day, is_alone) in enumerate(cases, 1):
        for ended_day, event, ended_at in endings:
            await frozen.execute(END_AS, serial, ended_day, event, actor_no, ended_at)
        number = await frozen.fetchval(
            "select item_no from ledger.due_item where serial = $1 and effective_date = $2",
            serial,
            day,
        )
        asked[number] = is_alone
        places.append((day, number))

    # Each alone: together, their dates would reach from the first quarter to the last.
    lone = [await reconciled_rows.list_lone_overlaps(frozen, [place]) for place in places]
    together = await reconciled_rows.list_lone_overlaps(frozen, places)

    assert set().union(*lone) == {number for number, is_alone in asked.items() if is_alone}
    assert together == set().union(*lone)
