"""Effects outside of items that are not completed: EFFECT_UNRECORDED and EFFECT_REPEATED."""

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Final

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.find.findings import Finding, FindingSubject
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.find.window_findings import EvidenceChecks
from dueledger.reconciler.pass_result import PassScope
from dueledger.reconciler.sources import EvidenceReader, ListedEffect, SourceFailed, SourceTotals

FOUND_MAX: Final = 100_000
"""A source with more effects of no completed item is of something else, and is not believed."""


async def find_effects(
    connection: Connection, evidence: EvidenceChecks, recorder: FindingRecorder, scope: PassScope
) -> None:
    """Read the effects of the sources that are complete, and record those of no completed item.

    Of a source with effective dates, those of the scope.

    A source that is not believed is not asked for the effects of completed items either.

    An effect is read before the state of its item. So an item that is not handed out when its state
    is read had its effect and was not completed, or is to be worked again.
    """
    for sources in evidence.by_kind.values():
        for source in sources:
            if source.complete and evidence.reads[source.name].failure is None:
                await _find_effects_of_source(connection, evidence, source, recorder, scope)


async def _find_effects_of_source(
    connection: Connection,
    evidence: EvidenceChecks,
    source: EvidenceReader,
    recorder: FindingRecorder,
    scope: PassScope,
) -> None:
    """Add the findings of one source, if it could be read to its end and is believed."""
    read = evidence.reads[source.name]
    began, found = monotonic(), list[Finding]()
    totals = SourceTotals()
    try:
        async for effects in source.list_effects(totals, scope.from_date, scope.to_date):
            if effects:
                found += await _judged(connection, source, effects)
            if len(found) > FOUND_MAX:
                read.failure = f"more than {FOUND_MAX:,} of its effects are of no completed item"
                break
    except SourceFailed as failure:
        read.failure = failure.reason
    if read.failure is None:
        rows_before = await reconciled_rows.last_row_count(connection, source.name)
        bounds = (
            source.bounds if scope.whole else replace(source.bounds, rows_min=0, change_max=None)
        )
        read.failure = bounds.breach(totals, rows_before)
        read.extract = totals
    read.duration_seconds += monotonic() - began
    if read.failure is None:
        recorder.add(found)
    else:
        evidence.mark_unjudged(source)


async def _judged(
    connection: Connection, source: EvidenceReader, effects: Sequence[ListedEffect]
) -> list[Finding]:
    rows = await reconciled_rows.find_effect_items(
        connection,
        source.tenant,
        source.kind,
        [
            (effect.id, effect.business_key, effect.cycle, effect.effective_date)
            for effect in effects
        ],
    )
    return [
        finding
        for effect, row in zip(effects, rows, strict=True)
        for finding in _findings_of(source, effect, row)
    ]


def _findings_of(source: EvidenceReader, effect: ListedEffect, row: Record) -> list[Finding]:
    found: list[Finding] = []
    accounted = row["completed"] + row["handed_out"]
    if effect.count > accounted and row["state"] is not None:
        found.append(_unrecorded(source, effect, row))
    elif not row["items"] and not row["is_retired"]:
        found.append(_unowned(source, effect))
    if row["items"] and effect.count > row["items"]:
        found.append(_repeated(source, effect, row["items"]))
    return found


def _unrecorded(source: EvidenceReader, effect: ListedEffect, row: Record) -> Finding:
    """Return the finding that an item had its effect and is not completed."""
    what = f"{source.kind} of {row['business_key']}, effective {row['effective_date']},"
    return Finding(
        FindingType.EFFECT_UNRECORDED,
        FindingSubject(
            source.tenant,
            source.kind,
            str(row["id"]),
            row["id"],
            row["business_key"],
            row["effective_date"],
            row["due_at"],
        ),
        f"{what} is {row['state'].replace('_', ' ')}, and {source.name} has its effect "
        f"{effect.reference}.",
        expected={"evidence": source.name, "state": "completed"},
        actual={"state": row["state"], "reference": effect.reference, "effects": effect.count},
    )


def _unowned(source: EvidenceReader, effect: ListedEffect) -> Finding:
    """Return the finding that there is an effect and no item of it."""
    return Finding(
        FindingType.EFFECT_UNRECORDED,
        FindingSubject(
            source.tenant,
            source.kind,
            f"{source.name}: {effect.name}",
            business_key=effect.business_key,
            effective_date=effect.effective_date,
        ),
        f"{source.name} has the effect {effect.reference} of {source.kind} {effect.name}, and the "
        "ledger has no such item.",
        expected={"evidence": source.name, "items": 1},
        actual={"items": 0, "reference": effect.reference, "effects": effect.count},
    )


def _repeated(source: EvidenceReader, effect: ListedEffect, items: int) -> Finding:
    """Return the finding that there are more effects than items."""
    return Finding(
        FindingType.EFFECT_REPEATED,
        FindingSubject(
            source.tenant,
            source.kind,
            f"{source.name}: {effect.name}",
            effect.id,
            effect.business_key,
            effect.effective_date,
        ),
        f"{source.name} has {effect.count:,} effects of {source.kind} {effect.name}, one of them "
        f"{effect.reference}; the ledger has {items:,}.",
        expected={"evidence": source.name, "effects": items},
        actual={"effects": effect.count, "reference": effect.reference},
    )
