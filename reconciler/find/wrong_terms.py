"""Items that do not say what their sources do: WRONG_DATE and WRONG_TERMS, field by field."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import orjson

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.compare.comparison import DifferingItem, FlowRules
from dueledger.reconciler.compared_items import NOT_SAID, ExpectedItem, KindKey
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.expect.item_terms import (
    instant_of,
    instant_of_postgres,
    stored_labels,
    stored_overlap,
)
from dueledger.reconciler.find import item_findings
from dueledger.reconciler.find.findings import Finding
from dueledger.reconciler.tallies import KindTally

CHUNK_ROWS: Final = 1_000
_TZ_DATABASES_APART_MAX: Final = timedelta(hours=26)
_OFFSET_STEP: Final = timedelta(minutes=15)
"""Offsets in force since 1973 are multiples of it."""

Terms = dict[str, datetime | float | str | None]


async def find_wrong_terms(
    connection: Connection,
    expectation: Expectation,
    flows: Mapping[int, FlowRules],
    differing: Sequence[DifferingItem],
    *,
    tallies: Mapping[KindKey, KindTally],
) -> list[Finding]:
    """Read the items again, and return a finding for each that still differs from its source.

    The version and the event that a row names say what it should be; where it names none, what is
    expected says so. The occurrence of an item that an older version or event named may be due at
    another time than what is expected now, and is no finding. One that is as another tz database
    may have placed it is none either, and counts in `tallies` as an item whose date is not checked.
    """
    found: list[Finding] = []
    for begin in range(0, len(differing), CHUNK_ROWS):
        chunk = differing[begin : begin + CHUNK_ROWS]
        rows = await reconciled_rows.list_item_terms(
            connection, [(each.actual.effective_date, each.actual.item_no) for each in chunk]
        )
        drafts = await expectation.named_drafts(
            connection,
            [
                (each.expected, rows[each.actual.item_no])
                for each in chunk
                if each.actual.item_no in rows
            ],
        )
        for each in chunk:
            row = rows.get(each.actual.item_no)
            if row is None:
                continue  # its partition was dropped meanwhile
            named = drafts.get(each.actual.item_no, ())
            type_, owed, actual = _difference(each, row, named)
            flow = flows[each.actual.flow_no]
            if type_ is not None:
                found.append(item_findings.wrong_terms(type_, each.actual, flow, owed, actual))
            elif named and all(draft.due_at != row["due_at"] for draft in named):
                tallies[flow.key].undated += 1
    return found


def _difference(
    differing: DifferingItem, row: Record, drafts: Sequence[ItemDraft]
) -> tuple[FindingType | None, Terms, Terms]:
    """Return the type of finding, and the fields that differ on both sides."""
    actual = _terms_of_row(row)
    named: Terms = {"definition": row["definition_no"], "event": row["event_no"]}
    if named == dict.fromkeys(named):
        if row["nominal"] is not None or row["zone"] is not None:  # a rule made it, no service
            expected = differing.expected
            owner: Terms = {"definition": expected.definition_no, "event": expected.reference}
            return FindingType.WRONG_TERMS, owner, named
        candidates: list[Terms] = [_terms_of_population(differing.expected)]
    elif not drafts:
        return FindingType.WRONG_TERMS, dict.fromkeys(named), named
    else:
        candidates = [_terms_of_draft(_as_placed(draft, row)) for draft in drafts]
    differences = [
        {name for name, value in owed.items() if not _equal(name, value, actual[name])}
        for owed in candidates
    ]
    if not all(differences):
        return None, {}, {}
    names, owed = min(zip(differences, candidates, strict=True), key=lambda pair: len(pair[0]))
    type_ = FindingType.WRONG_DATE if "due_at" in names else FindingType.WRONG_TERMS
    return type_, {name: owed[name] for name in names}, {name: actual[name] for name in names}


def _equal(name: str, owed: object, actual: object) -> bool:
    """Compare payloads as values: an emitter may have written the same otherwise."""
    if owed == actual or name != "payload":
        return owed == actual
    return orjson.loads(str(owed)) == orjson.loads(str(actual))


def _as_placed(draft: ItemDraft, row: Record) -> ItemDraft:
    """Return a draft as the tz database that the row names may have placed it in time."""
    moved_by = row["due_at"] - draft.due_at
    is_possible = abs(moved_by) <= _TZ_DATABASES_APART_MAX and not moved_by % _OFFSET_STEP
    if draft.tzdata == row["tzdata"] or draft.zone == "UTC" or not is_possible:
        return draft
    return replace(
        draft,
        due_at=row["due_at"],
        start_by=draft.start_by and draft.start_by + moved_by,
        complete_by=draft.complete_by and draft.complete_by + moved_by,
        decision=row["decision"],
    )


def _terms_of_row(row: Record) -> Terms:
    names = ("due_at", "start_by", "complete_by", "smear_seconds", "partition_key", "labels")
    names += ("nominal", "zone", "decision", "lane", "overlap", "payload")
    return {name: row[name] for name in names}


def _terms_of_population(expected: ExpectedItem) -> Terms:
    """Return what a population says: its due time, and of payload and SLA what it gives."""
    payload, start_by, complete_by = expected.outside_terms
    said: Terms = {"due_at": instant_of(expected.due_microseconds)}
    if payload != NOT_SAID:
        said["payload"] = expected.payload
    for name, instant in (("start_by", start_by), ("complete_by", complete_by)):
        if instant != NOT_SAID:
            said[name] = instant_of_postgres(instant)
    return said


def _terms_of_draft(draft: ItemDraft) -> Terms:
    return {
        "due_at": draft.due_at,
        "start_by": draft.start_by,
        "complete_by": draft.complete_by,
        "smear_seconds": draft.smear_seconds,
        "partition_key": draft.partition_key,
        "labels": stored_labels(draft.labels) if draft.labels else None,
        "nominal": draft.nominal,
        "zone": draft.zone,
        "decision": draft.decision,
        "lane": draft.lane,
        "overlap": stored_overlap(draft.overlap),
        "payload": draft.payload,
    }
