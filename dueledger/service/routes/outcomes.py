"""Routes of outcomes: how items ended, as consumers report it that do not use Kafka for that."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from dueledger.ledger.errors import InvalidOutcome, Problem
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.reported_outcomes import OutcomeRefusal
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer
from dueledger.service.routes.fields import PRINTABLE
from dueledger.service.scoped_routes import ScopedRoutes
from dueledger.workers.outcomes.decide import OutcomeReport
from dueledger.workers.outcomes.observe import observe_ends
from dueledger.workers.outcomes.parse import ALIASES, ReportedVerdict, read_exact, read_outcome
from dueledger.workers.outcomes.settle import settle_reports

OUTCOMES_MAX: Final = 1_000

work = ScopedRoutes(Scope.WORK, "work")

_ITEM: Final = "0051a6f5-4d2a-8c11-9d3e-7b0a86f0f6d1"


class OutcomeToReport(BaseModel):
    """How an item ended, or that it is still being worked: as on the topic `due-outcomes`."""

    model_config = ConfigDict(extra="forbid")

    item: UUID
    fence: Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)]
    token: Annotated[str, Field(max_length=100, pattern=PRINTABLE)]
    position: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    verdict: Annotated[
        str,
        Field(
            json_schema_extra={"enum": [*ReportedVerdict, *ALIASES]},
            description="RUNNING, SUCCESS and FAILED are heartbeat, completed and retry",
        ),
    ]
    after: Annotated[
        str | None, Field(description="of retry and snooze: a duration, or an instant")
    ] = None
    evidence: Annotated[dict[str, Any] | None, Field(description="kept to the letter")] = None
    reason: str | None = None


class OutcomeReports(RequestBody):
    """Outcomes to record. Repeating them changes nothing and has the same result."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "outcomes": [
                        {
                            "item": _ITEM,
                            "fence": 4711,
                            "token": "0006386f3f0a4c0099c2a1b7d0e4f566",
                            "position": 1,
                            "verdict": "completed",
                            "evidence": {"booking": "B-77"},
                        }
                    ]
                }
            ]
        },
    )

    outcomes: Annotated[list[OutcomeToReport], Field(min_length=1, max_length=OUTCOMES_MAX)]


class OutcomeVerdict(BaseModel):
    """Whether an outcome counts: it is recorded, now or before, or why it is not."""

    item: UUID
    result: Annotated[
        Literal["recorded", "stale", "conflict", "mismatch", "unknown", "wrong_settler"],
        Field(
            description="stale: the lease had lapsed; conflict: it ended otherwise before; "
            "mismatch, unknown: it was not handed out so; wrong_settler: another worker has it"
        ),
    ]
    lease_seconds: Annotated[
        float | None, Field(description="after a heartbeat: how long the lease now lasts")
    ]


class OutcomeVerdicts(BaseModel):
    """A result for each outcome, in the order of the request."""

    outcomes: list[OutcomeVerdict]


@work.add("POST", "/v1/outcomes", "reportOutcomes", OutcomeVerdicts, is_audited=False)
async def report_outcomes(call: CurrentCall, reports: OutcomeReports) -> Response:
    """Report up to 1,000 outcomes of items that were claimed, or came by a work topic."""
    return answer({"outcomes": await _record(call, _read(call, reports))})


def _read(call: ApiCall, reports: OutcomeReports) -> list[OutcomeReport]:
    """Read the outcomes by the contract of their topic. Raises InvalidOutcome."""
    exact = read_exact(call.body)["outcomes"]
    read: list[OutcomeReport] = []
    problems: list[Problem] = []
    for place, report in enumerate(reports.outcomes):
        members = report.model_dump(mode="json", exclude_none=True)
        try:
            outcome = read_outcome(members, lambda place=place: exact[place]["evidence"])
        except InvalidOutcome as error:
            problems += [
                replace(each, field=f"/outcomes/{place}/{each.field}") for each in error.problems
            ]
            continue
        read.append(OutcomeReport(outcome, call.caller.name, key_no=call.caller.actor_no))
    if problems:
        raise InvalidOutcome("The outcomes cannot be read.", problems)
    return read


async def _record(call: ApiCall, reports: Sequence[OutcomeReport]) -> list[dict[str, object]]:
    """Record outcomes; if their runs are too large for one statement, in halves."""
    began_at = monotonic()
    decisions = await settle_reports(
        call.connection,
        reports,
        call.caller.actor_no,
        by_key=True,
        tenants=call.tenants,
    )
    if decisions is None:
        half = len(reports) // 2
        return await _record(call, reports[:half]) + await _record(call, reports[half:])
    call.on_commit.append(partial(observe_ends, decisions, began_at))
    return [
        {
            "item": report.reported.item,
            "result": _result(decisions.reasons.get(place)),
            "lease_seconds": decisions.lease_seconds.get(decisions.run_nos.get(place, 0)),
        }
        for place, report in enumerate(reports)
    ]


def _result(reason: OutcomeRefusal | None) -> str:
    return "recorded" if reason is None else reason
