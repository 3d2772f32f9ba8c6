"""Times as a page shows them: how long ago or ahead, and exact in the reader's zone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Final

from dueledger.ledger.errors import UnknownZone
from dueledger.ledger.schedule.zones import load_zone
from dueledger.time_spans import brief_span

UTC_NAME: Final = "UTC"
NEVER: Final = datetime.max  # noqa: DTZ901 - infinity, as the driver returns it
"""When an item is available that waits for its key."""
_DAY, _MINUTE, _OFFSET = len("2027-03-01 "), len("2027-03-01 09:00"), len("2027-03-01 09:00:00")
"""Where the parts of an ISO time end."""


@dataclass(frozen=True, slots=True)
class PageClock:
    """The ledger's time at which a page was made, and the zone in which it shows times."""

    now: datetime | None
    zone_name: str
    zone: tzinfo
    other_zones: Sequence[tzinfo] = ()
    """Zones of the reader beside it and UTC."""
    _today: str = field(init=False)
    """How times of this day begin in the zone."""

    def __post_init__(self) -> None:
        """Find the day in the zone."""
        today = "never" if self.now is None else f"{self.now.astimezone(self.zone).date()} "
        object.__setattr__(self, "_today", today)

    def exact(self, instant: datetime) -> str:
        """Return the time in the zone, to the second, as 2027-03-01 09:00:00 +01:00."""
        return self.exact_and_brief(instant)[0]

    def brief(self, instant: datetime) -> str:
        """Return the time in the zone as it fits a column: the day only if it is another one."""
        return self.exact_and_brief(instant)[1]

    def exact_and_brief(self, instant: datetime) -> tuple[str, str]:
        """Return both. A page shows hundreds of times, and `strftime` would take most of each."""
        text = instant.astimezone(self.zone).isoformat(" ", "seconds")
        offset = UTC_NAME if self.zone_name == UTC_NAME else text[_OFFSET:]
        is_today = text.startswith(self._today)
        return f"{text[:_OFFSET]} {offset}", text[_DAY:_OFFSET] if is_today else text[:_MINUTE]

    def to_second(self, instant: datetime) -> str:
        """Return the time in the zone to the second; the day only if it is another one."""
        text = instant.astimezone(self.zone).isoformat(" ", "seconds")[:_OFFSET]
        return text[_DAY:] if text.startswith(self._today) else text

    def in_other_zones(self, instant: datetime) -> str:
        """Return the time in the reader's other zones and in UTC, for who points at it."""
        others = (instant.astimezone(zone).isoformat(" ", "seconds") for zone in self.other_zones)
        shown = [f"{each[:_OFFSET]} {each[_OFFSET:]}" for each in others]
        return " · ".join((*shown, iso(instant)))

    def month(self, instant: datetime) -> str:
        """Return the month in the zone, as 2027-03."""
        return f"{instant.astimezone(self.zone):%Y-%m}"

    def relative(self, instant: datetime) -> str:
        """Return how long ago it was, or how far ahead it is."""
        if self.now is None:
            return self.brief(instant)
        length = instant - self.now
        if length.total_seconds() > 0:
            return f"in {brief_span(length)}"
        return f"{brief_span(-length)} ago"

    def age(self, instant: datetime) -> str:
        """Return how long ago it was, without the word."""
        return "" if self.now is None else brief_span(self.now - instant)


def iso(instant: datetime | date) -> str:
    """Return a time in UTC as ISO 8601, or a date."""
    if isinstance(instant, datetime):
        at = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
        return f"{at.isoformat()[:_OFFSET]}Z"
    return instant.isoformat()


def zone_of(name: str) -> tuple[str, tzinfo]:
    """Return a zone by its name; UTC for one that is unknown, as a cookie may have."""
    try:
        return name, load_zone(name)
    except UnknownZone:
        return UTC_NAME, UTC
