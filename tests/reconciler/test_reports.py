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

from dueledger.ledger.finding_types import FindingType, RepairStatus, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import (
    PassLimits,
    PassScope,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.repair_policy import RepairPolicies, Treatment
from dueledger.reconciler.report.files import ReportFiles
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import FindingDetail, StatementVerdict
from dueledger.reconciler.report.row_samples import FindingSamples
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
    assert (row.undated, row.untermed) == (2, 2)
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
    assert [row.both_ways for row in report.accounting] == [False, False]
    assert "one way" in evidence_column(render_page(report))
    whole = make_reconciler(ReconcilerSources((), (replace(bookings, complete=True),)))
    await whole.run_pass()
    both = await whole.report()
    assert {row.kind: row.both_ways for row in both.accounting}["Unwatched"] is False
    assert [row.both_ways for row in both.accounting].count(True) == 1
    assert "both ways" in evidence_column(render_page(both))
    # The effect of what was completed now may still come: it is not looked up.
    slow = make_reconciler(ReconcilerSources((), (replace(bookings, after_seconds=1.0),)))
    await slow.run_pass()
    later = await slow.report()
    assert (later.completed_evidenced, later.accounting[0].checks.evidence) == (0, True)
    assert "✓ checked" not in evidence_column(render_page(later))


async def test_g11_a_pass_over_some_dates_is_complete_for_these_alone(
    frozen: Connection, make_reconciler: Make, make_drafts: Drafts, actor_no: int
) -> None:
    for day in (date(2027, 4, 1), date(2027, 5, 1)):
        drafts = make_drafts(1, due_at=NOON + timedelta(days=1), effective_date=day)
        await emit_items(frozen, drafts, actor_no=actor_no)
    reconciler = make_reconciler()
    await reconciler.run_pass(PassScope(to_date=date(2027, 5, 1)))

    report = await reconciler.report()

    assert report.effective_dates.model_dump() == {"from_date": None, "to_date": date(2027, 5, 1)}
    assert report.totals.expected == 1
    assert report.statement.sentence.startswith("Complete for effective dates before 2027-05-01: ")
    assert "items effective before 2027-05-01" in render_page(report)


async def test_g11_nothing_is_green_of_kinds_whose_source_failed(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    drafts = make_drafts(2, due_at=NOON + timedelta(hours=1))
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute("drop table policy_due")
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()
    (failed,) = await findings.list_findings(frozen, type_=FindingType.SOURCE_FAILED)
    await findings.resolve_findings(
        frozen,
        [failed["id"]],
        resolution=Resolution.EXPLAINED,
        reason="moved",
        actor_no=actor_no,
    )

    page = render_page(await reconciler.report())

    assert '<div class="statement warn">' in page  # although nothing is open
    for section in ("Accounting", "Checks"):
        shown = page.partition(f"<h2>{section}</h2>")[2].partition("</section>")[0]
        assert "✓" not in shown
        assert "not checked" in shown


async def test_g11_as_many_missing_as_unexpected_items_are_no_green_zero(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    due_at = NOON + timedelta(hours=1)
    await owe(make_drafts(2, due_at=due_at))
    await emit_items(frozen, make_drafts(2, due_at=due_at, prefix="other"), actor_no=actor_no)
    await frozen.execute("update ledger.due_item set emitted_at = emitted_at - interval '1 min'")
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await reconciler.run_pass()

    report = await reconciler.report()

    (row,) = report.accounting
    assert (row.difference, row.missing, row.unexpected) == (0, 2, 2)
    page = render_page(report)
    accounting = page.partition("<h2>Accounting</h2>")[2].partition("</section>")[0]
    assert "0 ✓" not in accounting
    assert "2 missing" in accounting
    assert "2 unexpected" in accounting


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
    assert {row.type: [bar.count for bar in row.ages] for row in report.summary} == {
        FindingType.UNBALANCED: [0, 1, 0, 0, 0, 0],
        FindingType.OVERDUE: [0, 2, 0, 0, 0, 0],
        FindingType.WRONG_DATE: [0, 1, 0, 0, 0, 0],
        FindingType.UNEXPECTED: [0, 1, 0, 0, 0, 0],
        FindingType.LATE: [0] * 6,
    }
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


@pytest.mark.parametrize(
    ("due_hours", "seen_hours", "label"),
    [
        (None, -1.0, "< 1 h"),  # found while the pass ran
        (None, 0.99, "< 1 h"),
        (None, 1.0, "1–24 h"),
        (-48.0, 24.0, "1–3 d"),  # due later: by when it was seen
        (72.0, 1.0, "3–7 d"),
        (0.0, 168.0, "7–30 d"),
        (719.0, 0.0, "7–30 d"),
        (720.0, 0.0, "> 30 d"),
    ],
)
def test_open_findings_are_counted_by_the_time_since_they_were_due_or_seen(
    due_hours: float | None, seen_hours: float, label: str
) -> None:
    samples = FindingSamples(NOON)
    opened = FindingDetail.model_construct(
        type=FindingType.STUCK,
        resolution=Resolution.OPEN,
        due_at=None if due_hours is None else NOON - timedelta(hours=due_hours),
        first_seen_at=NOON - timedelta(hours=seen_hours),
    )
    explained = opened.model_copy(update={"resolution": Resolution.EXPLAINED})

    samples.add([opened, explained])

    (row,) = samples.summary()
    assert {bar.label: bar.count for bar in row.ages if bar.count} == {label: 1}


async def test_g11_a_repair_shows_what_it_changed_or_is_to_change_and_whether_it_waits(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    kinds = ("EmittedDue", "AskedDue", "DroppedDue")
    drafts = {kind: make_drafts(1, kind=kind, due_at=NOON) for kind in kinds}
    for each in drafts.values():
        await owe(each)
    asked = {("acme", kind): {FindingType.MISSING: Treatment.PROPOSE} for kind in kinds[1:]}
    reconciler = make_reconciler(ReconcilerSources((policies,), (), RepairPolicies(asked)))
    await reconciler.run_pass()
    assert await reconciler.repair(await reconciler.plan()) == 1
    await emit_items(frozen, drafts["DroppedDue"], actor_no=actor_no)
    await reconciler.run_pass()

    report = await reconciler.report(await reconciler.plan())

    repairs = {each.kind: each for each in report.repairs}
    assert {
        kind: (each.before, each.after, each.status, each.waits) for kind, each in repairs.items()
    } == {
        "EmittedDue": ("no item", "Scheduled", RepairStatus.EXECUTED, False),
        "AskedDue": ("no item", "Scheduled", RepairStatus.PROPOSED, True),
        "DroppedDue": ("no item", "no item", RepairStatus.PROPOSED, False),
    }
    page = render_page(report).partition("<h2>Repairs</h2>")[2].partition("</section>")[0]
    assert page.count("no item&nbsp;→ <b>Scheduled</b>") == 1
    assert page.count("no item&nbsp;→ Scheduled") == 1
    assert page.count("no change") == 1
    assert "its finding is not open any more" in page
    assert "a person approves it" in page


def evidence_column(page: str) -> str:
    """Return the cells of the checks of evidence."""
    rows = page.partition("<h2>Checks</h2>")[2].partition("</table>")[0].split("<tr>")[2:]
    return "".join(row.split("<td>")[5] for row in rows)


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
