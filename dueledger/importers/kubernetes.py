"""Prow's periodic jobs as definition documents.

`cron` is read in UTC, as Prow does. `interval` counts from a job's last start and
`minimum_interval` from its last end; both become a fixed rate, whose phase is spread by the job's
name.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from ledger.errors import InvalidInput, Problem, shown_value
from ledger.schedule.expressions import Period, period_text

TENANT: Final = "kubernetes"
KIND: Final = "PeriodicJobDue"

_PROBLEMS_MAX: Final = 20
_IMPOSSIBLE_DAY: Final = re.compile(r"\S+ \S+ (?:30|31) 2 \S+")


class Periodic(BaseModel):
    """One periodic job, as far as Prow's configuration of it says when and whose."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1)
    team: str
    area: str
    cron: str | None = None
    interval: Period | None = None
    minimum_interval: Period | None = None
    timeout: str | None = None

    @model_validator(mode="after")
    def _one_schedule(self) -> "Periodic":
        given = [self.cron, self.interval, self.minimum_interval]
        if sum(value is not None for value in given) != 1:
            message = "exactly one of cron, interval and minimum_interval must be given"
            raise ValueError(message)
        return self


_PERIODICS: Final = TypeAdapter(list[Periodic])


def read_periodics(path: Path) -> list[Periodic]:
    """Read a JSON list of periodic jobs. Those that cannot be read are named in the error."""
    try:
        return _PERIODICS.validate_python(json.loads(path.read_text(encoding="utf-8")))
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{path} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
            "Give a JSON list of periodic jobs."
        ) from error
    except ValidationError as error:
        problems = [
            Problem(".".join(map(str, found["loc"])), shown_value(found["input"]), found["msg"])
            for found in error.errors(include_url=False)[:_PROBLEMS_MAX]
        ]
        raise InvalidInput(f"{path} holds jobs that cannot be read:", problems) from error


def definition_documents(
    periodics: Iterable[Periodic], *, anchor: datetime, tenant: str = TENANT
) -> list[dict[str, object]]:
    """Return one definition document a job; `anchor` is where fixed rates count from."""
    return [_document(periodic, anchor=anchor, tenant=tenant) for periodic in periodics]


def _document(periodic: Periodic, *, anchor: datetime, tenant: str) -> dict[str, object]:
    return {
        "definition": periodic.name,
        "tenant": tenant,
        "kind": KIND,
        "business_key": periodic.name,
        "when": _when(periodic, anchor),
        "labels": {"team": periodic.team, "area": periodic.area},
        "lane": "area",
    }


def _when(periodic: Periodic, anchor: datetime) -> Mapping[str, object]:
    if periodic.cron is not None:
        sparse = {"sparse": True} if _IMPOSSIBLE_DAY.fullmatch(periodic.cron) else {}
        return {"cron": periodic.cron, "timezone": "UTC", **sparse}
    period = periodic.interval or periodic.minimum_interval
    assert period is not None  # noqa: S101 - one of the three is given, or the model refuses
    return {
        "every": period_text(period),
        "anchor": (anchor + _phase(periodic.name, period)).astimezone(UTC).isoformat(),
    }


def _phase(name: str, period: timedelta) -> timedelta:
    """Spread jobs over their period, to the minute, the same way on every run."""
    minutes = int(period.total_seconds()) // 60
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return timedelta(minutes=number % minutes) if minutes else timedelta()
