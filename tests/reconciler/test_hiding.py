"""What could hide that something is wrong: each is itself judged, or counts for nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, clock, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.definitions import define, record_triggered
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources, SqlPopulation
from tests.seals import seal_again

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]


@pytest.fixture
async def schedule(frozen: Connection, kind: str) -> int:
    """An hourly schedule since 09:00 of which nothing was materialised."""
    definition = parse_definition(
        {
            "definition": "statements",
            "tenant": "acme",
            "kind": kind,
            "business_key": "statements",
            "when": {"cron": "0 * * * *", "timezone": "UTC"},
        }
    )
    defined = await define(
        frozen,
        definition.normalised(),
        tenant="acme",
        name="statements",
        kind=kind,
        event_type=None,
        effective_from=NOON - 3 * HOUR,
        actor_no=await register_actor(frozen, "person:author", ActorKind.PERSON),
    )
    return defined.definition_no


async def test_g11_a_definition_changed_in_place_is_one_finding_and_blocks_its_repairs(
    frozen: Connection, make_reconciler: Make, schedule: int
) -> None:
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3}
    assert len(await reconciler.plan()) == 3
    change = (
        "update ledger.definition set document = jsonb_set(document, '{when,cron}', $2::jsonb)"
        " where definition_no = $1"
    )
    await frozen.execute(change, schedule, '"*/5 * * * *"')

    result = await reconciler.run_pass()
    assert result.found == {FindingType.TAMPERED: 1}
    assert [mark.complete_before for mark in result.watermarks] == [None]
    assert await reconciler.plan() == []

    await frozen.execute(change, schedule, '"0 * * * *"')
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3}
    assert len(await reconciler.plan()) == 3


@pytest.mark.damages
async def test_g11_a_version_that_was_removed_with_its_items_is_found(
    frozen: Connection, make_reconciler: Make, schedule: int
) -> None:
    await frozen.execute("set session_replication_role = replica")
    for table in ("materialised", "definition"):
        await frozen.execute(f"delete from ledger.{table} where definition_no = $1", schedule)  # noqa: S608
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {FindingType.TAMPERED: 1}
    (row,) = await findings.list_findings(frozen)
    assert row["sentence"].startswith("The definition statements, version 1 was removed.")


@pytest.mark.parametrize("change", ["grace_seconds = 30 * 86400", "no_replay = not no_replay"])
async def test_g11_a_kind_changed_in_place_is_a_finding_and_nothing_of_it_is_repaired(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    schedule: int,
    actor_no: int,
    change: str,
) -> None:
    assert schedule
    await emit_items(frozen, make_drafts(2, due_at=NOON - 24 * HOUR), actor_no=actor_no)
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3, FindingType.OVERDUE: 2}
    changed = "update ledger.kind set {}, policy_version = policy_version + {}"
    await frozen.execute(changed.format(change, 0))

    assert (await reconciler.run_pass()).found[FindingType.TAMPERED] == 1
    assert await reconciler.plan() == []

    await frozen.execute(changed.format(change, 1))  # a policy that is put
    assert FindingType.TAMPERED not in (await reconciler.run_pass()).found
    assert len(await reconciler.plan()) == 3


async def test_no_role_may_write_seals(frozen: Connection) -> None:
    granted = (
        "select distinct privilege_type from information_schema.table_privileges"
        " where table_schema = 'ledger' and table_name = 'seal' and grantee like 'ledger%'"
    )
    assert [row[0] for row in await frozen.fetch(granted)] == ["SELECT"]


async def test_g11_a_business_clock_set_back_is_a_finding_and_nothing_is_repaired(
    frozen: Connection, make_reconciler: Make, schedule: int
) -> None:
    reconciler = make_reconciler()
    assert schedule
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3}
    await clock.set_clock(frozen, NOON - HOUR, 0, database=True)
    await reconciler.pool.connections.expire_connections()

    assert (await reconciler.run_pass()).found[FindingType.TAMPERED] == 1
    assert await reconciler.plan() == []

    await clock.set_clock(frozen, NOON, 0, database=True)
    await reconciler.pool.connections.expire_connections()
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3}
    assert len(await reconciler.plan()) == 3


async def test_g11_a_finding_that_no_person_resolved_opens_again(
    frozen: Connection, make_reconciler: Make, schedule: int
) -> None:
    reconciler = make_reconciler()
    assert schedule
    await reconciler.run_pass()
    person = await register_actor(frozen, "person:cfo", ActorKind.PERSON)
    worker = await register_actor(frozen, "worker:1", ActorKind.WORKER)
    rows = await findings.list_findings(frozen)
    for row, actor_no in zip(rows, (person, worker, None), strict=True):
        await frozen.execute(
            "update ledger.finding set resolution = 'false_positive', closed_at = ledger.now(),"
            " reason = 'known', resolved_by = $2 where id = $1",
            row["id"],
            actor_no,
        )

    await reconciler.run_pass()

    resolved = {
        row["id"]: row["resolution"]
        for row in await findings.list_findings(frozen, open_only=False)
    }
    assert [resolved[row["id"]] for row in rows] == [
        Resolution.FALSE_POSITIVE,
        Resolution.OPEN,
        Resolution.OPEN,
    ]


async def test_g11_a_missed_range_counts_up_to_its_recording_where_catch_up_may_leave_one(
    frozen: Connection, make_reconciler: Make, schedule: int, actor_no: int
) -> None:
    materialiser = await register_actor(frozen, "materialiser:1", ActorKind.MATERIALISER)
    record = (
        "insert into ledger.missed_range values"
        " ($1, $2, $3, 3, 'catch_up', ledger.now() - interval '1 hour', $4)"
    )
    await frozen.execute(record, schedule, NOON - 3 * HOUR, NOON, materialiser)
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3}  # it owes everything

    await frozen.execute(
        'update ledger.definition set document = document || \'{"catch_up": {"policy": "skip"}}\''
        " where definition_no = $1",
        schedule,
    )
    await seal_again(frozen, "definition")
    await frozen.execute(
        "update ledger.materialised set materialised_until = $2 where definition_no = $1",
        schedule,
        NOON,
    )
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 1}  # 11:00, after it

    await frozen.execute("update ledger.missed_range set actor_no = $1", actor_no)
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 3}


async def test_g11_an_item_is_triggered_by_a_named_person_or_unexpected(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, schedule: int, actor_no: int
) -> None:
    """One by a person, one by a worker, and one only expedited by that person."""
    drafts = [
        replace(draft, cycle=f"run-{n}")
        for n, draft in enumerate(make_drafts(3, due_at=NOON - HOUR))
    ]
    await clock.set_clock(frozen, NOON - timedelta(minutes=1), 0)
    await emit_items(frozen, drafts, actor_no=actor_no, definition_nos=[schedule] * 3)
    person = await register_actor(frozen, "person:clerk", ActorKind.PERSON)
    item_nos = await frozen.fetch("select item_no, effective_date from ledger.due_item order by 1")
    for row in await frozen.fetch("select cycle, id from ledger.due_item order by item_no limit 2"):
        await record_triggered(frozen, "acme", "statements", row["cycle"], row["id"])
    for row, actor in zip(item_nos, (person, actor_no, person), strict=True):
        await frozen.execute(
            "insert into ledger.expedited values ($1, $2, ledger.now(), $3, 'asked for', 1, now())",
            *row,
            actor,
        )
    await clock.set_clock(frozen, NOON, 0)

    found = (await make_reconciler().run_pass()).found
    assert (found[FindingType.UNEXPECTED], found[FindingType.TAMPERED]) == (2, 1)


async def test_g11_a_pause_and_an_expedited_item_are_decisions_of_persons(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, kind: str, actor_no: int
) -> None:
    await emit_items(frozen, make_drafts(4, due_at=NOON + HOUR), actor_no=actor_no)
    person = await register_actor(frozen, "person:clerk", ActorKind.PERSON)
    pause = "insert into ledger.pause (tenant, kind, paused_at, actor_no, reason) values"
    await frozen.execute(f"{pause} ('acme', $1, ledger.now(), $2, 'r')", kind, person)
    await frozen.execute(
        "update ledger.flow set paused_at = ledger.now() - interval '1 hour', paused_by = $1",
        person,
    )
    item_nos = [row[0] for row in await frozen.fetch("select item_no from ledger.due_item")]
    expedite = "insert into ledger.expedited select item_no, effective_date, $2, $3, 'r', flow_no,"
    expedite += " due_at from ledger.due_item where item_no = $1"
    await frozen.execute(expedite, item_nos[0], NOON, person)
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {}

    await frozen.execute(expedite, item_nos[1], NOON, actor_no)
    await frozen.execute(expedite, item_nos[2], NOON - HOUR, person)
    await frozen.execute(expedite, item_nos[3], NOON + HOUR, person)
    await frozen.execute(
        "insert into ledger.expedited values (4711, '2027-03-01', $1, $2, 'r', 1, $1)", NOON, person
    )
    await frozen.execute(f"{pause} ('acme', null, ledger.now(), $1, 'r')", actor_no)
    assert (await reconciler.run_pass()).found == {
        FindingType.TAMPERED: 4,
        FindingType.UNBALANCED: 1,
    }
    await frozen.execute(
        "delete from ledger.expedited; delete from ledger.pause where kind is null"
    )
    # Upkeep resumes a flow that was made, and paused, beside the transaction that ended its pause.
    end = "update ledger.pause set paused_at = $1, resumed_by = actor_no, resumed_at = $2"
    for ago, count in ((timedelta(seconds=30), 0), (timedelta(minutes=2), 1), (-HOUR, 1)):
        await frozen.execute(end, NOON - HOUR, NOON - ago)
        assert (await reconciler.run_pass()).found[FindingType.TAMPERED] == count
    # Nobody ends one that is over by its own end; it is not over before.
    over = "update ledger.pause set resumed_at = $1, resumed_by = null, paused_until = $2"
    ended = NOON - timedelta(seconds=30)
    for until, count in ((ended, 0), (ended + HOUR, 1), (NOON - HOUR, 1), (None, 1)):
        await frozen.execute(over, ended, until)
        assert (await reconciler.run_pass()).found[FindingType.TAMPERED] == count, until
    await frozen.execute("delete from ledger.pause")
    assert (await reconciler.run_pass()).found == {FindingType.TAMPERED: 1}


async def test_g11_a_withdrawal_is_of_an_item_and_somebody_asked_for_it(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, actor_no: int
) -> None:
    await emit_items(frozen, make_drafts(3, due_at=NOON + HOUR), actor_no=actor_no)
    person = await register_actor(frozen, "person:clerk", ActorKind.PERSON)
    item_nos = [row[0] for row in await frozen.fetch("select item_no from ledger.due_item")]
    ask = "insert into ledger.withdrawal values ($1, '2027-03-01', 11, 'sold', null, $2, $3)"
    await frozen.execute(ask, item_nos[0], person, NOON)
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {}

    await frozen.execute(ask, item_nos[1], 4711, NOON)
    await frozen.execute(ask, item_nos[2], person, NOON + HOUR)
    await frozen.execute(ask, 4711, person, NOON)

    assert (await reconciler.run_pass()).found == {
        FindingType.TAMPERED: 2,
        FindingType.UNBALANCED: 1,
    }


@pytest.mark.damages
async def test_g11_a_retired_key_of_a_month_that_was_never_dropped_hides_no_missing_item(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    (draft,) = drafts = make_drafts(1, due_at=NOON + HOUR)
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute("delete from ledger.pending")
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute("delete from ledger.due_item")
    await frozen.execute("set session_replication_role = origin")
    await frozen.execute("update ledger.partition_span set has_retired = parent = 'due_item'")
    await frozen.execute("insert into ledger.retired_key values ($1, ledger.now())", draft.id)
    reconciler = make_reconciler(ReconcilerSources((policies,)))

    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 1}
    await reconciler.repair(await reconciler.plan())
    assert (await reconciler.run_pass()).found == {}
