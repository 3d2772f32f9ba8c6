"""Build the report from the result of a pass and the recorded findings."""

import os
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from dueledger.ledger.finding_types import FINDING_RULES, FindingType, Resolution
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Record, findings, items, reconciled_rows
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.repair.planned_repairs import PlannedRepair
from dueledger.reconciler.report import model
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.tallies import KindTally

PAGE_ROWS: Final = 1_000
_OWNER_ONLY: Final = 0o600
_CHECKS: Final = tuple(model.KindChecks.model_fields)
ALL_KINDS: Final = "*"


async def build_report(
    connection: Connection,
    result: PassResult,
    *,
    since: int,
    dry_run: Sequence[PlannedRepair] = (),
) -> model.ReconciliationReport:
    """Report what passes since number `since` found, as of this one."""
    rows = await _all_findings(connection, since)
    rows.sort(key=lambda row: (row["closed_at"] is not None, row["type"] == FindingType.LATE))
    shown = [_finding(row) for row in rows[: model.FINDINGS_SHOWN_MAX]]
    accounting = _accounting(result)
    totals = _totals(accounting)
    summary = _summary(rows)
    open_rows = [row for row in rows if row["resolution"] == Resolution.OPEN]
    before = [mark.complete_before for mark in result.watermarks]
    oldest = min((row["first_seen_at"] for row in open_rows), default=result.as_of)
    omitted = result.omitted.total()
    omitted_open = sum(result.omitted_open.values())
    return model.ReconciliationReport(
        software_version=_software_version(),
        reconciliation_no=result.reconciliation_no,
        since_reconciliation_no=since,
        as_of=result.as_of,
        started_at=result.started_at,
        duration_seconds=round(result.duration_seconds, 3),
        tzdata=tzdata_version(),
        statement=model.make_statement(
            len(open_rows) + omitted_open,
            repaired=sum(row.repaired for row in summary),
            explained=sum(row.explained for row in summary),
            oldest_days=(result.as_of - oldest).total_seconds() / 86_400,
            unchecked=totals.unchecked,
            unchecked_kinds=sum(not row.checks.existence for row in accounting),
            complete_before=_least(before),
        ),
        watermarks=[
            model.Watermark(
                tenant=mark.tenant,
                kind=mark.kind,
                complete_before=mark.complete_before,
                blocked_by=mark.blocked_by,
            )
            for mark in result.watermarks
        ],
        accounting=accounting,
        totals=totals,
        identity=[_identity(row) for row in result.accounting],
        summary=summary,
        findings=shown,
        findings_omitted=omitted + len(rows) - len(shown),
        repairs=await _repairs(connection, since, dry_run),
        sources=_sources(result),
        rules=_rules(result),
        timeliness=_timeliness(result),
        rejected_writes=[
            model.RejectedWrites(verb=row["verb"], reason=row["reason"], count=row["refused_count"])
            for row in await reconciled_rows.count_rejected_writes(connection)
        ],
    )


def write_report(report: model.ReconciliationReport, directory: Path) -> tuple[Path, Path]:
    """Write the JSON and the page; return their paths. An earlier report of the number is kept."""
    directory.mkdir(parents=True, exist_ok=True)
    stem = f"reconciliation-{report.reconciliation_no}"
    json_path, html_path = directory / f"{stem}.json", directory / f"{stem}.html"
    _write_private(json_path, report.as_json())
    _write_private(html_path, render_page(report).encode())
    return json_path, html_path


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone may read: it has business keys, and what went wrong."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, _OWNER_ONLY)  # a file that was there before has a mode of its own
        file.write(content)


async def _all_findings(connection: Connection, since: int) -> list[Record]:
    rows: list[Record] = []
    after: findings.PageAfter | None = None
    while len(rows) <= model.FINDINGS_SHOWN_MAX * 10:
        page = await findings.list_findings(
            connection,
            open_only=False,
            since_reconciliation_no=since,
            after=after,
            page_size=PAGE_ROWS,
        )
        rows += page
        if len(page) < PAGE_ROWS:
            break
        after = findings.PageAfter(page[-1]["first_seen_at"], page[-1]["id"])
    return rows


def _finding(row: Record) -> model.FindingDetail:
    rule = FINDING_RULES[FindingType(row["type"])]
    return model.FindingDetail(
        id=row["id"],
        type=row["type"],
        severity=row["severity"],
        owner=rule.owner,
        tenant=row["tenant"],
        kind=row["kind"],
        subject=row["subject"],
        item_id=row["item_id"],
        business_key=row["business_key"],
        effective_date=row["effective_date"],
        due_at=row["due_at"],
        sentence=row["sentence"],
        expected=row["expected"],
        actual=row["actual"],
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
        closed_at=row["closed_at"],
        opened_count=row["opened_count"],
        resolution=row["resolution"],
        reason=row["reason"],
    )


def _summary(rows: Sequence[Record]) -> list[model.SummaryRow]:
    by_type: defaultdict[FindingType, list[Record]] = defaultdict(list)
    for row in rows:
        by_type[FindingType(row["type"])].append(row)
    summary: list[model.SummaryRow] = []
    for type_ in FindingType:
        found = by_type[type_]
        if not found:
            continue
        rule = FINDING_RULES[type_]
        opened = sum(row["resolution"] == Resolution.OPEN for row in found)
        repaired = sum(row["resolution"] == Resolution.REPAIRED for row in found)
        summary.append(
            model.SummaryRow(
                type=type_,
                severity=rule.severity,
                owner=rule.owner,
                meaning=rule.meaning,
                found=len(found),
                open=opened,
                repaired=repaired,
                explained=len(found) - opened - repaired,
                oldest_seen_at=min(row["first_seen_at"] for row in found),
            )
        )
    return summary


def _accounting(result: PassResult) -> list[model.AccountingRow]:
    comparison = result.comparison
    rows: list[model.AccountingRow] = []
    for key, tally in sorted(comparison.tallies.items()):
        ended = _ended(tally)
        rows.append(
            model.AccountingRow(
                tenant=key[0],
                kind=key[1],
                checks=_checks(result, key, tally),
                expected=tally.expected,
                unchecked=tally.unchecked,
                **ended,
                open=tally.open,
                not_due=tally.not_due,
                overdue=tally.overdue,
                missing=result.missing[key],
                unexpected=result.unexpected[key],
                difference=tally.expected - tally.open - sum(ended.values()),
                hash_total=_hash_total(tally.hash_total),
            )
        )
    return rows


def _checks(result: PassResult, key: KindKey, tally: KindTally) -> model.KindChecks:
    is_judged = result.expectation is None or result.expectation.is_judged(*key)
    return model.KindChecks(
        existence=is_judged and not tally.unchecked,
        date=is_judged and not tally.undated,
        terms=is_judged and not tally.untermed,
        ending=is_judged,
        evidence=key in result.evidenced,
        kafka=key in (result.published or ()),
    )


def _ended(tally: KindTally) -> dict[str, int]:
    names = {
        "completed": TransitionEvent.COMPLETED,
        "skipped": TransitionEvent.SKIPPED,
        "cancelled": TransitionEvent.CANCELLED,
        "superseded": TransitionEvent.SUPERSEDED,
        "written_off": TransitionEvent.WRITTEN_OFF,
    }
    return {name: tally.ended.get(int(event), 0) for name, event in names.items()}


def _totals(rows: Sequence[model.AccountingRow]) -> model.AccountingRow:
    counted = (
        "expected",
        "unchecked",
        "completed",
        "skipped",
        "cancelled",
        "superseded",
        "written_off",
        "open",
        "not_due",
        "overdue",
        "missing",
        "unexpected",
        "difference",
    )
    return model.AccountingRow(
        tenant=ALL_KINDS,
        kind=ALL_KINDS,
        checks=model.KindChecks(
            **{name: all(getattr(row.checks, name) for row in rows) for name in _CHECKS}
        ),
        hash_total=_hash_total(sum(int(row.hash_total, 16) for row in rows)),
        **{name: sum(getattr(row, name) for row in rows) for name in counted},
    )


def _identity(row: items.Accounting) -> model.IdentityRow:
    return model.IdentityRow(
        tenant=row.tenant,
        kind=row.kind,
        items=row.items,
        pending=row.pending,
        handed_out=row.handed_out,
        running=row.running,
        reviews=row.reviews,
        ended=row.items - row.open - row.difference,
        difference=row.difference,
    )


async def _repairs(
    connection: Connection, since: int, dry_run: Sequence[PlannedRepair]
) -> list[model.RepairDetail]:
    rows = await findings.list_repairs(
        connection, since_reconciliation_no=since, page_size=model.FINDINGS_SHOWN_MAX
    )
    recorded = {row["id"] for row in rows}
    done = [
        model.RepairDetail(
            id=row["id"],
            finding_id=row["finding_id"],
            type=row["type"],
            tenant=row["tenant"],
            kind=row["kind"],
            subject=row["subject"],
            action=row["action"],
            would=row["command"]["would"],
            before=row["command"]["before"],
            after=row["command"]["after"],
            status=row["status"],
            proposed_by=row["proposed_by"],
            held_because=row["held_because"],
            approved_by=row["approved_by"],
            executed_at=row["executed_at"],
            executed_by=row["executed_by"],
            outcome=row["outcome"],
        )
        for row in rows
    ]
    planned = [
        model.RepairDetail(
            id=repair.id,
            finding_id=repair.finding_id,
            type=repair.finding_type,
            tenant=repair.tenant,
            kind=repair.kind,
            subject=repair.subject,
            action=repair.action,
            would=repair.would,
            before=repair.before,
            after=repair.after,
            status=None,
            proposed_by=None,
            held_because=repair.asks,
            approved_by=None,
            executed_at=None,
            executed_by=None,
            outcome=None,
        )
        for repair in dry_run
        if repair.id not in recorded
    ]
    return done + planned


def _sources(result: PassResult) -> list[model.SourceRow]:
    return [
        model.SourceRow(
            name=read.name,
            origin=read.origin,
            query_digest=read.digest,
            extracted_at=read.extract.extracted_at or result.started_at,
            duration_seconds=round(read.duration_seconds, 3),
            row_count=read.extract.row_count,
            skipped=[
                model.SkippedRows(reason=reason, count=count)
                for reason, count in read.extract.skipped.most_common()
            ],
            hash_total=_hash_total(read.extract.hash_total),
            failure=read.failure,
        )
        for read in result.sources
    ]


def _rules(result: PassResult) -> list[model.RuleRow]:
    versions = result.expectation.versions if result.expectation else []
    return [
        model.RuleRow(
            tenant=rule.definition.tenant,
            definition=rule.name,
            version=rule.number,
            kind=rule.definition.kind,
            event_type=rule.definition.event,
            effective_from=rule.effective_from,
            superseded_at=rule.superseded_at,
            digest=rule.definition.digest,
        )
        for rule in versions
        if rule.effective_from <= result.as_of
    ]


def _timeliness(result: PassResult) -> list[model.TimelinessRow]:
    rows: list[model.TimelinessRow] = []
    for (tenant, kind), tally in sorted(result.comparison.tallies.items()):
        lateness = tally.lateness
        if not lateness.count:
            continue
        rows.append(
            model.TimelinessRow(
                tenant=tenant,
                kind=kind,
                completed=lateness.count,
                late=lateness.late_count,
                p50_seconds=round(lateness.percentile(0.50), 3),
                p95_seconds=round(lateness.percentile(0.95), 3),
                p99_seconds=round(lateness.percentile(0.99), 3),
                greatest_seconds=round(lateness.greatest_seconds, 3),
                bars=[
                    model.LatenessBar(label=label, count=count) for label, count in lateness.bars()
                ],
            )
        )
    return rows


def _least(instants: Sequence[datetime | None]) -> datetime | None:
    known = [instant for instant in instants if instant is not None]
    return min(known) if known and len(known) == len(instants) else None


def _hash_total(total: int) -> str:
    return f"{total & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _software_version() -> str:
    try:
        return version("dueledger")
    except PackageNotFoundError:
        return "unknown"
