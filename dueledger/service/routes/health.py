"""Routes without a key: whether the service lives and can answer, its metrics, its problems."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from dueledger.failures import KINDS
from dueledger.ledger.metrics.exposition import MetricsPage
from dueledger.service.readiness import Readiness
from dueledger.service.scoped_routes import PROBLEMS

_metrics = MetricsPage(only_public=True)

routes = APIRouter(tags=["service"], responses={"default": PROBLEMS["default"]})


class ServiceHealth(BaseModel):
    """Whether the service can answer."""

    status: Literal["live", "ready"]


class ProblemKind(BaseModel):
    """What all problems of a code have."""

    code: str
    title: str
    status: int


async def _readiness_of(request: Request) -> Readiness:
    return request.app.state.readiness


@routes.get("/health/live", operation_id="getLiveness", summary="Whether the process lives")
async def get_liveness() -> ServiceHealth:
    """Answer while the process lives. If it does not, start it again."""
    return ServiceHealth(status="live")


@routes.get("/health/ready", operation_id="getReadiness", summary="Whether it can answer")
async def get_readiness(
    readiness: Annotated[Readiness, Depends(_readiness_of)],
) -> ServiceHealth:
    """Answer if the ledger can be read. If not, send requests to another process."""
    await readiness.check()
    return ServiceHealth(status="ready")


@routes.get(
    "/metrics",
    operation_id="getMetrics",
    summary="The metrics of the process",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(request: Request) -> Response:
    """Return what the process says of itself, in Prometheus's format.

    Nothing of the ledger: no tenant, kind or topic is named.
    """
    page, content_type = _metrics.render(request.headers.get("accept", ""))
    return Response(page, media_type=content_type)


@routes.get("/problems", operation_id="listProblems", summary="The codes of problems")
async def list_problems() -> list[ProblemKind]:
    """List the codes of all problems."""
    return [
        ProblemKind(code=code, title=kind.title, status=kind.status) for code, kind in KINDS.items()
    ]
