"""Occurrences of schedules, many at a time, without a draft of each.

Only where a version says all of them: without calendar, smear or missed occurrences, and without
another definition that may owe the same items. A day near a change of offset, or with anything else
that is unusual, is left to the drafts as they are.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
import orjson

from dueledger.ledger.errors import InvalidInput, WindowTooLarge
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.schedule_drafts import OVERLAPS
from dueledger.ledger.schedule import RECURRING, Decision, ScheduleWindow
from dueledger.ledger.schedule.expansion import ExactDays
from dueledger.ledger.schedule.when import Recurring, expand_days
from dueledger.reconciler.columns.fixed_width import Column
from dueledger.reconciler.columns.plain_rows import (
    ABSENT_NUMBER,
    Digests,
    PlainRows,
    ids_of,
    joined_digests,
)
from dueledger.reconciler.columns.terms import (
    ABSENT,
    NO_INSTANT,
    NO_SMEAR,
    SEPARATOR,
    all_mixed,
    double_bits,
)
from dueledger.reconciler.columns.texts import (
    DAY_SECONDS,
    Characters,
    date_characters,
    joined_texts,
    time_characters,
)
from dueledger.reconciler.expect.item_terms import flow_texts, stored_labels
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.sources import SourceTotals

Span = tuple[datetime, datetime]
"""Half-open, of instants."""
LeftSpan = tuple["PlainSchedule", datetime, datetime]
"""A span of a schedule of which the drafts are needed."""

_NONE: Final = np.empty(0, dtype=np.int64)
_A_DAY: Final = timedelta(days=1)
_SPAN_OCCURRENCES: Final = 50_000
_A_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE: Final = 60
_SECOND: Final = 1_000_000
_SHORT_TIME_CHARS: Final = len("T00:00")
_EPOCH_DAYS: Final = date(1970, 1, 1).toordinal()
_UNIT_OCCURRENCES: Final = 500_000
_UNIT_DAYS_MAX: Final = 1_024
_SEPARATOR: Final = SEPARATOR.encode()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_POSTGRES_SECONDS: Final = 946_684_800
_FIRST_DAY: Final = date(1970, 1, 2).toordinal()
_LAST_DAY: Final = date(2199, 12, 30).toordinal()


class Expanded(NamedTuple):
    """Occurrences of one schedule: `days` are proleptic ordinals, `due` as PostgreSQL stores it.

    `digests` are of what makes ids, `texts` hashes of the texts of terms.
    """

    days: Column
    due: Column
    digests: Digests
    texts: Column


class PlainSchedule:
    """A version whose occurrences are computed as columns."""

    def __init__(self, version: DefinitionSpan, end: datetime, when: Recurring, key: str) -> None:
        definition = version.definition
        self.version, self.start, self.end = version, version.effective_from, end
        self._definition, self._when = definition, when
        sla = definition.sla
        start, complete = map(_microseconds, (sla.start_within, sla.complete_within))
        self.shared = version.definition_no, start, complete
        """What all its occurrences have: definition, and the times of the SLA after they are due.
        """
        labels = definition.labels
        zone = getattr(definition.when, "timezone", "UTC")
        self._id_begin = _encoded(definition.tenant, definition.kind, key, "")
        self._key = _encoded(key, "")
        stored = stored_labels(orjson.dumps(labels).decode()) if labels else ABSENT
        self._middle = _encoded("", ABSENT, stored, "")
        payload = orjson.dumps(definition.payload, option=orjson.OPT_SORT_KEYS).decode()
        lane = labels[definition.lane] if definition.lane else ""
        flow = flow_texts(lane, OVERLAPS[definition.overlap])
        self._end = _encoded("", zone, Decision.EXACT.value, *flow, payload)

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

    def expand(self, start: datetime, end: datetime, left: list[Span]) -> Iterator[Expanded]:
        """Yield the occurrences of the half-open span; spans that need drafts go to `left`.

        Raises WindowTooLarge as `expand` does.
        """
        waiting = list(self._spans(start, end))[::-1]
        while waiting:
            begin, until = waiting.pop()
            found = self._columns([*expand_days(self._when, begin, until)])
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

    def _columns(self, parts: Sequence[ExactDays | ScheduleWindow]) -> Expanded | None:
        """Return the occurrences as columns; None if anything about one of them is unusual."""
        columns: list[tuple[Column, Column]] = []
        for part in parts:
            times = _seconds_of(part)
            if times is None:
                return None
            columns.append(times)
        seconds, nominal = (
            columns[0]
            if len(columns) == 1
            else map(np.concatenate, zip((_NONE, _NONE), *columns, strict=True))
        )
        days = nominal // DAY_SECONDS + _EPOCH_DAYS
        if ((days < _FIRST_DAY) | (days > _LAST_DAY)).any():
            return None
        due = (seconds - _POSTGRES_SECONDS) * _SECOND
        digests, texts = self._digest(date_characters(days), nominal % DAY_SECONDS)
        return Expanded(days, due, digests, texts)

    def _digest(self, dates: Characters, seconds: Column) -> tuple[Digests, Column]:
        """Return what ids are of, and the hashes of texts; `seconds` are times of day.

        A time of whole minutes is a shorter text.
        """
        is_short, times = seconds % _MINUTE == 0, time_characters(seconds)
        if is_short.all():
            return self._digest_alike(dates, times[:, :_SHORT_TIME_CHARS])
        digests, texts = self._digest_alike(dates, times)
        short = dates[is_short], times[is_short, :_SHORT_TIME_CHARS]
        digests[is_short], texts[is_short] = self._digest_alike(*short)
        return digests, texts

    def _digest_alike(self, dates: Characters, times: Characters) -> tuple[Digests, Column]:
        count, cycle = len(dates), (dates, times)
        identities = joined_texts(count, self._id_begin, *cycle, _SEPARATOR, dates)
        terms = joined_texts(count, self._key, *cycle, self._middle, *cycle, self._end)
        return (
            joined_digests([sha256(each).digest() for each in identities]),
            np.fromiter(map(hash, terms), dtype=np.int64, count=count),
        )


class _Batch:
    """Occurrences that wait to be put: one schedule may have few of them."""

    def __init__(self, rows: PlainRows) -> None:
        self._rows = rows
        self._shared: list[tuple[int, int, int]] = []
        self._expanded: list[Expanded] = []
        self._count = 0

    def add(self, schedule: PlainSchedule, expanded: Expanded) -> None:
        self._shared.append(schedule.shared)
        self._expanded.append(expanded)
        self._count += len(expanded.days)
        if self._count >= _SPAN_OCCURRENCES:
            self.put()

    def put(self) -> None:
        """Put what waits as rows."""
        if not self._count:
            return
        sizes = [len(each.days) for each in self._expanded]
        shared = np.array(self._shared, dtype=np.int64).repeat(sizes, axis=0).T
        definition, start, complete = np.ascontiguousarray(shared)
        days, due, digests, texts = map(np.concatenate, zip(*self._expanded, strict=True))
        high, low = ids_of(days, digests)
        smear = np.full(self._count, double_bits(NO_SMEAR))
        self._rows.add(
            days,
            {
                "high": high,
                "low": low,
                "due": due,
                "terms": all_mixed(texts, _later(due, start), _later(due, complete), smear),
                "definition": definition,
                "event": np.full(self._count, ABSENT_NUMBER),
                "subject": np.zeros(self._count, dtype=np.int64),
            },
        )
        self._shared, self._expanded, self._count = [], [], 0


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
        batch = _Batch(rows)
        for place, (schedule, part) in enumerate(parts):
            spans: list[Span] = []
            try:
                for expanded in schedule.expand(*part, spans):
                    batch.add(schedule, expanded)
            except (InvalidInput, WindowTooLarge) as refusal:
                failed[schedule.version.definition_no] = refusal.message
                name = object()  # the next pass says so again
            left += [(place, span) for span in spans]
        batch.put()
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


def _microseconds(within: timedelta | None) -> int:
    return NO_INSTANT if within is None else within // _MICROSECOND


def _later(due: Column, by: Column) -> Column:
    return np.where(by == NO_INSTANT, NO_INSTANT, due + by)


def _seconds_of(part: ExactDays | ScheduleWindow) -> tuple[Column, Column] | None:
    """Return instants and nominal times in seconds since 1970; None if one is unusual."""
    if isinstance(part, ScheduleWindow):
        return _seconds_of_window(part)
    nominals = [_NONE]
    for times, run in groupby(part.days, key=itemgetter(1)):
        if any(each.microseconds for each in times):
            return None
        midnights = np.array([day.toordinal() for day, _ in run]) - _EPOCH_DAYS
        of_day = np.array([each // _A_SECOND for each in times], dtype=np.int64)
        nominals.append(np.add.outer(midnights * DAY_SECONDS, of_day).ravel())
    nominal = np.concatenate(nominals)
    return nominal - part.offset // _A_SECOND, nominal


def _seconds_of_window(window: ScheduleWindow) -> tuple[Column, Column] | None:
    if window.skipped:
        return None
    due, _, offsets, decisions = (
        zip(*window.occurrences, strict=True) if window.occurrences else [()] * 4
    )
    instants = np.array([*map(datetime.timestamp, due)], dtype=np.float64)
    seconds = instants.astype(np.int64)
    if decisions.count(Decision.EXACT) < len(decisions) or (seconds != instants).any():
        return None
    seconds_of = {each: each // _A_SECOND for each in {*offsets}}
    return seconds, seconds + np.array([seconds_of[each] for each in offsets], dtype=np.int64)


def _encoded(*texts: str) -> bytes:
    return SEPARATOR.join(texts).encode()
