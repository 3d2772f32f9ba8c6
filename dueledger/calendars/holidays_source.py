"""Public holidays of a country or a part of it, from the `holidays` library."""

from collections.abc import Iterator
from datetime import date
from difflib import get_close_matches
from importlib.metadata import version

from dueledger.calendars.source_calendar import (
    DayRange,
    SourceCalendar,
    make_document,
    missing_extra,
    raise_invalid_source,
)
from dueledger.ledger.errors import Problem
from dueledger.ledger.schedule.calendars import WEEK


def read_holidays(place: str, weekend: tuple[str, ...] | None, span: DayRange) -> SourceCalendar:
    """Read the public holidays of `US` or `US-NY`. The default weekend is the country's own.

    Raises InvalidInput for a place or years that the library does not know, MissingExtra without
    it.
    """
    try:
        import holidays  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing_extra("holidays", "A country's holidays") from None
    country, _, subdivision = place.partition("-")
    known = holidays.list_supported_countries(include_aliases=True)
    if country not in known:
        near = get_close_matches(country, known, n=5, cutoff=0.5) or sorted(known)[:5]
        accepted = f"an ISO 3166 code such as {', '.join(near)}"
        raise_invalid_source(
            "--holidays", [Problem("--holidays", country, "is not a known country", accepted)]
        )
    if subdivision and subdivision not in known[country]:
        near = ", ".join(known[country][:60]) or "none"
        problem = Problem(
            "--holidays", place, "is not a known part of the country", f"one of its parts: {near}"
        )
        raise_invalid_source("--holidays", [problem])
    years = range(span.first.year, span.last.year + 1)
    found = holidays.country_holidays(country, subdiv=subdivision or None, years=years)
    if years[0] < found.start_year or years[-1] > found.end_year:
        reason = f"known only for the years {found.start_year} to {found.end_year}"
        raise_invalid_source(
            "--holidays", [Problem("--from, --to", f"{years[0]} to {years[-1]}", reason)]
        )
    days = {day: name for day, name in sorted(found.items()) if day in span}
    own = tuple(WEEK[number].value for number in sorted(found.weekend))
    closed = own if weekend is None else weekend
    workdays = [
        day
        for day in sorted(found.weekend_workdays)
        if day in span and WEEK[day.weekday()].value in closed and day not in days
    ]
    source = f"holidays {version('holidays')} {place}"
    document = make_document(span, closed, days, workdays, source=source)
    return SourceCalendar(document, source, tuple(_remarks(days)))


def _remarks(days: dict[date, str]) -> Iterator[str]:
    estimated = [day for day, name in days.items() if "estimated" in name]
    if estimated:
        yield (
            f"{len(estimated):,} of these days are estimated, from {estimated[0]} on: import again "
            "once they are announced"
        )
