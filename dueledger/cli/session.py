"""What a command needs to do its work: settings, a connection, a person's name in the journal."""

import asyncio
import getpass
import os
import re
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import SettingsError

from dueledger.cli.output import messages
from dueledger.dev.supervisor import SUPERVISED
from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.runtime.memory import tune_memory
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import Connection, PlanProfile, connect
from dueledger.ledger.store.actors import ActorKind, register_actor

_SETTING = re.compile(r'field "(\w+)"')

_ACCEPTED = {
    "dsn": "postgresql://user:password@host:port/name",
    "bootstrap_servers": "host:port, or several with commas between them",
    "worker_topics": '["due.PolicyRenewalDue"]',
}

_S = TypeVar("_S", bound=Settings)
_T = TypeVar("_T")


def run(work: Coroutine[object, object, _T]) -> _T:
    """Run a command's work on the fastest event loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def read_settings(settings: type[_S], **options: object) -> _S:
    """Read settings from the environment; an option that was given stands above it."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return settings(**given)  # pyright: ignore[reportArgumentType] - fields are checked by pydantic
    except ValidationError as error:
        problems = [
            _problem(found["loc"], found["msg"]) for found in error.errors(include_input=False)
        ]
        raise InvalidSetting("Settings are missing or wrong:", problems) from None
    except SettingsError as error:
        named = _SETTING.search(str(error))
        problem = _problem((named[1] if named else "",), "it is not JSON, as a list must be")
        raise InvalidSetting("Settings are missing or wrong:", [problem]) from None


def _problem(location: tuple[int | str, ...], reason: str) -> Problem:
    """Name the variable, and never the value: it may be a secret."""
    name = "_".join(map(str, location))
    variable = f"DUELEDGER_{name.removeprefix('DUELEDGER_').removeprefix('dueledger_')}".upper()
    return Problem(variable, "", reason, _ACCEPTED.get(name))


@asynccontextmanager
async def ledger_connection(dsn: str | None) -> AsyncGenerator[Connection]:
    """Open a connection for a person who looks around or decides."""
    settings = read_settings(Settings, dsn=dsn)
    connection = await connect(
        settings.dsn.get_secret_value(),
        application_name="dueledger-cli",
        profile=PlanProfile.ANALYTIC,
    )
    try:
        yield connection
    finally:
        await connection.close()


async def register_person(connection: Connection) -> int:
    """Return the number of the person at this terminal, who stands in the journal by name."""
    name = os.environ.get("DUELEDGER_ACTOR") or _system_user()
    return await register_actor(connection, f"person:{name}", ActorKind.PERSON)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container that runs under a bare number
        problem = Problem("DUELEDGER_ACTOR", "", "the system's user has no name", "jane.doe")
        raise InvalidSetting("The journal asks who decides:", [problem]) from None


@asynccontextmanager
async def process_stop() -> AsyncGenerator[Stop]:
    """Give a process its stop: SIGTERM, Ctrl-C, or the end of the supervisor that started it."""
    configure(json=not messages.is_terminal and SUPERVISED not in os.environ)
    tune_memory()
    stop = Stop()
    stop.on_signals()
    orphaned = asyncio.create_task(_stop_when_orphaned(stop)) if SUPERVISED in os.environ else None
    try:
        yield stop
    finally:
        if orphaned is not None:
            orphaned.cancel()
            with suppress(asyncio.CancelledError):
                await orphaned


async def _stop_when_orphaned(stop: Stop) -> None:
    """Wait for the supervisor's end of standard input to close."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while await reader.read(1024):
            pass
        stop.request()
    finally:
        transport.close()
