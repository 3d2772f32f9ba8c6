"""The end of a pass: findings that no longer hold are closed, watermarks and sources recorded."""

from typing import TYPE_CHECKING, Final
from uuid import UUID

import orjson

from dueledger.ledger.finding_types import EXPECTATION_TYPES, WHOLE_LEDGER, FindingType
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection, findings
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.event_backlog import kinds_of_events
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.find.recorder import population_record
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import (
    JUDGED,
    RECORD_TYPES,
    PassResult,
    PassScope,
)
from dueledger.reconciler.tallies import KindTally

if TYPE_CHECKING:
    from datetime import datetime

OF_ANY_KIND: Final = (WHOLE_LEDGER, WHOLE_LEDGER)
"""The kind of findings about what may have items of any kind, as a claim."""


async def end_pass(
    connection: Connection,
    record: PassRecord,
    scope: PassScope,
    expectation: Expectation,
    result: PassResult,
    *,
    unjudged: set[tuple[str, str, str]],
) -> None:
    """Close findings that no longer hold, move watermarks, record the sources read.

    `unjudged` are the type, tenant and kind of findings that the evidence could not check.
    """
    closable = set(JUDGED)
    if result.published is not None:
        closable |= RECORD_TYPES
    failed_kinds = expectation.failed_kinds
    if failed_kinds is None:
        closable -= EXPECTATION_TYPES
    unjudged = {*unjudged, *result.omitted}
    unjudged |= {(type_, *key) for key in failed_kinds or () for type_ in EXPECTATION_TYPES}
    unjudged |= {
        (type_, failed.tenant, failed.kind)
        for failed in expectation.failures
        for type_ in (*EXPECTATION_TYPES, FindingType.DISAGREES)
    }
    unjudged |= {
        (FindingType.EVENT_UNMATCHED, failed.tenant, WHOLE_LEDGER)
        for failed in expectation.failures
    }
    closable -= result.cut
    dates = scope.from_date, scope.to_date
    checked = findings.CheckedFindings(closable, unjudged, dates, result.read_from)
    result.closed = await record.close_findings(connection, checked)
    crash_point("reconcile.closed")
    if scope.whole:
        result.watermarks = _watermarks(expectation, result)
        await record.record_watermarks(connection, result.watermarks, result.as_of)
    await record.record_populations(
        connection, [population_record(read, result) for read in result.sources]
    )


def _watermarks(expectation: Expectation, result: PassResult) -> list[findings.WatermarkRecord]:
    unknown = expectation.unknown_since(result.as_of)
    backlog = result.backlog
    of_events = kinds_of_events(expectation.versions) if backlog else set[KindKey]()
    tallies = result.comparison.tallies
    records: list[findings.WatermarkRecord] = []
    for key in sorted({*tallies, *unknown, *of_events}):
        tally = tallies.get(key, KindTally())
        before: datetime | None = result.as_of
        blocked_by: str | None = None
        if tally.blocked_at is not None and tally.blocked_by is not None:
            before = tally.blocked_at
            blocked_by = f"item {UUID(bytes=tally.blocked_by)}, due and within its grace"
        if key in unknown and unknown[key][0] < before:
            before, name = unknown[key]
            blocked_by = f"the schedule {name}, which is materialised up to there"
        if backlog and key in of_events:
            read_before, blocked = backlog
            if read_before is None or read_before <= before:
                before, blocked_by = read_before, blocked
        if failed := [read.name for read in expectation.failed_reads(*key)]:
            before, blocked_by = None, f"{', '.join(failed)} could not be read"
        omitted = result.omitted_open[key] + result.omitted_open[OF_ANY_KIND]
        if omitted or result.cut:
            before, blocked_by = None, "more findings than one pass lists"
        records.append(findings.WatermarkRecord(*key, before, blocked_by))
    return records


def counts_of(result: PassResult) -> str:
    """Return the counts of a pass as JSON text."""
    return orjson.dumps(
        {
            "expected": result.expected_count,
            "found": {type_.value: count for type_, count in result.found.items()},
            "created": result.created,
            "closed": {resolution.value: count for resolution, count in result.closed.items()},
            "omitted": result.omitted.total(),
            "cached": result.cached_items,
        }
    ).decode()
