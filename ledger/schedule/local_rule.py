"""What every rule over local time shares: policies for gaps and folds, bounds, presets.

A preset is a name for a pair of policies. It is replaced by them when a document is read, so that
a stored definition keeps its meaning even if a later version changes the preset.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Final, cast
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, model_validator

from dueledger.ledger.schedule.expressions import field_error
from dueledger.ledger.schedule.local_times import LocalTimesOfDay, midnight_of
from dueledger.ledger.schedule.resolution import SCAN_MARGIN, Fold, Gap, instant_of, resolve_all

_DAY: Final = timedelta(days=1)


class Preset(StrEnum):
    """Policies, named after the system that has them."""

    DEBIAN = "debian"  # fixed times: once, at the end of a gap; `*` in hour or minute: as shown
    RFC5545 = "rfc5545"  # section 3.3.5: the offset before a gap, the first of two


_POLICIES: Final[Mapping[Preset, tuple[Gap, Fold]]] = {
    Preset.DEBIAN: (Gap.GAP_END, Fold.FIRST),
    Preset.RFC5545: (Gap.SHIFT_FORWARD, Fold.FIRST),
}


@dataclass(frozen=True, slots=True)
class ResolutionPolicy:
    """How the local times of a rule are resolved; none counts after `last_instant`."""

    zone: ZoneInfo
    gap: Gap
    fold: Fold
    last_instant: datetime | None = None

    @property
    def policy(self) -> tuple[ZoneInfo, Gap, Fold]:
        """Return the arguments of `resolve`."""
        return self.zone, self.gap, self.fold

    def counted(self, day: date, times: LocalTimesOfDay) -> LocalTimesOfDay:
        """Return the times of a day that count: an instant of theirs is not after the last."""
        if self.last_instant is None or not times:
            return times
        midnight = midnight_of(day)
        last = self.last_instant.astimezone(UTC)
        edge = last.replace(tzinfo=None)
        if midnight + _DAY + SCAN_MARGIN <= edge:
            return times
        if midnight - SCAN_MARGIN > edge:
            return ()
        resolved = resolve_all([midnight + of_day for of_day in times], *self.policy)
        counted = {found.nominal for found in resolved if instant_of(found) <= last}
        return tuple(of_day for of_day in times if midnight + of_day in counted)


def check_bounds(start: datetime | None, end: datetime | None) -> None:
    """Refuse an end that is not after the start."""
    if start is not None and end is not None and end <= start:
        raise field_error(
            "end", "is not after the start", "an `end` later than `start`; it is exclusive"
        )


def _show_preset(schema: dict[str, Any]) -> None:
    schema["properties"]["preset"] = {
        "description": "replaced by `gap` and `fold` when the document is read",
        "enum": [preset.value for preset in Preset],
        "type": "string",
    }


class LocalRule(BaseModel):
    """A rule over local time. `preset` is accepted in place of `gap` and `fold`."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_show_preset)

    presets: ClassVar[tuple[Preset, ...]] = (Preset.RFC5545,)

    @classmethod
    def policies_of(cls, preset: Preset, raw: Mapping[str, object]) -> tuple[Gap, Fold]:  # noqa: ARG003 -- a subclass may read it
        """Return the policies of a preset in the document `raw`."""
        return _POLICIES[preset]

    @model_validator(mode="before")
    @classmethod
    def _write_out_preset(cls, raw: object) -> object:
        if not isinstance(raw, Mapping) or "preset" not in raw:
            return cast("object", raw)
        document = dict(cast("Mapping[str, object]", raw))
        preset = document.pop("preset")
        known = [one.value for one in cls.presets]
        if preset not in known:
            others = "" if preset not in list(Preset) else ", only for cron"
            raise field_error("preset", f"is not a preset of this kind{others}", " or ".join(known))
        if given := [field for field in ("gap", "fold") if field in document]:
            reason = f"is given together with {' and '.join(given)}"
            raise field_error("preset", reason, "a preset, or `gap` and `fold`")
        gap, fold = cls.policies_of(Preset(str(preset)), document)
        return document | {"gap": gap, "fold": fold}
