"""What a report says that findings alone do not."""

import csv
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

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
from dueledger.reconciler.report.files import ReportFiles
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import StatementVerdict
from tests.reconciler.conftest import NOON

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


LATE: Final = 25_000
BYTES_MAX: Final = 2_000_000
LATE_FINDINGS: Final = """
insert into ledger.finding (
  id, type, severity, tenant, kind, subject, item_id, business_key, effective_date, due_at,
  sentence, expected, actual, first_seen_at, last_seen_at, closed_at, resolution, reason)
select gen_random_uuid(), 'LATE', 'information', 'acme', 'PolicyRenewalDue', i::text,
  gen_random_uuid(), 'policy-' || i, '2027-02-20', '2027-02-20',
  'PolicyRenewalDue of policy-' || i || ', effective 2027-02-20, was completed at 2027-02-20 '
  '03:00:00 UTC, 2 h after its SLA.',
  '{"complete_by": "2027-02-20T01:00:00+00:00", "state": "completed"}',
  '{"completed_at": "2027-02-20T03:00:00+00:00", "state": "completed"}',
  '2027-02-20 04:00+00', '2027-02-27', '2027-02-20 04:00+00', 'explained', 'information'
from generate_series(1, $1) i
"""
FINDING: Final = """
insert into ledger.finding (
  id, type, severity, tenant, kind, subject, business_key, due_at, sentence, expected, actual,
  first_seen_at, last_seen_at, closed_at, resolution, reason)
select gen_random_uuid(), type, severity, 'acme', 'K', subject, subject, due_at, 'What differs.',
  '{"b": 2, "a": "1"}', '{}', seen_at, seen_at, closed_at,
  case when closed_at is null then 'open' else 'explained' end, null
from (values ($1, $2, $3, $4::timestamptz, $5::timestamptz, $6::timestamptz))
  as v (type, severity, subject, seen_at, closed_at, due_at)
"""


async def test_g11_a_report_of_25_000_late_items_is_short_and_a_file_beside_it_has_all(
    frozen: Connection, make_reconciler: Make, tmp_path: Path
) -> None:
    await frozen.execute(LATE_FINDINGS, LATE)
    for type_, severity, subject, hours in (
        ("UNEXPECTED", "warning", "=cmd|' /C calc'!A1", 9),
        ("OVERDUE", "error", '+49 89\n1, "2"', 3),
        ("OVERDUE", "error", "é 保険", 5),
        ("UNBALANCED", "critical", "@sum", 1),
        ("WRONG_DATE", "error", "-1", 4),
    ):
        seen_at = NOON - timedelta(hours=hours)
        await frozen.execute(FINDING, type_, severity, subject, seen_at, None, None)
    reconciler = make_reconciler()
    result = await reconciler.run_pass()

    report = await reconciler.report(directory=tmp_path)

    files = ReportFiles.of(tmp_path, result)
    assert max(files.html.stat().st_size, files.json.stat().st_size) < BYTES_MAX
    assert report.statement.verdict is StatementVerdict.NOT_COMPLETE
    assert [(row.type, row.found) for row in report.summary][-1] == (FindingType.LATE, LATE)
    assert [each.subject for each in report.findings[:5]] == [
        "@sum",
        "é 保険",
        "-1",
        '+49 89\n1, "2"',
        "=cmd|' /C calc'!A1",
    ]
    assert {each.type for each in report.findings[5:]} == {FindingType.LATE}
    assert f"of {LATE + 5:,} shown" in files.html.read_text()
    assert files.findings.name in files.html.read_text()
    content = files.findings.read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n") == LATE + 6
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert list(rows[0]) == list(type(report.findings[0]).model_fields)
    assert len({row["id"] for row in rows}) == LATE + 5
    assert [row["business_key"] for row in rows[-5:]] == [
        "'=cmd|' /C calc'!A1",
        "é 保険",
        "'-1",
        '\'+49 89\\n1, "2"',
        "'@sum",
    ]
    assert rows[-1]["first_seen_at"] == (NOON - timedelta(hours=1)).isoformat()
    assert rows[-1]["expected"] == '{"a":"1","b":2}'
    assert rows[-1]["closed_at"] == ""


async def test_g11_a_report_has_the_findings_and_repairs_of_its_period_whoever_found_them(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
) -> None:
    """Those of an earlier process, too: the period decides, and what is open is never left out."""
    for subject, seen, closed, due in (
        ("before the period", 90, 60, None),
        ("ended in it", 60, 20, None),
        ("due in it", 90, 60, 20),
        ("open, of another source", 90, None, None),
    ):
        days = [
            None if each is None else NOON - timedelta(days=each) for each in (seen, closed, due)
        ]
        await frozen.execute(FINDING, "LATE_ARRIVING", "warning", subject, *days)
    await owe(make_drafts(2, due_at=NOON))
    earlier = make_reconciler(ReconcilerSources((policies,)))
    await earlier.run_pass()
    assert await earlier.repair(await earlier.plan()) == 2
    later = make_reconciler(ReconcilerSources((policies,)))
    await later.run_pass()

    report = await later.report()

    assert report.period.model_dump() == {"from_date": date(2027, 1, 25), "to_date": None}
    assert {each.subject for each in report.findings if each.type == "LATE_ARRIVING"} == {
        "ended in it",
        "due in it",
        "open, of another source",
    }
    assert (report.findings_count, report.repairs_count, report.repairs_executed) == (5, 2, 2)
    before = await later.report(dates=(date(2026, 12, 1), date(2027, 1, 1)))
    assert {each.subject for each in before.findings} == {
        "before the period",
        "ended in it",
        "due in it",
        "open, of another source",
    }
    assert before.repairs == []
    assert before.statement == report.statement.model_copy(
        update={"sentence": before.statement.sentence}
    )


class TableBoxes(HTMLParser):
    """Finds the classes of the element around each table of a page, and what it loads or runs."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.boxes: list[str] = []
        self.active: list[str] = []
        self._around = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self.boxes.append(self._around)
        if tag in {"script", "link", "img", "iframe"} or "href" in given or "src" in given:
            self.active.append(tag)
        self._around = given.get("class") or ""


async def test_each_table_scrolls_in_a_box_of_its_own_and_is_printed_with_its_totals_once(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    complete_all: Settle,
    actor_no: int,
) -> None:
    """Seen at 400, 768 and 1440 pixels, in both color schemes and as a PDF, with 25,000 rows."""
    drafts = make_drafts(2, due_at=NOON)
    await owe(drafts)
    await emit_items(frozen, drafts[:1], actor_no=actor_no)
    await complete_all()
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()

    page = render_page(await reconciler.report(await reconciler.plan()))

    parsed = TableBoxes(page)
    headings = ("Accounting", "Checks", "Findings", "Finding by finding", "Repairs", "Timeliness")
    assert all(f"<h2>{each}</h2>" in page for each in headings)
    assert len(parsed.boxes) >= len(headings)
    assert {box.split()[0] for box in parsed.boxes} == {"wide"}
    assert parsed.active == []
    style, _, printed = page.partition("</style>")[0].partition("@media print")
    assert ".wide { overflow-x: auto; }" in style
    widths = [int(each) for each in re.findall(r"(?<!-)width: (\d+)px", style)]
    assert max(widths, default=0) < 400
    assert "tfoot { display: table-row-group; }" in printed
    assert "thead { display: table-header-group; }" in printed
    assert "counter(page) " in printed
