"""What a report says that findings alone do not."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import StatementVerdict

from .conftest import NOON

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Settle = Callable[..., Awaitable[None]]


async def test_g11_late_items_beyond_what_a_pass_lists_leave_it_complete(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(5, due_at=NOON - timedelta(hours=2))
    promised = [replace(draft, complete_by=NOON - timedelta(hours=1)) for draft in drafts]
    await emit_items(frozen, promised, actor_no=actor_no)
    await complete_all()

    reconciler = make_reconciler(limits=PassLimits(stuck_seconds=0, findings_max=2))
    result = await reconciler.run_pass()
    report = await reconciler.report()

    assert result.found == {FindingType.LATE: 5}
    assert result.omitted.total() == 3
    assert [mark.complete_before for mark in result.watermarks] == [NOON]
    assert report.statement.verdict is StatementVerdict.COMPLETE_WITH_EXPLAINED
    assert report.findings_omitted == 3


async def test_g11_a_kind_that_no_source_names_is_said_to_be_unchecked(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, actor_no: int
) -> None:
    await emit_items(frozen, make_drafts(2, due_at=NOON + timedelta(hours=1)), actor_no=actor_no)
    reconciler = make_reconciler()
    await reconciler.run_pass()

    report = await reconciler.report()

    (row,) = report.accounting
    assert [name for name, done in row.checks if done] == ["ending"]
    assert report.statement.sentence.endswith(
        "; no source says whether 2 items of 1 kind are owed."
    )
    page = render_page(report)
    assert page.count("✓ checked") == 1
    assert "0 ✓" not in page.partition("<h2>Accounting</h2>")[2].partition("</section>")[0]


async def test_g11_what_was_looked_up_outside_is_counted_apart_from_what_was_completed(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    await emit_items(frozen, make_drafts(3, due_at=NOON), actor_no=actor_no)
    await emit_items(frozen, make_drafts(2, due_at=NOON, kind="Unwatched"), actor_no=actor_no)
    await complete_all()
    await domain.execute("insert into booking select id, '', '', 'B' from ledger.due_item")
    reconciler = make_reconciler(ReconcilerSources((), (bookings,)))
    await reconciler.run_pass()

    report = await reconciler.report()

    assert (report.totals.completed, report.completed_evidenced) == (5, 3)
    assert "3 looked up in evidence outside" in render_page(report)


@pytest.mark.usefixtures("frozen")
async def test_g11_rows_that_cannot_be_read_are_skipped_with_their_reason(
    make_reconciler: Make, domain: asyncpg.Connection, policies: SqlPopulation
) -> None:
    await domain.execute(
        "insert into policy_due values"
        " ('acme', 'K', null, '1', '2027-03-01', now(), '{}'),"
        " ('acme', 'K', 'P-' || chr(31), '1', '2027-03-01', now(), '{}')"
    )
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    result = await reconciler.run_pass()
    report = await reconciler.report()

    assert result.found == {}
    (source,) = [source for source in report.sources if source.name == "policies"]
    assert sum(skipped.count for skipped in source.skipped) == 2
    assert "business_key is null" in {skipped.reason for skipped in source.skipped}
