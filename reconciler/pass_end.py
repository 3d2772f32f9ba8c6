"""The end of a pass: findings that no longer hold are closed, watermarks and sources recorded."""

from collections.abc import Mapping
from datetime import timedelta

import orjson

from dueledger.ledger.finding_types import EXPECTATION_TYPES, WHOLE_LEDGER, FindingType
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection, findings
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.find.recorder import population_record
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import (
    JUDGED,
    RECORD_TYPES,
    PassResult,
    PassScope,
)
from dueledger.reconciler.past_load import past_load_count
from dueledger.reconciler.watermarks import unknown_kinds, watermarks_of


async def end_pass(
    connection: Connection,
    record: PassRecord,
    scope: PassScope,
    expectation: Expectation,
    result: PassResult,
    *,
    unjudged: set[tuple[str, str, str]],
    graces: Mapping[KindKey, timedelta],
) -> None:
    """Close findings that no longer hold, move watermarks, record the sources read.

    `unjudged` are the type, tenant and kind of findings that the evidence could not check;
    `graces` are those of all kinds.
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
    result.unknown = unknown_kinds(expectation, result, graces)
    if scope.whole:
        result.watermarks = watermarks_of(expectation, result)
        await record.record_watermarks(connection, result.watermarks, result.as_of)
        await record.note_past_load(connection, past_load_count(result.as_of))
    await record.record_populations(
        connection, [population_record(read, result) for read in result.sources]
    )


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
