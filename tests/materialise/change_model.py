"""What a changing schedule owes, by arithmetic on fixed offsets: no code of the product."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
OFFSETS: Final[Mapping[str, timedelta]] = {
    "UTC": 0 * HOUR,
    "Europe/London": 0 * HOUR,
    "America/New_York": -5 * HOUR,
    "Asia/Kolkata": 5.5 * HOUR,
    "Pacific/Auckland": 13 * HOUR,
}
"""In the first days of March 2027 none of them changes."""

NEWER_OFFSETS: Final = {**OFFSETS, "America/New_York": -4 * HOUR}
"""By the newer tz database of the tests, New York keeps the time of Halifax."""

Offsets = Mapping[str, timedelta]


@dataclass(frozen=True)
class Terms:
    """The terms of one version: some hours of each local day, or a fixed rate.

    On `closed` days it is skipped; or `calendar` names the calendar that says which they are.
    """

    zone: str = "UTC"
    hours: tuple[int, ...] = ()
    minute: int = 0
    every: timedelta | None = None
    closed: frozenset[date] = frozenset()
    calendar: str | None = None
    ended: bool = False
    overlap: str = "allow"

    @property
    def overlap_reason(self) -> str | None:
        """Why an item of it may be skipped that is due while another is open."""
        return "overlap" if self.overlap == "skip" else None

    def document(self) -> dict[str, Any]:
        """Return the parts of a definition that say so."""
        terms: dict[str, Any] = {"overlap": self.overlap}
        if self.ended:
            terms["ended"] = True
        if self.every is not None:
            seconds = int(self.every.total_seconds())
            return terms | {"when": {"every": f"PT{seconds}S", "anchor": "2027-01-01T00:00:00Z"}}
        hours = ",".join(map(str, self.hours))
        terms["when"] = {"cron": f"{self.minute} {hours} * * *", "timezone": self.zone}
        if self.calendar is not None:
            terms["calendar"] = {"name": self.calendar, "roll": "skip"}
        elif self.closed:
            terms["calendar"] = calendar_document(self.closed) | {"roll": "skip"}
        return terms

    def occurrences(
        self, start: datetime, end: datetime, offsets: Offsets
    ) -> Iterator[tuple[str, datetime]]:
        """Yield the nominal times with their instants in the half-open [start, end)."""
        if self.ended:
            return
        if self.every is not None:
            anchor = datetime(2027, 1, 1, tzinfo=start.tzinfo)
            at = anchor + -((anchor - start) // self.every) * self.every
            while at < end:
                yield cycle_of(at.replace(tzinfo=None)), at
                at += self.every
            return
        day = start.date() - DAY
        while day <= end.date() + DAY:
            for hour in self.hours:
                local = datetime.combine(day, time(hour, self.minute))
                at = (local - offsets[self.zone]).replace(tzinfo=start.tzinfo)
                if start <= at < end:
                    yield cycle_of(local), at
            day += DAY


Calendars = Mapping[str, Sequence[frozenset[date]]]
"""The closed days of each version of the calendars that have a name."""


def calendar_document(closed: frozenset[date]) -> dict[str, Any]:
    """Return a calendar with these closed days."""
    return {"weekend": [], "holidays": sorted(map(str, closed))}


@dataclass(frozen=True)
class VersionTerms:
    """A version: from when on it decides, unless a later one does."""

    since: datetime
    terms: Terms


@dataclass(frozen=True)
class Owed:
    """One occurrence of a version, with its instant by each tz database that was in use.

    `may_be_skipped`: it is on a day that a calendar of its version closes.
    """

    version: int
    cycle: str
    instants: tuple[datetime, ...]
    may_be_skipped: bool


def cycle_of(local: datetime) -> str:
    """Return the name of a nominal time."""
    return local.isoformat(timespec="seconds" if local.second else "minutes")


def spans(
    versions: Sequence[VersionTerms], until: datetime
) -> Iterator[tuple[int, datetime, datetime, Terms]]:
    """Yield each version with the span in which it decides: the one defined last wins."""
    for place, each in enumerate(versions):
        end = min([until, *(later.since for later in versions[place + 1 :])])
        if each.since < end:
            yield place + 1, each.since, end, each.terms


def closes(terms: Terms, calendars: Calendars, cycle: str) -> set[bool]:
    """Return whether the versions of a calendar close the day of a nominal time."""
    named = None if terms.calendar is None else calendars[terms.calendar]
    return {date.fromisoformat(cycle[:10]) in closed for closed in named or (terms.closed,)}


def owed(
    versions: Sequence[VersionTerms],
    until: datetime,
    databases: Sequence[Offsets],
    calendars: Calendars,
) -> tuple[list[Owed], set[tuple[str, datetime]]]:
    """Return what must have a row, and everything that may be an item.

    An occurrence must if it is in its version's span by every tz database that was in use. It may
    be an item if a version of its calendar leaves its day open.
    """
    must: list[Owed] = []
    may: set[tuple[str, datetime]] = set()
    for version, start, end, terms in spans(versions, until):
        by_each = [dict(terms.occurrences(start, end, offsets)) for offsets in databases]
        closed = {cycle: closes(terms, calendars, cycle) for found in by_each for cycle in found}
        for found in by_each:
            may.update((cycle, at) for cycle, at in found.items() if False in closed[cycle])
        for cycle in by_each[0]:
            instants = [found.get(cycle) for found in by_each]
            known = tuple(each for each in instants if each is not None)
            if len(known) == len(instants):
                must.append(Owed(version, cycle, known, True in closed[cycle]))
    return must, may
