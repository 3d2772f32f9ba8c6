"""Build the report from the result of a pass and the recorded findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, TypeVar
from uuid import UUID

from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, items, reconciled_rows
from dueledger.ledger.store.kinds import list_redacted_fields
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
from dueledger.reconciler.report.report_rows import ReportRecorder, ReportRows, RowSamples
from dueledger.reconciler.report.row_samples import FindingSamples
from dueledger.reconciler.report.statement import make_statement
from dueledger.reconciler.report_period import ReportPeriod
from dueledger.reconciler.tallies import KindTally

_CHECKS: Final = tuple(model.KindChecks.model_fields)


async def build_report(
    connection: Connection,
    record: PassRecord,
    result: PassResult,
    period: ReportPeriod,
    *,
    planned: Sequence[PlannedRepair] = (),
    lists: ReportLists | None = None,
    recorder: ReportRecorder | None = None,
) -> model.ReconciliationReport:
    """Report a pass, and the findings and repairs of a period as they are after it.

    The report has samples of these; `lists` gets all. A `recorder` gets all, the report, and that
    of each tenant.
    """
    rows = ReportRows(result.as_of, lists, recorder)
    redacted = await list_redacted_fields(connection)
    async for page in record.list_of_period(connection, period):
        await rows.add_findings(
            [finding_detail(row, redacted.get((row["tenant"], row["kind"]), ())) for row in page]
        )
    recorded = set[UUID]()
    async for page in repairs_of_period(connection, period):
        recorded.update(row["id"] for row in page)
        await rows.add_repairs([repair_detail(row) for row in page])
    await rows.add_repairs([planned_detail(each) for each in planned if each.id not in recorded])
    opinions = {each.definition_no: each for each in await record.list_witnessed(connection)}
    by_kind = _KindRows(
        _accounting(result),
        [_identity(row) for row in result.accounting],
        _rules(result, opinions),
        _timeliness(result),
    )
    rejected_writes = await reconciled_rows.count_rejected_writes(connection)
    build = partial(
        _report, result, period, by_kind=by_kind, rejected_writes=rejected_writes, lists=lists
    )
    report = build(rows.whole)
    if recorder:
        tenants = {tenant for tenant, _ in result.comparison.tallies} | rows.tenants
        of_ledger = rows.open_of_ledger
        await recorder.finish(
            {
                WHOLE_LEDGER: report,
                **{
                    each: build(rows.of_tenant(each), tenant=each, of_ledger=of_ledger)
                    for each in sorted(tenants)
                },
            }
        )
    return report


@dataclass(frozen=True, slots=True)
class _KindRows:
    """The rows of a report that name tenant and kind."""

    accounting: list[model.AccountingRow]
    identity: list[model.IdentityRow]
    rules: list[model.RuleRow]
    timeliness: list[model.TimelinessRow]


def _report(
    result: PassResult,
    period: ReportPeriod,
    rows: RowSamples,
    *,
    by_kind: _KindRows,
    rejected_writes: Mapping[tuple[str, str], int],
    lists: ReportLists | None,
    tenant: str | None = None,
    of_ledger: FindingSamples | None = None,
) -> model.ReconciliationReport:
    """Return the report, or the part of a tenant: with open findings that are of none."""
    findings, repairs = rows.findings, rows.repairs
    accounting = _of(tenant, by_kind.accounting)
    totals = _totals(accounting)
    summary = findings.summary()
    watermarks = _of(tenant, result.watermarks)
    before = [mark.complete_before for mark in watermarks]
    shared = of_ledger.open if of_ledger else 0
    opened = [findings.oldest_open_at, of_ledger and of_ledger.oldest_open_at]
    oldest = min([each for each in opened if each], default=result.as_of)
    omitted = {key: count for key, count in result.omitted.items() if tenant in {None, key[1]}}
    omitted_open = result.omitted_open.items()
    dates = _effective_dates(result.scope)
    return model.ReconciliationReport(
        software_version=_software_version(),
        reconciliation_no=result.reconciliation_no,
        tenant=tenant,
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
            sum(row.open for row in summary)
            + shared
            + sum(count for key, count in omitted_open if tenant in {None, WHOLE_LEDGER, key[0]}),
            of_ledger=shared,
            repaired=sum(row.repaired for row in summary),
            explained=sum(row.explained for row in summary),
            unknown=[
                why for key, why in sorted(result.unknown.items()) if tenant in {None, key[0]}
            ],
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
            for mark in watermarks
        ],
        accounting=accounting,
        totals=totals,
        identity=_of(tenant, by_kind.identity),
        summary=summary,
        findings=findings.samples(),
        findings_count=findings.count,
        findings_omitted=sum(omitted.values()),
        findings_file=lists and lists.findings_file,
        repairs=repairs.samples(),
        repairs_count=repairs.count,
        repairs_executed=repairs.executed,
        repairs_file=lists and lists.repairs_file,
        sources=_sources(result, tenant),
        rules=_of(tenant, by_kind.rules),
        timeliness=_of(tenant, by_kind.timeliness),
        rejected_writes=[
            model.RejectedWrites(verb=verb, reason=reason, count=count)
            for (verb, reason), count in rejected_writes.items()
            if tenant is None
        ],
    )


class _OfTenant(Protocol):
    @property
    def tenant(self) -> str: ...


Row = TypeVar("Row", bound=_OfTenant)


def _of(tenant: str | None, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if tenant in {None, row.tenant}]


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
                both_ways=key in result.both_ways,
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
        tenant=WHOLE_LEDGER,
        kind=WHOLE_LEDGER,
        checks=model.KindChecks(
            **{name: all(getattr(row.checks, name) for row in rows) for name in _CHECKS}
        ),
        both_ways=all(row.both_ways for row in rows),
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


def _sources(result: PassResult, tenant: str | None) -> list[model.SourceRow]:
    """Return the sources; of a tenant, those that name no item of another one."""
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
        if tenant is None or (read.kinds and {each for each, _ in read.kinds} == {tenant})
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
