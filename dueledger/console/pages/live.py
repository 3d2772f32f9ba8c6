"""The stream that says to open pages what has changed."""

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from dueledger.console.page_routes import PageRoutes
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import HeldCall

read = PageRoutes(Scope.READ, "console", waits=True)


@read.page("/live")
async def stream_changes(_: HeldCall, request: Request) -> Response:
    """Send what changes as server-sent events, until the page is closed."""
    events = request.app.state.activity.stream()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, 200, headers, "text/event-stream")
