"""Times as a page shows them: how long ago or ahead, and exact in the reader's zone."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Final

from dueledger.ledger.errors import UnknownZone
from dueledger.ledger.schedule.zones import load_zone
from dueledger.time_spans import brief_span

UTC_NAME: Final = "UTC"


@dataclass(frozen=True, slots=True)
class PageClock:
    """The ledger's time at which a page was made, and the zone in which it shows times."""

    now: datetime | None
    zone_name: str
    zone: tzinfo

    def exact(self, instant: datetime) -> str:
        """Return the time in the zone, to the second, as 2027-03-01 09:00:00 +01:00."""
        local = instant.astimezone(self.zone)
        if self.zone_name == UTC_NAME:
            return f"{local:%Y-%m-%d %H:%M:%S} UTC"
        offset = f"{local:%z}"
        return f"{local:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:]}"

    def brief(self, instant: datetime) -> str:
        """Return the time in the zone as it fits a column: the day only if it is another one."""
        local = instant.astimezone(self.zone)
        if self.now is not None and local.date() == self.now.astimezone(self.zone).date():
            return f"{local:%H:%M:%S}"
        return f"{local:%Y-%m-%d %H:%M}"

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
        return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
    return instant.isoformat()


def zone_of(name: str) -> tuple[str, tzinfo]:
    """Return a zone by its name; UTC for one that is unknown, as a cookie may have."""
    try:
        return name, load_zone(name)
    except UnknownZone:
        return UTC_NAME, UTC
