"""Findings about received events: types that no rule read, late ones, an inbox that was edited."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from itertools import repeat
from typing import Final

from dueledger.ledger.finding_types import WHOLE_LEDGER, FindingType
from dueledger.ledger.store import Connection, Record, reconciled_events
from dueledger.reconciler.expect.expectation import EVENTS, Expectation
from dueledger.reconciler.find.findings import Finding, FindingSubject
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.read_ahead import paced

LATE_EVENTS_MAX: Final = 100_000
"""Events since the watermarks that are looked up, the newest."""
_ALTERED: Final = "event:"
_FAULTS: Final = {
    "removed": "it was received, and the inbox does not have it any more",
    "changed": "the inbox has it under another tenant, source, id or time than it was received",
    "unkeyed": "the inbox has it, and it was never received",
}


async def find_event_findings(
    connection: Connection,
    expectation: Expectation,
    ignored: Collection[tuple[str, str]],
    recorder: FindingRecorder,
) -> list[Finding]:
    """Return the types of events that nobody read, those a rule refuses, and late arrivals.

    `ignored` are tenant and type of events that no rule has to read. Of a tenant of which a
    definition failed it is not known what its rules read.
    """
    spans = [
        (version.definition.tenant, type_, version.effective_from, version.superseded_at)
        for version in expectation.versions
        if not version.definition.ended
        for type_ in version.definition.event_types
    ]
    spans += [(tenant, type_, None, None) for tenant, type_ in ignored]
    unknown = {failed.tenant for failed in expectation.failures}
    row_max = recorder.row_max
    unmatched = await reconciled_events.list_unmatched_events(connection, spans, row_max)
    recorder.note_list(unmatched, FindingType.EVENT_UNMATCHED)
    late = await reconciled_events.list_late_arrivals(connection, LATE_EVENTS_MAX, row_max)
    refused = expectation.reads[EVENTS].extract.skipped
    return [
        *(_unmatched(row) for row in unmatched if row["tenant"] not in unknown),
        *(_unreadable(reason, count) for reason, count in refused.items()),
        *(_late_arriving(row) for row in late),
    ]


async def read_altered_events(
    connection: Connection, row_max: int, share: float
) -> AsyncGenerator[list[Record]]:
    """Hold the inbox against the keys under which its events were received, all of them.

    Yields lists of `row_max` events at most that it does not have as they came, by ascending time
    of receipt. `share` is the greatest share of the time in which it reads.
    """
    pages = reconciled_events.list_altered_events(connection, row_max)
    async with aclosing(pages), aclosing(paced(repeat(pages), share)) as reads:
        async for page in reads:
            rows = await anext(page, None)
            if rows is None:
                break
            if rows:
                yield rows


async def find_altered_events(
    altered: AsyncGenerator[list[Record]], recorder: FindingRecorder
) -> None:
    """Record what `read_altered_events` yields."""
    async with aclosing(altered):
        async for rows in altered:
            recorder.note_list(rows, FindingType.TAMPERED)
            recorder.add(map(_altered, rows))


async def find_doubted_tenants(connection: Connection, record: PassRecord) -> set[str]:
    """Return the tenants of open findings about an edited inbox, which not every pass reads."""
    return {
        row["tenant"]
        async for page in record.list_open(connection)
        for row in page
        if row["type"] == FindingType.TAMPERED and row["subject"].startswith(_ALTERED)
    }


def _altered(row: Record) -> Finding:
    number, fault = row["event_no"], row["fault"]
    return Finding(
        FindingType.TAMPERED,
        FindingSubject(row["tenant"], WHOLE_LEDGER, f"{_ALTERED}{number}"),
        f"The event {row['id']} of {row['source']}, number {number}, of "
        f"{row['received_at']:%Y-%m-%d %H:%M:%S} UTC: {_FAULTS[fault]}. Nothing of its tenant is "
        "repaired.",
        expected={"event": number, "fault": None},
        actual={"event": number, "fault": fault},
    )


def _unreadable(reason: str, count: int) -> Finding:
    events = "event of the inbox was" if count == 1 else "events of the inbox were"
    return Finding(
        FindingType.EVENT_UNMATCHED,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, reason),
        f"{count:,} {events} not applied, because the rule in force cannot read them: {reason}",
        expected={"read_by_a_rule": True},
        actual={"count": count, "reason": reason},
    )


def _unmatched(row: Record) -> Finding:
    count, type_ = row["event_count"], row["type"]
    events = "event was" if count == 1 else "events were"
    return Finding(
        FindingType.EVENT_UNMATCHED,
        FindingSubject(row["tenant"], WHOLE_LEDGER, type_),
        f"{count:,} {events} received of type {type_} for {row['tenant']}, which no rule in force "
        "read. Define a rule for it, or name the type under `events` in the file of sources.",
        expected={"read_by_a_rule": True},
        actual={
            "count": count,
            "first_received_at": row["first_at"].isoformat(),
            "last_received_at": row["last_at"].isoformat(),
            "last_source": row["source"],
            "last_id": row["id"],
        },
    )


def _late_arriving(row: Record) -> Finding:
    identity, day, due_at = row["id"], row["effective_date"], row["due_at"]
    return Finding(
        FindingType.LATE_ARRIVING,
        FindingSubject(
            row["tenant"], row["kind"], str(identity), identity, row["business_key"], day, due_at
        ),
        f"The event {row['event_id']} of {row['source']} was received "
        f"{row['received_at']:%Y-%m-%d %H:%M:%S} UTC, and its {row['kind']} of "
        f"{row['business_key']}, effective {day}, was due {due_at:%Y-%m-%d %H:%M} UTC: the kind "
        "had been found complete beyond that. It counts from now on.",
        expected={"received_before": row["as_of"].isoformat()},
        actual={"received_at": row["received_at"].isoformat(), "event": row["event_no"]},
    )
