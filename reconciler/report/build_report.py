"""Build the report from the result of a pass and the recorded findings."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from uuid import UUID

from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, items, reconciled_rows
from dueledger.ledger.store.witnessed import WitnessedVersion
from dueledger.ledger.witness import is_witnessed
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import END_DATE, FIRST_DATE, PassResult, PassScope
from dueledger.reconciler.read.finding_pages import repairs_of_period
from dueledger.reconciler.repair.planned_repairs import PlannedRepair
from dueledger.reconciler.report import model
from dueledger.reconciler.report.csv_list import ReportLists
from dueledger.reconciler.report.details import finding_detail, planned_detail, repair_detail
from dueledger.reconciler.report.row_samples import FindingSamples, RepairSamples
from dueledger.reconciler.report.statement import make_statement
from dueledger.reconciler.report_period import ReportPeriod
from dueledger.reconciler.tallies import KindTally

_CHECKS: Final = tuple(model.KindChecks.model_fields)
ALL_KINDS: Final = "*"


async def build_report(
    connection: Connection,
    record: PassRecord,
    result: PassResult,
    period: ReportPeriod,
    *,
    planned: Sequence[PlannedRepair] = (),
    lists: ReportLists | None = None,
) -> model.ReconciliationReport:
    """Report a pass, and the findings and repairs of a period as they are after it.

    The report has samples of these; `lists` gets all.
    """
    findings = FindingSamples(result.as_of, lists and lists.findings)
    repairs = RepairSamples(lists and lists.repairs)
    async for page in record.list_of_period(connection, period):
        findings.add([finding_detail(row) for row in page])
    recorded = set[UUID]()
    async for page in repairs_of_period(connection, period):
        recorded.update(row["id"] for row in page)
        repairs.add([repair_detail(row) for row in page])
    repairs.add([planned_detail(each) for each in planned if each.id not in recorded])
    opinions = {each.definition_no: each for each in await record.list_witnessed(connection)}
    accounting = _accounting(result)
    totals = _totals(accounting)
    summary = findings.summary()
    before = [mark.complete_before for mark in result.watermarks]
    oldest = findings.oldest_open_at or result.as_of
    dates = _effective_dates(result.scope)
    return model.ReconciliationReport(
        software_version=_software_version(),
        reconciliation_no=result.reconciliation_no,
        period=model.Period(from_date=period.from_date, to_date=period.to_date),
        effective_dates=dates,
        as_of=result.as_of,
        started_at=result.started_at,
        everything_read_at=result.everything_read_at,
        oldest_unread=result.oldest_unread
        and model.OldestUnread(
            effective_date=result.oldest_unread[0], read_at=result.oldest_unread[1]
        ),
        duration_seconds=round(result.duration_seconds, 3),
        tzdata=tzdata_version(),
        statement=make_statement(
            sum(row.open for row in summary) + sum(result.omitted_open.values()),
            repaired=sum(row.repaired for row in summary),
            explained=sum(row.explained for row in summary),
            oldest_seconds=(result.as_of - oldest).total_seconds(),
            unchecked=totals.unchecked,
            unchecked_kinds=sum(not row.checks.existence for row in accounting),
            complete_before=_least(before),
            dates=dates,
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
        findings=findings.samples(),
        findings_count=findings.count,
        findings_omitted=result.omitted.total(),
        findings_file=lists and lists.findings_file,
        repairs=repairs.samples(),
        repairs_count=repairs.count,
        repairs_executed=repairs.executed,
        repairs_file=lists and lists.repairs_file,
        sources=_sources(result),
        rules=_rules(result, opinions),
        timeliness=_timeliness(result),
        rejected_writes=[
            model.RejectedWrites(verb=row["verb"], reason=row["reason"], count=row["refused_count"])
            for row in await reconciled_rows.count_rejected_writes(connection)
        ],
    )


def _effective_dates(scope: PassScope) -> model.EffectiveDates:
    return model.EffectiveDates(
        from_date=scope.from_date if scope.from_date > FIRST_DATE else None,
        to_date=scope.to_date if scope.to_date < END_DATE else None,
    )


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
                undated=tally.undated,
                untermed=tally.untermed,
                looked_up=result.looked_up[key] if key in result.evidenced else 0,
                earlier=result.earlier[key],
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
        "undated",
        "untermed",
        "looked_up",
        "earlier",
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


def _sources(result: PassResult) -> list[model.SourceRow]:
    return [
        model.SourceRow(
            name=read.name,
            origin=read.origin,
            query_digest=read.extract.digest or read.digest,
            extracted_at=read.extract.extracted_at or result.started_at,
            duration_seconds=round(read.duration_seconds, 3),
            row_count=read.extract.row_count,
            skipped=[
                model.SkippedRows(reason=reason, count=count)
                for reason, count in read.extract.skipped.most_common()
            ],
            hash_total=_hash_total(read.extract.hash_total)
            if read.extract.hash_total or not read.extract.row_count
            else None,
            failure=read.failure,
        )
        for read in result.sources
    ]


def _rules(result: PassResult, opinions: Mapping[int, WitnessedVersion]) -> list[model.RuleRow]:
    versions = result.expectation.versions if result.expectation else []
    return [
        _rule(
            version,
            opinions.get(version.definition_no),
            is_current=version.superseded_at is None or version.superseded_at > result.as_of,
        )
        for version in versions
        if version.effective_from <= result.as_of
    ]


def _rule(
    version: DefinitionSpan, opinion: WitnessedVersion | None, *, is_current: bool
) -> model.RuleRow:
    return model.RuleRow(
        tenant=version.definition.tenant,
        definition=version.name,
        version=version.number,
        kind=version.definition.kind,
        event_type=version.definition.event,
        effective_from=version.effective_from,
        superseded_at=version.superseded_at,
        digest=version.definition.digest,
        second_opinion=opinion.witnessed.agreement
        if opinion
        else "not_asked"
        if is_current and is_witnessed(version.definition.when)
        else None,
        second_opinion_days=opinion and round(opinion.age_seconds / 86_400, 1),
    )


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
                    model.HistogramBar(label=label, count=count) for label, count in lateness.bars()
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
