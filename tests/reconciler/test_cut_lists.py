"""A list of findings that ends at the cap closes none of those that it does not have."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import PassLimits, Reconciler
from dueledger.reconciler.repair import repairs

from .conftest import NOON, mend

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Land = Callable[..., Awaitable[None]]

TENANTS: Final = ("acme", "umbra", "wonka")
PAUSE_KINDS: Final = """
insert into ledger.pause (tenant, kind, paused_at, actor_no, reason)
select tenant, name, ledger.now(), (select min(actor_no) from ledger.actor), 'nobody'
from ledger.kind
"""
EXPEDITE_NOTHING: Final = """
insert into ledger.expedited
select n, '2027-03-01', ledger.now(), (select min(actor_no) from ledger.actor), 'nobody', 1,
  ledger.now()
from generate_series(4711, 4713) n
"""
OPEN_CLAIMS: Final = """
update ledger.claim
set started = 0, closed_at = null, deadline = ledger.machine_now() - interval '1 hour'
"""
EDITS: Final = {
    FindingType.OUTCOME_CONFLICT: (
        "update ledger.transition set attempt = attempt + 1",
        "update ledger.transition set attempt = attempt - 1",
    ),
    FindingType.TAMPERED: (PAUSE_KINDS, "delete from ledger.pause"),
    FindingType.UNBALANCED: (EXPEDITE_NOTHING, "delete from ledger.expedited"),
    FindingType.STUCK: (
        OPEN_CLAIMS,
        "update ledger.claim set closed_at = ledger.now(), started = size",
    ),
}


@pytest.mark.damages
@pytest.mark.parametrize("findings_max", [1, 2])
async def test_g11_a_pass_whose_lists_are_cut_closes_no_finding_that_they_may_have_had(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Callable[[], Awaitable[None]],
    land: Land,
    actor_no: int,
    findings_max: int,
) -> None:
    for tenant in TENANTS:
        drafts = make_drafts(1, due_at=NOON - timedelta(minutes=5), tenant=tenant)
        await emit_items(frozen, drafts, actor_no=actor_no)
        await complete_all()
        await land("Unread", "{}", tenant=tenant)
    for edit, _ in EDITS.values():
        await frozen.execute(edit)
    reconciler = make_reconciler()
    await reconciler.run_pass()
    found = {row["id"]: row["type"] for row in await findings.list_findings(frozen)}
    assert {*found.values()} >= {*EDITS, FindingType.EVENT_UNMATCHED}

    reconciler.limits = PassLimits(0, findings_max)
    result = await reconciler.run_pass()

    assert result.closed == {}
    assert {row["id"] for row in await findings.list_findings(frozen)} == {*found}
    assert {mark.blocked_by for mark in result.watermarks} == {"more findings than one pass lists"}

    for _, undo in EDITS.values():
        await frozen.execute(undo)
    await frozen.execute("update ledger.event set matched = true")
    result = await reconciler.run_pass()
    assert (result.found, result.closed.total()) == ({}, len(found))
    assert {mark.complete_before for mark in result.watermarks} == {NOON}


@pytest.mark.damages
async def test_g11_a_release_frees_everything_that_has_lapsed_some_at_a_time(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    claim_all: Callable[[], Awaitable[list[int]]],
    complete_all: Callable[[], Awaitable[None]],
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repairs, "REAPED_MAX", 1)
    for tenant in TENANTS:
        drafts = make_drafts(2, due_at=NOON - timedelta(minutes=5), tenant=tenant)
        await emit_items(frozen, drafts, actor_no=actor_no)
        await complete_all()
        await emit_items(
            frozen,
            make_drafts(2, due_at=NOON, tenant=tenant, prefix="claimed"),
            actor_no=actor_no,
        )
        await claim_all()
    await frozen.execute(
        "insert into ledger.held_key select item_no, item_no, effective_date, flow_no, ledger.now()"
        " from ledger.due_item i"
        " where exists (select from ledger.transition t where t.item_no = i.item_no)"
    )
    await frozen.execute(
        "update ledger.claim set deadline = ledger.machine_now() - interval '1 hour'"
        " where closed_at is null"
    )
    reconciler = make_reconciler()
    found = (await reconciler.run_pass()).found
    assert (found[FindingType.HELD_KEY], found[FindingType.STUCK]) == (6, 3)

    assert await mend(reconciler) == 9

    assert (await reconciler.run_pass()).found == {}
    assert await frozen.fetchval("select count(*) from ledger.pending") == 6
