"""The statement of a report: its result in one sentence."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from dueledger.reconciler.find.findings import span
from dueledger.reconciler.report.model import EffectiveDates, ReportStatement, StatementVerdict

_HOUR_SECONDS: Final = 3_600


def make_statement(
    findings_open: int,
    *,
    of_ledger: int = 0,
    repaired: int,
    explained: int,
    unknown: Sequence[str] = (),
    oldest_seconds: float,
    unchecked: int,
    unchecked_kinds: int,
    complete_before: datetime | None,
    dates: EffectiveDates,
) -> ReportStatement:
    """Return the result as one sentence.

    `of_ledger` of the open findings are of no tenant; `unknown` says, of each kind of which it is
    not known what is owed, why.
    """
    if not findings_open and unknown:
        return ReportStatement(
            verdict=StatementVerdict.NOT_COMPLETE,
            sentence=f"Not complete: {_unknown_clause(unknown)}.",
            complete_before=complete_before,
        )
    if findings_open:
        plural = "finding is" if findings_open == 1 else "findings are"
        is_recent = oldest_seconds < _HOUR_SECONDS
        seen = "within the last hour" if is_recent else f"{span(oldest_seconds)} ago"
        shared = f", {of_ledger:,} of the whole ledger" if of_ledger else ""
        counted = f"{findings_open:,} {plural} open{shared}"
        also = f"; {_unknown_clause(unknown)}" if unknown else ""
        return ReportStatement(
            verdict=StatementVerdict.NOT_COMPLETE,
            sentence=f"Not complete: {counted}, the oldest first seen {seen}{also}.",
            complete_before=complete_before,
        )
    complete = f"Complete{_dates_clause(dates)}"
    limit = _unchecked_clause(unchecked, unchecked_kinds)
    if repaired or explained:
        parts = [
            f"{count:,} {word}"
            for count, word in ((repaired, "repaired"), (explained, "explained"))
            if count
        ]
        sentence = f"{complete}, with {' and '.join(parts)}{limit}."
    else:
        sentence = (
            f"{complete}: all that was owed is completed or explained, or open and not overdue"
            f"{limit}."
        )
    return ReportStatement(
        verdict=StatementVerdict.COMPLETE_WITH_EXPLAINED
        if explained
        else StatementVerdict.COMPLETE,
        sentence=sentence,
        complete_before=complete_before,
    )


def _unknown_clause(reasons: Sequence[str]) -> str:
    kinds = "1 kind" if len(reasons) == 1 else f"{len(reasons):,} kinds"
    return f"of {kinds} it is not known what is owed, as {reasons[0]}"


def _dates_clause(dates: EffectiveDates) -> str:
    parts = [
        f"{word} {day}"
        for word, day in (("from", dates.from_date), ("before", dates.to_date))
        if day
    ]
    return f" for effective dates {' and '.join(parts)}" if parts else ""


def _unchecked_clause(items: int, kinds: int) -> str:
    if not items:
        return ""
    counted = f"{items:,} {'item' if items == 1 else 'items'}"
    of_kinds = f"{kinds:,} {'kind' if kinds == 1 else 'kinds'}"
    return f"; no source says whether {counted} of {of_kinds} {'is' if items == 1 else 'are'} owed"
