"""A process started by a command: its event loop, its settings, and the signals that stop it."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsError

from dueledger.cli.session import DSN_ACCEPTED
from dueledger.dev.supervisor import SUPERVISED
from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.runtime.memory import tune_memory
from dueledger.ledger.runtime.service import Stop

_SETTING: Final = re.compile(r'field "(\w+)"')

_ACCEPTED: Final = {
    "dsn": DSN_ACCEPTED,
    "bootstrap_servers": "host:port, or several with commas between them",
    "worker_topics": '["due.PolicyRenewalDue"]',
    "topic_tenants": '{"acme.": "acme"}',
}

_S = TypeVar("_S", bound=BaseSettings)
_T = TypeVar("_T")


def run_process(work: Coroutine[object, object, _T]) -> _T:
    """Run the work of a process, on uvloop where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def read_settings(settings: type[_S], **options: object) -> _S:
    """Read settings from the environment; options override it."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return settings(**given)  # pyright: ignore[reportArgumentType] - fields are checked by pydantic
    except ValidationError as error:
        problems = [_problem_of(found) for found in error.errors(include_input=False)]
        raise InvalidSetting("Settings are missing or wrong:", problems) from None
    except SettingsError as error:
        named = _SETTING.search(str(error))
        setting = named[1] if named else ""
        problem = _problem((setting,), "it is not JSON, as a list or a map must be")
        raise InvalidSetting("Settings are missing or wrong:", [problem]) from None


def _problem_of(found: ErrorDetails) -> Problem:
    context = found.get("ctx", {})
    if "variable" in context:  # settings that contradict each other
        return Problem(context["variable"], "", context["reason"], context["accepted"])
    return _problem(found["loc"], found["msg"])


def _problem(location: tuple[int | str, ...], reason: str) -> Problem:
    """Name the variable, not the value, which may be a secret."""
    name = str(location[0]) if location else ""
    variable = f"DUELEDGER_{name.removeprefix('DUELEDGER_').removeprefix('dueledger_')}".upper()
    return Problem(variable, "", reason, _ACCEPTED.get(name))


@asynccontextmanager
async def process_stop() -> AsyncGenerator[Stop]:
    """Return the stop of a process: SIGTERM, Ctrl-C, or the end of its supervisor."""
    configure(json=not sys.stderr.isatty() and SUPERVISED not in os.environ)
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
    """Request a stop when the supervisor closes standard input."""
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
