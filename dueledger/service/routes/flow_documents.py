"""What routes of flows and pauses take and answer."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dueledger.service.bodies import RequestBody
from dueledger.service.pages import Page
from dueledger.service.routes.definition_documents import PauseRequest
from dueledger.service.routes.fields import Lane, Name, Number, Reason
from dueledger.service.routes.flow_counts import FALL_DUE_MAX


class FlowLimitsDocument(BaseModel):
    """The limits of a flow; null: none."""

    tenant: str
    kind: str
    lane: str
    weight: int
    rate_per_second: float | None
    concurrency_max: int | None
    window_items: int | None
    retry_share: float
    circuit_failure_ratio: float | None
    circuit_calls_min: int
    circuit_window_seconds: float
    circuit_rest_seconds: float
    lag_target_seconds: float | None


class FlowDocument(FlowLimitsDocument):
    """A flow: its limits, what limits it now, and its waiting items, counted up to 10,000."""

    circuit: str | None
    circuit_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    topic: str
    dispatch: str
    tokens: float | None
    due: int
    due_capped: bool
    later: int
    later_capped: bool
    retries: int
    retries_capped: bool
    serial: int
    serial_capped: bool
    available_since: Annotated[
        datetime | None,
        Field(description="since when the item that waits longest may be claimed"),
    ]
    in_flight: Annotated[
        int | None,
        Field(description="items handed out and running; null: no limit of the flow counts them"),
    ]
    slowed_share: Annotated[
        float | None,
        Field(
            description="the share of the time in which this flood is claimed, because another flow"
            " is later than its lag target; null: it is not slowed"
        ),
    ]
    slowed_since: datetime | None
    slowed_by: Annotated[
        str | None, Field(description="the flow that was late; empty: a flood begins slowly")
    ]
    slowed_lag_seconds: float | None
    slowed_lag_target_seconds: float | None
    ended_per_second: Annotated[
        float | None,
        Field(
            description="items that ended a second, in the last minutes in which a page of the"
            " console was open; null: it was not measured"
        ),
    ]


class FlowDetails(FlowDocument):
    """A flow, with what falls due in it."""

    next_due_at: Annotated[
        datetime | None,
        Field(description="when its next item is available that is not due yet; null: none waits"),
    ]
    falls_due: Annotated[
        int | None,
        Field(
            description="items in the ledger that fall due until `until`, counted up to"
            f" {FALL_DUE_MAX:,}; null without it. Schedules may emit more"
        ),
    ]
    falls_due_capped: bool | None


class FlowPage(Page[FlowDocument]):
    """A page of flows."""


class FlowLimitsChange(RequestBody):
    """Limits to change. An absent one stays; null removes it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"lane": "", "rate_per_second": 50, "window_items": None}]},
    )

    lane: Annotated[Lane | None, Field(description="empty: the default lane; null: every lane")] = (
        ""
    )
    weight: Number | None = None
    rate_per_second: Number | None = None
    concurrency_max: Number | None = None
    window_items: Number | None = None
    retry_share: Number | None = None
    circuit_failure_ratio: Number | None = None
    circuit_calls_min: Number | None = None
    circuit_window_seconds: Number | None = None
    circuit_rest_seconds: Number | None = None
    lag_target_seconds: Number | None = None
    reason: Annotated[Reason | None, Field(description="why, for the audit")] = None


class ChangedFlows(BaseModel):
    """The flows whose limits changed."""

    flows: list[FlowLimitsDocument]


class PauseDocument(BaseModel):
    """A pause in force: by whom, why and until when. Null means all; no end: a person ends it."""

    tenant: str
    kind: str | None
    lane: str | None
    paused_at: datetime
    paused_by: str
    paused_until: datetime | None
    reason: str
    fell_due: Annotated[
        int | None,
        Field(
            description="items that wait and fell due since it began, counted up to"
            f" {FALL_DUE_MAX:,}; null: not counted"
        ),
    ]
    fell_due_capped: bool | None


class PausePage(Page[PauseDocument]):
    """A page of the pauses in force, the oldest first."""


class _FlowsOfTenant(RequestBody):
    kind: Name | None = None
    lane: Annotated[Lane | None, Field(description="empty: the default lane")] = None


class FlowsRequest(_FlowsOfTenant):
    """Flows of a tenant, at which rate and why they go on. Null means all."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"kind": "PolicyRenewalDue"}]})

    rate_per_second: Annotated[
        Number | None,
        Field(
            description="items of each of these flows a second, at most, from now on; null: as the"
            " limits are"
        ),
    ] = None
    reason: Annotated[Reason | None, Field(description="why, for the audit")] = None


class FlowsPauseRequest(PauseRequest, _FlowsOfTenant):
    """Flows to pause, why, and until when."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"kind": "PolicyRenewalDue", "reason": "INC-1234: the archive is down"}]
        },
    )
