"""Occurrences of schedules, many at a time, without a draft of each.

Only where a version says all of them: without calendar, smear or missed occurrences, and without
another definition that may owe the same items. A day near a change of offset, or with anything else
that is unusual, is left to the drafts as they are.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.schedule_drafts import OVERLAPS, expand_schedule
from dueledger.ledger.schedule import RECURRING, Decision, Occurrence
from dueledger.ledger.schedule.when import Recurring
from dueledger.reconciler.columns.fixed_width import Column, Columns
from dueledger.reconciler.columns.plain_rows import ABSENT_NUMBER, ids_of
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

Span = tuple[datetime, datetime]
"""Half-open, of instants."""

_A_DAY: Final = timedelta(days=1)
_SPAN_OCCURRENCES: Final = 50_000
_MINUTE: Final = 60
_SECOND: Final = 1_000_000
_SECOND_CHARS: Final = 3
_EPOCH_DAYS: Final = date(1970, 1, 1).toordinal()
_POSTGRES_EPOCH: Final = np.datetime64("2000-01-01", "us")
_FIRST_DAY: Final = date(1970, 1, 2).toordinal()
_LAST_DAY: Final = date(2199, 12, 30).toordinal()


class PlainSchedule:
    """A version whose occurrences are computed as columns."""

    def __init__(self, version: DefinitionSpan, when: Recurring, key: str) -> None:
        definition = version.definition
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
    def of(cls, version: DefinitionSpan) -> "PlainSchedule | None":
        """Return the schedule; None where its occurrences need their drafts."""
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
        return cls(version, definition.when, key)

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
        nominal = np.array([each.nominal for each in found], dtype="datetime64[us]")
        days = nominal.astype("datetime64[D]").astype(np.int64) + _EPOCH_DAYS
        if (
            any(each.decision is not Decision.EXACT for each in found)
            or (
                (days < _FIRST_DAY) | (days > _LAST_DAY) | (nominal.astype(np.int64) % _SECOND != 0)
            ).any()
        ):
            return None
        offsets = np.array([each.utc_offset for each in found], dtype="timedelta64[us]")
        due = (nominal - offsets - _POSTGRES_EPOCH).astype(np.int64)
        cycles = _cycles_of(nominal)
        dates = np.datetime_as_string(nominal, unit="D").tolist()
        begin, key, middle, end = self._id_begin, self._key, self._middle, self._end
        digests = [
            sha256(f"{begin}{cycle}{SEPARATOR}{day}".encode()).digest()
            for cycle, day in zip(cycles, dates, strict=True)
        ]
        texts = [hash(f"{key}{cycle}{middle}{cycle}{end}".encode()) for cycle in cycles]
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


def _later(due: Column, by: int | None) -> Column:
    return np.full(len(due), NO_INSTANT) if by is None else due + by


def _cycles_of(nominal: npt.NDArray[np.datetime64]) -> list[str]:
    """Return local times without microseconds as `schedule_drafts.cycle_of` does."""
    seconds = nominal.astype("datetime64[s]").astype(np.int64) % _MINUTE
    if not seconds.any():
        return np.datetime_as_string(nominal, unit="m").tolist()
    return [
        text if second else text[:-_SECOND_CHARS]
        for text, second in zip(
            np.datetime_as_string(nominal, unit="s").tolist(), seconds.tolist(), strict=True
        )
    ]
