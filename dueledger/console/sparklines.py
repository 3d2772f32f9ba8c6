"""The last hour by minute as two sparklines: what was completed, and how long after it was due."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from markupsafe import Markup

from dueledger.console.listing import Column, Listing
from dueledger.console.view import View
from dueledger.ledger.states import State
from dueledger.throughput import MINUTE, MINUTES, Throughput
from dueledger.time_spans import brief_span

HEIGHT: Final = 32
_BAR: Final = 3
"""Width of a minute, of which a third is between two bars."""
WIDTH: Final = _BAR * MINUTES
MINUTES_ID: Final = "minutes"
"""Of the table of the same numbers: no list of items is by the time at which each was completed."""
_NONE: Final = "No item was completed."


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Bars by minute: what they show, the number of the hour, and the list behind it."""

    name: str
    label: str
    number: str
    note: str
    href: str
    words: str
    """What the picture shows, for who does not see it."""
    bars: Markup


@dataclass(frozen=True, slots=True)
class Sparklines:
    """Both, the time from and to which they are, and the same as numbers."""

    lines: Sequence[Sparkline]
    since: str
    until: str
    counted_since: str | None
    """From when on the hour is counted, if that is later than its first minute."""
    listing: Listing
    id: str = MINUTES_ID
    box: str = f"0 0 {WIDTH} {HEIGHT}"


def make_sparklines(view: View, found: Throughput | None) -> Sparklines | None:
    """Return the sparklines; None if nothing of the last hour is counted."""
    if found is None or not found.minutes or view.clock.now is None:
        return None
    if found.until <= view.clock.now - MINUTES * MINUTE:
        return None
    zone = view.clock.zone
    ends = found.until.astimezone(zone)
    begins = (found.until - MINUTES * MINUTE).astimezone(zone)
    since = found.hour.since.astimezone(zone)
    span = f"by minute from {since:%H:%M} to {ends:%H:%M}"
    lines = _completed(found, span), _after_due(found, span)
    return Sparklines(
        lines,
        f"{begins:%H:%M}",
        f"{ends:%H:%M}",
        f"{since:%H:%M}" if since > begins else None,
        _listing(found),
    )


def _completed(found: Throughput, span: str) -> Sparkline:
    counts = [each.completed for each in found.minutes]
    most = max(counts)
    about = "about " if found.hour.is_estimate else ""
    return Sparkline(
        "done",
        "Completed in the last hour",
        f"{about}{found.hour.completed:,}",
        f"A bar is a minute. The highest bar: {about}{most:,}." if most else _NONE,
        f"#{MINUTES_ID}",
        f"Completed {span}: {min(counts):,} to {most:,} items in a minute",
        _bars(counts),
    )


def _after_due(found: Throughput, span: str) -> Sparkline:
    delays = [each.p99_seconds or 0 for each in found.minutes]
    hour = found.hour
    if hour.p99_seconds is None:
        number, note, most = "–", _NONE, "none was completed"
    else:
        most = seconds_of(max(delays))
        number = seconds_of(hour.p99_seconds)
        note = f"99 of 100 items took no longer after they were due. The highest bar: {most}."
        if hour.is_estimate:
            note += f" {hour.sampled:,} of them were looked at."
    return Sparkline(
        "slow",
        "Completed after due, p99",
        number,
        note,
        f"#{MINUTES_ID}",
        f"Within how long after they were due 99 of 100 were completed, {span}: up to {most}",
        _bars(delays),
    )


def seconds_of(seconds: float) -> str:
    """Return a span with two digits at least: 12 ms, 4.2 s, 3 min."""
    if seconds < 1:
        return f"{seconds * 1_000:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 10 else brief_span(timedelta(seconds=seconds))  # noqa: PLR2004


def _bars(values: Sequence[float]) -> Markup:
    """Return the outline of all bars; one that is not nothing is seen."""
    most = max(values) or 1
    first = MINUTES - len(values)
    heights = [max(1, round(HEIGHT * value / most)) if value else 0 for value in values]
    outline = "".join(
        f"M{_BAR * place} {HEIGHT}v-{height}h{_BAR - 1}v{height}z"
        for place, height in enumerate(heights, first)
        if height
    )
    return Markup(f'<path d="{outline}"/>')  # noqa: S704 - it is made of numbers


def _listing(found: Throughput) -> Listing:
    return Listing(
        caption="The last hour by minute",
        order="newest first",
        columns=(
            Column("since", "Minute", "minute"),
            Column("completed", State.COMPLETED.label, "count"),
            Column("after_due", "99 of 100 within", by="p99_seconds"),
            Column("sampled", "Looked at", "count"),
        ),
        rows=[
            {
                "since": each.since,
                "completed": each.completed,
                "after_due": seconds_of(each.p99_seconds),
                "p99_seconds": each.p99_seconds,
                "sampled": each.sampled,
            }
            for each in reversed(found.minutes)
            if each.p99_seconds is not None
        ],
        empty="Nothing was completed in this hour.",
    )
