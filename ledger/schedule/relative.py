"""`when: {relative: …}`: a local time of day some dates before or after an effective date."""

from datetime import date, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.errors import InvalidItem, Problem
from ledger.schedule.expressions import Offset, TimeOfDay, ZoneName
from ledger.schedule.resolution import Fold, Gap, Occurrence, resolve
from ledger.schedule.zones import load_zone


class Relative(BaseModel):
    """Due `relative` to the effective date: months first, clamped to the month's end, then days.

    An event's item is owed once, so a gap cannot be skipped nor a fold doubled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    relative: Offset
    to: Literal["effective_date"] = "effective_date"
    at: TimeOfDay
    timezone: ZoneName
    gap: Literal[Gap.SHIFT_FORWARD, Gap.GAP_END] = Field(default=Gap.SHIFT_FORWARD)
    fold: Literal[Fold.FIRST, Fold.SECOND] = Field(default=Fold.FIRST)

    def due_for(self, effective_date: date) -> Occurrence:
        """Return when it is due; InvalidItem where that lies beyond the calendar."""
        try:
            nominal = datetime.combine(self.relative.applied_to(effective_date), self.at)
            found = resolve(nominal, load_zone(self.timezone), self.gap, self.fold)[0]
        except (ValueError, OverflowError):
            raise _beyond(effective_date, self.relative) from None
        if not isinstance(found, Occurrence):  # the types above leave no policy that skips
            raise _beyond(effective_date, self.relative)
        return found


def _beyond(effective_date: date, offset: object) -> InvalidItem:
    reason = f"{offset} from it lies beyond the calendar"
    problem = Problem("effective_date", effective_date.isoformat(), reason)
    return InvalidItem("The due date cannot be computed.", [problem])
