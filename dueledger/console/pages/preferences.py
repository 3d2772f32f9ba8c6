"""How pages are shown: theme and zone, which the browser keeps."""

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from dueledger.console.forms import SMALL_FORM_BYTES, FormHost, check_form, read_fields
from dueledger.console.sessions import set_cookie
from dueledger.console.view import THEMES, ZONES, own_address, redirect

if TYPE_CHECKING:
    from dueledger.service.settings import ServiceSettings

routes = APIRouter(include_in_schema=False)

_YEAR_SECONDS: Final = 31_536_000


@routes.post("/preferences")
async def choose(request: Request) -> Response:
    """Keep what the form chooses, and lead back to the page that had it."""
    host: FormHost = request.app.state.calls
    given = read_fields(await host.read_bytes(request, SMALL_FORM_BYTES))
    check_form(request, given)
    fields = dict(given)
    response = redirect(own_address(request, fields.get("to", "")))
    settings: ServiceSettings = request.app.state.settings
    zones = {*ZONES, *settings.service_zones.values()}
    for name, choices in (("theme", THEMES), ("zone", zones)):
        if fields.get(name) in choices:
            set_cookie(request, response, name, fields[name], seconds=_YEAR_SECONDS)
    return response
