"""How pages are shown: theme and zone, which the browser keeps."""

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from starlette.routing import Match

from dueledger.console.forms import SMALL_FORM_BYTES, FormHost, check_form, read_fields
from dueledger.console.sessions import set_cookie
from dueledger.console.view import THEMES, ZONES, own_address, redirect

if TYPE_CHECKING:
    from dueledger.service.settings import ServiceSettings

routes = APIRouter(include_in_schema=False)

_YEAR_SECONDS: Final = 31_536_000


@routes.post("/preferences")
async def choose(request: Request) -> Response:
    """Keep what the form chooses, and lead back to the page that had it, or to the one above."""
    host: FormHost = request.app.state.calls
    given = read_fields(await host.read_bytes(request, SMALL_FORM_BYTES))
    check_form(request, given)
    fields = dict(given)
    response = redirect(_page_near(request, own_address(request, fields.get("to", ""))))
    settings: ServiceSettings = request.app.state.settings
    zones = {*ZONES, *settings.service_zones.values()}
    for name, choices in (("theme", THEMES), ("zone", zones)):
        if fields.get(name) in choices:
            set_cookie(request, response, name, fields[name], seconds=_YEAR_SECONDS)
    return response


def _page_near(request: Request, address: str) -> str:
    """Return an address of the console; for one that only takes forms, the nearest page above."""
    root: str = request.scope["root_path"]
    path = address.partition("?")[0].removeprefix(root)
    if _is_page(request, path):
        return address
    while not _is_page(request, path):
        path = path.rpartition("/")[0] or "/"
    return f"{root}{path}"


def _is_page(request: Request, path: str) -> bool:
    """Return whether the route of a path is of a page; of several, the one that names it most."""
    scope = {**request.scope, "method": "GET", "path": f"{request.scope['root_path']}{path}"}
    found: list[tuple[int, bool]] = []
    for route in request.app.routes:
        match, own = route.matches(scope)
        if match is not Match.NONE:
            found.append((len(own["path_params"]), match is Match.PARTIAL))
    return path == "/" or (bool(found) and not min(found)[1])
