"""Occurrences of schedules, many at a time, without a draft of each.

Only where a version says all of them: without calendar, smear or missed occurrences, and without
another definition that may owe the same items. A day near a change of offset, or with anything else
that is unusual, is left to the drafts as they are.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from typing import Final

import numpy as np
import orjson

from dueledger.ledger.errors import InvalidInput, WindowTooLarge
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.schedule_drafts import OVERLAPS, cycle_of, expand_schedule
from dueledger.ledger.schedule import RECURRING, Decision, Occurrence
from dueledger.ledger.schedule.when import Recurring
from dueledger.reconciler.columns.fixed_width import Column, Columns
from dueledger.reconciler.columns.plain_rows import ABSENT_NUMBER, PlainRows, ids_of
from dueledger.reconciler.columns.terms import (
    ABSENT,
    NO_INSTANT,
    NO_SMEAR,
    SEPARATOR,
    all_mixed,
    double_bits,
)
from dueledger.reconciler.expect.item_terms import flow_texts, stored_labels
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.sources import SourceTotals

Span = tuple[datetime, datetime]
"""Half-open, of instants."""
LeftSpan = tuple["PlainSchedule", datetime, datetime]
"""A span of a schedule of which the drafts are needed."""

_DUE_AT: Final = attrgetter("due_at")
_OFFSET: Final = attrgetter("utc_offset")
_DECISION: Final = attrgetter("decision")
_A_DAY: Final = timedelta(days=1)
_SPAN_OCCURRENCES: Final = 50_000
_A_SECOND: Final = timedelta(seconds=1)
_DAY_SECONDS: Final = 86_400
_SECOND: Final = 1_000_000
_DATE_CHARS: Final = 10
_MIDNIGHT: Final = datetime(2000, 1, 1)  # noqa: DTZ001 -- a local time
_EPOCH_DAYS: Final = date(1970, 1, 1).toordinal()
_UNIT_OCCURRENCES: Final = 500_000
_UNIT_DAYS_MAX: Final = 1_024
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POSTGRES_SECONDS: Final = 946_684_800
_FIRST_DAY: Final = date(1970, 1, 2).toordinal()
_LAST_DAY: Final = date(2199, 12, 30).toordinal()


class PlainSchedule:
    """A version whose occurrences are computed as columns."""

    def __init__(self, version: DefinitionSpan, end: datetime, when: Recurring, key: str) -> None:
        definition = version.definition
        self.version, self.start, self.end = version, version.effective_from, end
        self._definition, self._when = definition, when
        self._definition_no = version.definition_no
        self._start, self._complete = (
            None if within is None else within // timedelta(microseconds=1)
            for within in (definition.sla.start_within, definition.sla.complete_within)
        )
        labels = definition.labels
        zone = getattr(definition.when, "timezone", "UTC")
        self._id_begin = SEPARATOR.join((definition.tenant, definition.kind, key, ""))
        self._key = f"{key}{SEPARATOR}"
        self._middle = SEPARATOR.join(
            (
                "",
                ABSENT,
                stored_labels(orjson.dumps(labels).decode()) if labels else ABSENT,
                "",
            )
        )
        payload = orjson.dumps(definition.payload, option=orjson.OPT_SORT_KEYS).decode()
        lane = labels[definition.lane] if definition.lane else ""
        flow = flow_texts(lane, OVERLAPS[definition.overlap])
        self._end = SEPARATOR.join(("", zone, Decision.EXACT.value, *flow, payload))

    @classmethod
    def of(cls, version: DefinitionSpan, end: datetime) -> "PlainSchedule | None":
        """Return the schedule up to `end`; None where its occurrences need their drafts."""
        definition = version.definition
        key = definition.business_key
        if (
            key is None
            or not isinstance(definition.when, RECURRING)
            or definition.ended
            or version.periods
            or definition.observance() is not None
            or definition.smear is not None
            or not definition.catch_up.keeps_all
        ):
            return None
        try:
            item_id(definition.tenant, definition.kind, key, "", date(2000, 1, 1))
        except InvalidInput:
            return None
        return cls(version, end, definition.when, key)

    def within(self, start: datetime, end: datetime) -> Span | None:
        """Return the part of a span in which the version counts."""
        begin, until = max(start, self.start), min(end, self.end)
        return (begin, until) if begin < until else None

    def estimate(self) -> float:
        """Return about how many occurrences it has."""
        return self._when.estimate(self.start, self.end) if self.start < self.end else 0.0

    def expand(
        self, start: datetime, end: datetime, left: list[Span]
    ) -> Iterator[tuple[Column, Columns]]:
        """Yield days and columns of the half-open span; spans that need drafts go to `left`.

        Raises InvalidInput and WindowTooLarge as `expand_schedule` does.
        """
        waiting = list(self._spans(start, end))[::-1]
        while waiting:
            begin, until = waiting.pop()
            window = expand_schedule(self._definition, begin, until)
            found = None if window.skipped else self._columns(window.occurrences)
            if found is not None:
                yield found
            elif until - begin <= _A_DAY:
                left.append((begin, until))
            else:
                half = begin + (until - begin) / 2
                waiting += ((half, until), (begin, half))

    def _spans(self, start: datetime, end: datetime) -> Iterator[Span]:
        """Yield spans with some ten thousands of occurrences each."""
        while start < end:
            count = self._when.estimate(start, end)
            span = (end - start) * min(1.0, _SPAN_OCCURRENCES / max(count, 1.0))
            until = min(end, start + max(span, _A_DAY))
            yield start, until
            start = until

    def _columns(self, found: tuple[Occurrence, ...]) -> tuple[Column, Columns] | None:
        """Return the occurrences as columns; None if anything about one of them is unusual."""
        instants = np.array([*map(datetime.timestamp, map(_DUE_AT, found))])
        seconds = instants.astype(np.int64)
        nominal = seconds + _offsets_of(found)
        days = nominal // _DAY_SECONDS + _EPOCH_DAYS
        if [*map(_DECISION, found)].count(Decision.EXACT) < len(found) or (
            (days < _FIRST_DAY) | (days > _LAST_DAY) | (seconds != instants)
        ).any():
            return None
        due = (seconds - _POSTGRES_SECONDS) * _SECOND
        dates, times = days.tolist(), (nominal % _DAY_SECONDS).tolist()
        date_of = {day: date.fromordinal(day).isoformat() for day in set(dates)}
        time_of = {seconds: _time_text(seconds) for seconds in set(times)}
        begin, key, middle, end = self._id_begin, self._key, self._middle, self._end
        digests: list[bytes] = []
        texts: list[int] = []
        for day, seconds_of_day in zip(dates, times, strict=True):
            text = date_of[day]
            cycle = f"{text}{time_of[seconds_of_day]}"
            digests.append(sha256(f"{begin}{cycle}{SEPARATOR}{text}".encode()).digest())
            texts.append(hash(f"{key}{cycle}{middle}{cycle}{end}".encode()))
        high, low = ids_of(days, digests)
        nothing = np.zeros(len(found), dtype=np.int64)
        terms = all_mixed(
            np.array(texts, dtype=np.int64),
            _later(due, self._start),
            _later(due, self._complete),
            nothing + double_bits(NO_SMEAR),
        )
        return days, {
            "high": high,
            "low": low,
            "due": due,
            "terms": terms,
            "definition": nothing + self._definition_no,
            "event": nothing + ABSENT_NUMBER,
            "subject": nothing,
        }


def put_unit(
    rows: PlainRows,
    schedules: Sequence[PlainSchedule],
    unit_span: Span,
    extract: SourceTotals,
    failed: dict[int, str],
) -> list[LeftSpan]:
    """Put what schedules owe in a unit's span as columns; return what needs drafts.

    `failed` gets the reason of each version that cannot be expanded, by definition number.
    """
    parts = [(each, part) for each in schedules if (part := each.within(*unit_span))]
    name = ("schedules", hash(tuple((each.version.fingerprint, part) for each, part in parts)))
    unit = rows.take(name)
    if unit is None:
        left: list[tuple[int, Span]] = []
        for place, (schedule, part) in enumerate(parts):
            spans: list[Span] = []
            try:
                for days, columns in schedule.expand(*part, spans):
                    rows.add(days, columns)
            except (InvalidInput, WindowTooLarge) as refusal:
                failed[schedule.version.definition_no] = refusal.message
                name = object()  # the next pass says so again
            left += [(place, span) for span in spans]
        unit = rows.finish(name, left)
    extract.add_rows(*unit.totals)
    return [(parts[place][0], *span) for place, span in unit.left]


def unit_spans(schedules: Sequence[PlainSchedule]) -> Iterator[Span]:
    """Yield spans that have all occurrences, with some 250,000 each: a power of two of days.

    So they stay the same in the next pass, except for the last.
    """
    spans = [each for each in schedules if each.start < each.end]
    if not spans:
        return
    start, end = min(each.start for each in spans), max(each.end for each in spans)
    a_day = sum(each.estimate() for each in spans) / max((end - start) / _A_DAY, 1.0)
    length = 1
    while length < _UNIT_DAYS_MAX and 2 * length * a_day < _UNIT_OCCURRENCES:
        length *= 2
    number = (start - _EPOCH) // (length * _A_DAY)
    while (begin := _EPOCH + number * length * _A_DAY) < end:
        number += 1
        yield begin, begin + length * _A_DAY


def _later(due: Column, by: int | None) -> Column:
    return np.full(len(due), NO_INSTANT) if by is None else due + by


def _offsets_of(found: tuple[Occurrence, ...]) -> Column:
    """Return the offsets from UTC in force, in seconds."""
    offsets = [*map(_OFFSET, found)]
    if found and offsets.count(offsets[0]) == len(found):
        return np.full(len(found), offsets[0] // _A_SECOND)
    seconds = {offset: offset // _A_SECOND for offset in set(offsets)}
    return np.array([seconds[offset] for offset in offsets], dtype=np.int64)


def _time_text(seconds: int) -> str:
    """Return a time of day as `schedule_drafts.cycle_of` does."""
    return cycle_of(_MIDNIGHT + timedelta(seconds=seconds))[_DATE_CHARS:]
