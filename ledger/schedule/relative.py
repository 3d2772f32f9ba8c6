"""`when: {relative: …}`: a local time of day, some days or months from an effective date."""

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from dueledger.ledger.errors import InvalidItem, Problem
from dueledger.ledger.schedule.calendars import Beyond
from dueledger.ledger.schedule.expressions import Offset, TimeOfDay, ZoneName
from dueledger.ledger.schedule.local_rule import LocalRule
from dueledger.ledger.schedule.observance import Observance
from dueledger.ledger.schedule.resolution import Decision, Fold, Gap, Occurrence, resolve
from dueledger.ledger.schedule.zones import load_zone


class Relative(LocalRule):
    """Due `relative` to the effective date: months first, clamped to the month's end, then days.

    An event's item is owed once, so a gap cannot be skipped and a fold cannot be doubled.
    """

    relative: Offset
    to: Literal["effective_date"] = "effective_date"
    at: TimeOfDay
    timezone: ZoneName
    gap: Literal[Gap.SHIFT_FORWARD, Gap.GAP_END] = Field(default=Gap.SHIFT_FORWARD)
    fold: Literal[Fold.FIRST, Fold.SECOND] = Field(default=Fold.FIRST)

    def due_for(self, effective_date: date, observance: Observance | None = None) -> Occurrence:
        """Return when it is due, on the business day to which the calendar rolls the date.

        Raises InvalidItem beyond the supported years, BeyondCalendar beyond the calendar.
        """
        try:
            named = self.relative.applied_to(effective_date)
            day = named if observance is None else _business_day(named, observance)
            found = resolve(
                datetime.combine(day, self.at), load_zone(self.timezone), self.gap, self.fold
            )[0]
        except (ValueError, OverflowError):
            raise _beyond(effective_date, self.relative) from None
        if not isinstance(found, Occurrence):  # the types above allow no policy that skips
            raise _beyond(effective_date, self.relative)
        if day == named:
            return found
        decision = Decision.ROLLED if found.decision is Decision.EXACT else found.decision
        return found._replace(nominal=datetime.combine(named, self.at), decision=decision)


def _business_day(named: date, observance: Observance) -> date:
    day = observance.calendar.roll(named, observance.roll)
    if isinstance(day, Beyond):
        raise observance.calendar.unknown(named, day)
    return day


def _beyond(effective_date: date, offset: object) -> InvalidItem:
    reason = f"{offset} from it is beyond year 9999 or before year 1"
    problem = Problem("effective_date", effective_date.isoformat(), reason)
    return InvalidItem("The due date cannot be computed.", [problem])
