"""The console as an application below the service: its pages, its problems, its headers."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute, Route

from dueledger.console.activity import READ_SECONDS, LedgerActivity
from dueledger.console.assets import serve_asset
from dueledger.console.forms import FormHost
from dueledger.console.headers import SecurityHeaders
from dueledger.console.overview import REFRESH_SECONDS, OverviewRefresh
from dueledger.console.page_routes import PATH
from dueledger.console.pages import (
    audit,
    badges,
    finding_decisions,
    findings,
    flow_pauses,
    flows,
    issuer_sign_in,
    items,
    live,
    now,
    operation_preview,
    operations,
    past_calendar,
    preferences,
    reconciliation,
    reviews,
    runbook,
    schedule_calendar,
    schedule_editor,
    schedule_import,
    schedule_pauses,
    schedules,
    search,
    sign_in,
    system,
    taken_findings,
    taken_reviews,
)
from dueledger.console.sessions import SessionCallers
from dueledger.console.view import View, redirect
from dueledger.ledger.runtime.service import Stop, run_service
from dueledger.service.admission import ConnectionShares
from dueledger.service.app import ServiceApp
from dueledger.service.callers import Callers
from dueledger.service.problems import ProblemDocument, answer_document, handle_errors
from dueledger.service.settings import ServiceSettings

PAGES: Final[Sequence[BaseRoute]] = [
    *now.read.routes,
    *items.read.routes,
    *items.operate.routes,
    *schedules.read.routes,
    *schedules.operate.routes,
    *schedule_pauses.operate.routes,
    *schedule_calendar.read.routes,
    *past_calendar.read.routes,
    *schedule_editor.operate.routes,
    *schedule_import.operate.routes,
    *search.read.routes,
    *flows.read.routes,
    *flows.operate.routes,
    *flow_pauses.operate.routes,
    *operations.read.routes,
    *operations.operate.routes,
    *operations.approve.routes,
    *reviews.read.routes,
    *operation_preview.operate.routes,
    *taken_reviews.operate.routes,
    *reconciliation.audit.routes,
    *reconciliation.download.routes,
    *findings.audit.routes,
    *finding_decisions.approve.routes,
    *taken_findings.approve.routes,
    *audit.audit.routes,
    *system.read.routes,
    *system.operate.routes,
    *runbook.read.routes,
    *badges.read.routes,
    *live.read.routes,
]
"""Pages and actions under the scope of a key, in the order of the navigation."""


@asynccontextmanager
async def open_console(
    app: ServiceApp, connections: ConnectionShares, callers: Callers, settings: ServiceSettings
) -> AsyncGenerator[LedgerActivity]:
    """Mount the console at `PATH` for the block. What it yields ends the streams of pages."""
    host = FormHost(
        connections,
        SessionCallers(connections, callers),
        body_bytes_max=settings.service_body_bytes_max,
        body_seconds=settings.service_body_seconds,
    )
    console = FastAPI(routes=list(PAGES), openapi_url=None, docs_url=None, redoc_url=None)
    console.state.calls = host
    console.state.callers = callers
    console.state.cursors = app.state.cursors
    console.state.settings = settings
    activity = LedgerActivity(host.lend)
    console.state.activity = activity
    console.include_router(sign_in.routes)
    console.include_router(issuer_sign_in.routes)
    console.include_router(preferences.routes)
    console.router.routes.append(
        Route("/assets/{name}", serve_asset, middleware=[Middleware(GZipMiddleware)])
    )
    console.add_middleware(SecurityHeaders)
    handle_errors(console, _answer_problem)
    app.add_route("/", _to_console, methods=["GET"], include_in_schema=False)
    app.mount(PATH, console)
    stop = Stop()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            run_service("console.activity", activity.tick, stop=stop, idle_seconds=READ_SECONDS)
        )
        overview = OverviewRefresh(activity)
        tasks.create_task(
            run_service("console.overview", overview.tick, stop=stop, idle_seconds=REFRESH_SECONDS)
        )
        try:
            yield activity
        finally:
            stop.request()
            activity.close()


async def _to_console(request: Request) -> Response:
    return redirect(f"{request.scope['root_path']}{PATH}/")


def _answer_problem(
    request: Request, problem: ProblemDocument, headers: Mapping[str, str]
) -> Response:
    """Answer with a page; who has no session is sent to where one is opened."""
    if "text/html" not in request.headers.get("accept", ""):
        return answer_document(request, problem, headers)
    if problem.status == HTTPStatus.UNAUTHORIZED and request.method == "GET":
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return redirect(f"{request.scope['root_path']}/sign-in?to={quote(here, safe='')}")
    view = View.of(request)
    response = view.page("problem.html", title=problem.title, problem=problem)
    response.status_code = problem.status
    response.headers.update(
        {name: value for name, value in headers.items() if name == "Retry-After"}
    )
    return response
