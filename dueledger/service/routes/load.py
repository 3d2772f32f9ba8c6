"""The route of the load: what schedules owe in a week, its peaks, and its quiet windows."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.schedule.when import DUE_END
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.definitions import list_versions
from dueledger.planning.load_plan import LoadPlan, QuietPeriod
from dueledger.planning.schedule_load import DefinitionInForce, LoadSource
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import LIMIT_MAX
from dueledger.service.routes.fields import Instant, Text
from dueledger.service.schedule_times import ScheduleTimes, quarter_of, times_of
from dueledger.service.scoped_routes import ScopedRoutes

read = ScopedRoutes(Scope.READ, "definitions")

DAYS: Final = 7
DEFINITIONS_MAX: Final = 500
OCCURRENCES_MAX: Final = 200_000
QUIET_MINUTES: Final = 30
"""Of a quiet window, unless another length is asked for."""

_HOUR: Final = timedelta(hours=1)

QuietMinutes = Annotated[int, Query(ge=1, le=1_440, description="minutes of a quiet window")]


class FoundDefinitions(NamedTuple):
    """Definitions of which the load is planned, and whether there are more than were read."""

    definitions: list[DefinitionInForce]
    is_cut: bool


class QuarterDocument(BaseModel):
    """A quarter of an hour in which items are due."""

    start: datetime
    due: int
    busiest_minute: Annotated[int, Field(description="items that are due in its busiest minute")]


class LoadPart(BaseModel):
    """Items of a definition within a peak."""

    tenant: str
    kind: str
    definition: str | None
    items: int


class HourDocument(BaseModel):
    """An hour, to whole quarters, and what each definition owes in it, those with most first."""

    start: datetime
    end: datetime
    items: list[LoadPart]


class PeakDocument(QuarterDocument):
    """One of the quarters with the busiest minutes, and most of whose items it has."""

    most_of: list[LoadPart]


class QuietDocument(BaseModel):
    """A window without due items, or the one with the fewest if none is long enough."""

    start: datetime
    end: datetime
    due: int


class UncountedDocument(BaseModel):
    """A definition whose items cannot be counted ahead, or only in part, and why."""

    tenant: str
    kind: str
    definition: str | None
    reason: str


class LoadDocument(BaseModel):
    """What schedules owe in a week, by quarter of an hour; quarters without items are left out.

    Items that events or services emit are not counted.
    """

    start: datetime
    end: datetime
    definitions: int
    is_cut: Annotated[
        bool, Field(description=f"more than {DEFINITIONS_MAX} definitions are in force")
    ]
    items: list[QuarterDocument]
    peaks: list[PeakDocument]
    quiet: list[QuietDocument]
    quiet_is_cut: Annotated[
        bool, Field(description=f"there are more quiet windows than these {LIMIT_MAX:,}")
    ]
    hour: Annotated[HourDocument | None, Field(description="null: none was asked for")]
    not_counted: list[UncountedDocument]


@read.add("GET", "/v1/load", "getLoad", LoadDocument)
async def get_load(
    call: CurrentCall,
    request: Request,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
    start: Annotated[
        Instant | None, Query(description="when the week begins; without it now")
    ] = None,
    quiet: QuietMinutes = QUIET_MINUTES,
    hour: Annotated[
        Instant | None,
        Query(description="when an hour of the week begins of which each definition is counted"),
    ] = None,
) -> Response:
    """Count what schedules owe in a week, by quarter of an hour, with peaks and quiet windows."""
    now: datetime = request.state.now
    start = start or now
    times = times_of(request)
    found = await definitions_of(call, times, tenant, kind, is_past=start < now)
    plan = await plan_week(times, found, start, quiet)
    windows = quiet_windows(plan)
    return answer(
        {
            "start": plan.start,
            "end": plan.end,
            "definitions": plan.definitions,
            "is_cut": found.is_cut,
            "items": [
                members_of(QuarterDocument, asdict(each)) for each in plan.quarters if each.due
            ],
            "peaks": [
                {
                    **members_of(QuarterDocument, asdict(peak.quarter)),
                    "most_of": [
                        {**asdict(source), "items": items} for source, items in peak.most_of
                    ],
                }
                for peak in plan.peaks
            ],
            "quiet": [asdict(each) for each in windows[:LIMIT_MAX]],
            "quiet_is_cut": len(windows) > LIMIT_MAX,
            "hour": None if hour is None else await _hour_of(times, found, plan, hour),
            "not_counted": [
                {**asdict(each.source), "reason": each.reason} for each in plan.not_counted
            ],
        }
    )


async def _hour_of(
    times: ScheduleTimes, found: FoundDefinitions, plan: LoadPlan, hour: datetime
) -> dict[str, object]:
    """Return what each definition owes in an hour. Raises InvalidInput for one of another week."""
    if not plan.start <= hour < plan.end:
        problem = Problem("hour", hour.isoformat(), "it is not in the week", "a time of the week")
        raise InvalidInput("The hour cannot be counted:", [problem])
    start, end = quarter_of(hour), min(quarter_of(hour) + _HOUR, plan.end)
    owed = await due_in(times, found, start, end)
    items = [{**asdict(source), "items": due} for source, due in owed]
    return {"start": start, "end": end, "items": items}


async def due_in(
    times: ScheduleTimes, found: FoundDefinitions, start: datetime, end: datetime
) -> list[tuple[LoadSource, int]]:
    """Return the schedules with items due in a part of a week, those with most first."""
    return await times.due_by_source(found.definitions, start, end, occurrences_max=OCCURRENCES_MAX)


async def definitions_of(
    call: ApiCall, times: ScheduleTimes, tenant: str | None, kind: str | None, *, is_past: bool
) -> FoundDefinitions:
    """Return what is in force or to come; with `is_past`, what was in force, too."""
    versions = await list_versions(
        call.connection,
        tenant,
        None,
        newest_only=not is_past,
        limit=DEFINITIONS_MAX + 1,
        tenants=call.tenants,
        kind=kind,
    )
    shown = versions[:DEFINITIONS_MAX]
    found = [
        DefinitionInForce(definition, each.effective_from, each.superseded_at or DUE_END)
        for each, definition in zip(shown, await times.read(call.connection, shown), strict=True)
        if definition is not None and not definition.ended
    ]
    return FoundDefinitions(found, len(versions) > DEFINITIONS_MAX)


async def plan_week(
    times: ScheduleTimes, found: FoundDefinitions, start: datetime, quiet_minutes: int
) -> LoadPlan:
    """Return what definitions owe in the week from an instant on. Raises WindowTooLarge."""
    return await times.plan(
        found.definitions,
        start,
        DAYS,
        quiet_for=timedelta(minutes=quiet_minutes),
        occurrences_max=OCCURRENCES_MAX,
    )


def quiet_windows(plan: LoadPlan) -> tuple[QuietPeriod, ...]:
    """Return the windows that are quiet for long enough, or the quietest one of that length."""
    return plan.quiet or ((plan.quietest,) if plan.quietest else ())
