"""Received events that no rule read, and events that came after their kind was found complete."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, clock, findings, reconciled_events
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources, load_sources
from tests.seals import put_grace

from .conftest import NOON, mend, resolutions

Make = Callable[..., Reconciler]
Land = Callable[..., Awaitable[None]]

EVENT_RULE: Final = """
definition: renewal
tenant: acme
kind: {kind}
event: PolicyActivated
business_key: data.policy
cycle: data.term
effective_date: data.expires_on
when: {{relative: P0D, to: effective_date, at: "09:00", timezone: UTC}}
cancel_on: [{{event: PolicyCancelled, business_key: data.policy}}]
"""
BODY: Final = '{{"policy":"{}","term":"1","expires_on":"{}"}}'


async def define_rule(connection: Connection, kind: str, actor_no: int) -> None:
    (rule,) = load_definitions(EVENT_RULE.format(kind=kind), source="test")
    await define(
        connection,
        dict(rule.normalised()),
        tenant=rule.tenant,
        name=rule.definition,
        kind=rule.kind,
        event_type=rule.event,
        effective_from=NOON - timedelta(hours=1),
        actor_no=actor_no,
    )


async def test_g11_events_that_no_rule_read_are_one_finding_by_tenant_and_type(
    frozen: Connection,
    make_reconciler: Make,
    kind: str,
    land: Land,
    actor_no: int,
    tmp_path: Path,
) -> None:
    await define_rule(frozen, kind, actor_no)
    await clock.set_clock(frozen, NOON - timedelta(hours=2), 0)
    await land("PolicyActivated", BODY.format("P-1", "2027-06-01"))  # before the rule
    await clock.set_clock(frozen, NOON, 0)
    await land("PolicyCancelled", BODY.format("P-2", "2027-06-01"))  # read by the rule
    await land("PolicyTouched", "{}", "{}", "{}")
    await land("PolicyTouched", "{}", tenant="umbra")
    await land("ClaimOpened", "{}")
    file = tmp_path / "sources.yaml"
    file.write_text("events: [{tenant: acme, ignore: [ClaimOpened]}]")
    reconciler = make_reconciler(load_sources(file))

    result = await reconciler.run_pass()

    assert (result.found, result.open_found) == ({FindingType.EVENT_UNMATCHED: 3}, 3)
    rows = await findings.list_findings(frozen)
    assert {(row["tenant"], row["subject"], row["actual"]["count"]) for row in rows} == {
        ("acme", "PolicyActivated", 1),
        ("acme", "PolicyTouched", 3),
        ("umbra", "PolicyTouched", 1),
    }
    assert {row["actual"]["last_id"] for row in rows if row["tenant"] == "umbra"} == {"event-5"}

    # What it no longer concerns closes; of a tenant with a failed definition nothing is said.
    ignored = frozenset({("acme", "ClaimOpened"), ("umbra", "PolicyTouched")})
    await frozen.execute("update ledger.definition set document = document || '{\"event\": 1}'")
    await make_reconciler(ReconcilerSources(ignored_events=ignored)).run_pass()

    closed = {
        (row["tenant"], row["subject"]): row["resolution"]
        for row in await findings.list_findings(
            frozen, open_only=False, type_=FindingType.EVENT_UNMATCHED
        )
    }
    assert closed == {
        ("acme", "PolicyActivated"): Resolution.OPEN,
        ("acme", "PolicyTouched"): Resolution.OPEN,
        ("umbra", "PolicyTouched"): Resolution.EXPLAINED,
    }


async def test_g11_an_event_of_the_inbox_that_its_rule_refuses_is_a_finding(
    frozen: Connection, make_reconciler: Make, kind: str, land: Land, actor_no: int
) -> None:
    await define_rule(frozen, kind, actor_no)
    await land("PolicyActivated", '{"policy":"P-1"}', '{"policy":"P-2"}')

    assert (await make_reconciler().run_pass()).found == {FindingType.EVENT_UNMATCHED: 1}

    [finding] = await findings.list_findings(frozen)
    assert finding["actual"]["count"] == 2
    assert "PolicyActivated of acme" in finding["sentence"]


FORGE: Final = """
insert into ledger.event
  (event_no, tenant, source, id, type, occurred_at, business_key, body, received_at)
select event_no + 4711, tenant, source, 'forged', 'PolicyCancelled', occurred_at, 'P-9',
  '{"policy":"P-9"}', received_at + interval '30 s'
from ledger.event where event_no = $1
"""
INBOX_EDITS: Final = (
    ("removed", "delete from ledger.event where event_no = $1"),
    (
        "changed",
        "update ledger.event set received_at = received_at + interval '1 us' where event_no = $1",
    ),
    ("changed", "update ledger.event set id = 'another' where event_no = $1"),
    ("unkeyed", FORGE),
)


@pytest.mark.damages
@pytest.mark.parametrize("page", [1, 3, 50_000])
async def test_g11_an_inbox_that_was_edited_is_found_and_nothing_of_its_tenant_is_repaired(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
    land: Land,
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
    page: int,
) -> None:
    """Passes that do not read everything leave it open.

    Dropped months are no edits, nor are keys that are forgotten, of one moment some at first.
    """
    monkeypatch.setattr(reconciled_events, "KEYS_PAGE", page)
    await define_rule(frozen, kind, actor_no)
    await emit_items(frozen, make_drafts(1, due_at=NOON + timedelta(days=40)), actor_no=actor_no)
    await frozen.execute("select ledger.make_partition('event', '2026-11-01')")
    times = [datetime(2026, 11, 5, tzinfo=UTC), *[NOON - timedelta(minutes=30)] * 6]
    for number, occurred_at in enumerate(times):
        await clock.set_clock(frozen, NOON - timedelta(minutes=20 - max(number, 2)), 0)
        body = BODY.format(f"P-{number}", "2027-06-01")
        await land("PolicyActivated", body, at=occurred_at)
    await clock.set_clock(frozen, NOON, 0)
    await frozen.execute("create table kept as select * from ledger.event")
    numbers = [row[0] for row in await frozen.fetch("select event_no from kept order by 1")]
    reconciler = make_reconciler()
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 7}
    assert len(await reconciler.plan()) == 7

    edited: set[tuple[str, str]] = set()
    for number, (fault, edit) in zip(numbers[3:], INBOX_EDITS, strict=False):
        await frozen.execute(edit, number)
        edited.add((f"event:{number + (4711 if edit == FORGE else 0)}", fault))
    assert (await reconciler.run_pass()).found == {
        FindingType.MISSING: 6,
        FindingType.TAMPERED: 4,
    }
    for is_cached in (False, True):
        await reconciler.tick()
        assert reconciler.last is not None
        assert bool(reconciler.last.cached_windows) is is_cached
        rows = await findings.list_findings(frozen, type_=FindingType.TAMPERED)
        assert {(row["subject"], row["actual"]["fault"]) for row in rows} == edited
        assert await reconciler.plan() == []

    await frozen.execute("delete from ledger.event; insert into ledger.event select * from kept")
    for no_edit in (
        "drop table ledger.event_202611",
        f"delete from ledger.event_key where event_no in ({numbers[0]}, {numbers[2]})",  # noqa: S608
    ):
        await frozen.execute(no_edit)
        assert (await reconciler.run_pass()).found == {FindingType.MISSING: 6}
        assert len(await reconciler.plan()) == 6


async def test_g11_an_event_after_its_due_time_was_complete_is_carried_and_never_open(
    frozen: Connection, make_reconciler: Make, kind: str, land: Land, actor_no: int
) -> None:
    await define_rule(frozen, kind, actor_no)
    reconciler = make_reconciler()
    await land("PolicyActivated", BODY.format("P-1", "2027-03-02"))
    await reconciler.run_pass()
    await mend(reconciler)
    assert [mark.complete_before for mark in (await reconciler.run_pass()).watermarks] == [NOON]
    await clock.set_clock(frozen, NOON + timedelta(hours=1), 0)
    await land(
        "PolicyActivated", BODY.format("P-2", "2027-03-01"), BODY.format("P-3", "2027-03-02")
    )
    await frozen.execute("update ledger.event set business_key = body ->> 'policy'")

    await reconciler.run_pass()
    assert await mend(reconciler) == 2
    result = await reconciler.run_pass()

    assert result.found == {FindingType.LATE_ARRIVING: 1, FindingType.OVERDUE: 1}
    assert result.open_found == 1  # it was due at nine and waits
    assert await resolutions(frozen, FindingType.LATE_ARRIVING) == [Resolution.CARRIED_FORWARD]
    [finding] = await findings.list_findings(
        frozen, open_only=False, type_=FindingType.LATE_ARRIVING
    )
    assert finding["business_key"] == "P-2"
    assert finding["actual"]["received_at"] == (NOON + timedelta(hours=1)).isoformat()
    assert await reconciler.plan() == []


async def test_g11_an_event_before_the_pass_is_not_late_where_an_item_holds_the_watermark_back(
    frozen: Connection,
    make_reconciler: Make,
    kind: str,
    land: Land,
    complete_all: Callable[[], Awaitable[None]],
    actor_no: int,
) -> None:
    await define_rule(frozen, kind, actor_no)
    reconciler = make_reconciler()
    for policy, expires_on in (("P-1", "2027-02-28"), ("P-2", "2027-03-01")):
        await land("PolicyActivated", BODY.format(policy, expires_on))
        await reconciler.run_pass()
        assert await mend(reconciler) == 1
        if policy == "P-1":
            await complete_all()
    await frozen.execute("update ledger.event set business_key = body ->> 'policy'")
    await put_grace(frozen, 86_400)
    (mark,) = (await reconciler.run_pass()).watermarks
    assert mark.complete_before == NOON - timedelta(hours=3)  # P-2 is in its grace

    assert FindingType.LATE_ARRIVING not in (await reconciler.run_pass()).found
