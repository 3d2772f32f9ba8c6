"""The service and its console inside another web application, which has the socket."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from dueledger.console.app import open_console
from dueledger.ledger.runtime.setting_problems import read_settings, require_known
from dueledger.service.application import open_application
from dueledger.service.settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp

_OF_THE_PROGRAM: Final = {
    *("service_host", "service_port", "service_path_prefix", "service_drain_seconds"),
    *("service_certificate", "service_certificate_key"),
}
"""Settings of the socket, which the program has."""


@asynccontextmanager
async def open_app(*, dsn: str | None = None, **settings: object) -> AsyncGenerator[ASGIApp]:
    """Have the REST service and the console as an ASGI application, for the block.

    Mount it under any path: `host.mount("/due", app)` of Starlette and FastAPI. Other keywords are
    settings of `dueledger serve`, as `service_session_hours=8.0`; what is not given is read from
    DUELEDGER_… variables. Those of the socket are the program's, and none here.

    Entry waits until Postgres is connected. The end of the block ends the streams of pages and long
    polls, and closes the connections.

    Raises InvalidSetting for settings, Unavailable without Postgres, and NotPermitted if the login
    is no service.
    """
    require_known(settings, ServiceSettings.model_fields.keys() - _OF_THE_PROGRAM)
    read = read_settings(ServiceSettings, dsn=dsn, **settings)
    async with open_application(read, open_console) as opened:
        try:
            yield opened.entry
        finally:
            opened.close()
