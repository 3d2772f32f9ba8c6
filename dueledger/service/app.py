"""The application: its routes, how errors are answered, and its OpenAPI document."""

from collections.abc import Sequence
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from dueledger.service.calls import CallHost
from dueledger.service.cursors import CursorSeal
from dueledger.service.examples import add_examples
from dueledger.service.problems import handle_errors
from dueledger.service.pull_queue import PullQueue
from dueledger.service.readiness import Readiness
from dueledger.service.routes import (
    audit,
    calendars,
    claims,
    completeness,
    definitions,
    events,
    findings,
    flows,
    health,
    items,
    keys,
    lateness,
    load,
    operations,
    outcomes,
    overview,
    past_load,
    reports,
    reviews,
    schedule_import,
    search,
    status,
    system,
    taken_findings,
    throughput,
)
from dueledger.service.scoped_routes import SECURITY_SCHEMES

_DESCRIPTION = (
    "What a business owes and when, whether it happened, and if not, why. Errors are problem "
    "documents (RFC 9457); their `code` is that of the command line."
)


ROUTES: Final[Sequence[BaseRoute]] = [
    *health.routes.routes,
    *items.read.routes,
    *items.emit.routes,
    *definitions.read.routes,
    *definitions.operate.routes,
    *schedule_import.operate.routes,
    *calendars.read.routes,
    *calendars.operate.routes,
    *events.emit.routes,
    *keys.admin.routes,
    *claims.work.routes,
    *outcomes.work.routes,
    *reviews.read.routes,
    *reviews.operate.routes,
    *operations.read.routes,
    *operations.approve.routes,
    *operations.operate.routes,
    *flows.read.routes,
    *flows.operate.routes,
    *throughput.read.routes,
    *overview.read.routes,
    *status.read.routes,
    *past_load.read.routes,
    *lateness.read.routes,
    *load.read.routes,
    *search.read.routes,
    *completeness.audit.routes,
    *taken_findings.audit.routes,
    *taken_findings.approve.routes,
    *findings.audit.routes,
    *findings.approve.routes,
    *audit.audit.routes,
    *reports.audit.routes,
    *reports.download.routes,
    *system.read.routes,
    *system.operate.routes,
]
"""All, in the order of the OpenAPI document."""


class ServiceApp(FastAPI):
    """The routes of the service, on the calls of a host and a queue of long polls."""

    def __init__(
        self, calls: CallHost, pulls: PullQueue, readiness: Readiness, cursors: CursorSeal
    ) -> None:
        super().__init__(
            title="Dueledger",
            version="1",
            description=_DESCRIPTION,
            routes=list(ROUTES),
            docs_url=None,  # its page loads a script from elsewhere
            redoc_url=None,
        )
        self.state.calls = calls
        self.state.pulls = pulls
        self.state.readiness = readiness
        self.state.cursors = cursors
        handle_errors(self)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, computed once."""
        if self.openapi_schema is None:
            schema = get_openapi(
                title=self.title,
                version=self.version,
                description=self.description,
                routes=self.routes,
            )
            _remove_titles(schema["paths"])
            _remove_titles(schema["components"])
            add_examples(schema)
            schema["components"]["securitySchemes"] = SECURITY_SCHEMES
            self.openapi_schema = schema
        return self.openapi_schema


def _remove_titles(part: object) -> None:
    """Remove the titles that are names written otherwise; a member may be named `title`."""
    if isinstance(part, dict):
        members = cast("dict[str, object]", part)
        if isinstance(members.get("title"), str):
            del members["title"]
        for member in members.values():
            _remove_titles(member)
    elif isinstance(part, list):
        for element in cast("list[object]", part):
            _remove_titles(element)
