"""The relay as a process: its two connections, and its loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from dueledger.ledger.outbox.relay import Relay
from dueledger.ledger.outbox.settings import RelaySettings
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import open_pool

NAME: Final = "dueledger-relay"


@asynccontextmanager
async def open_relay(settings: RelaySettings) -> AsyncGenerator[Relay]:
    """Connect a relay. Its items are the login's: it has no actor of its own.

    Raises Unavailable if either Postgres cannot be reached, NotPermitted if the login of the ledger
    is no emitter.
    """
    async with (
        open_pool(
            settings.outbox_dsn.get_secret_value(), application_name=NAME, size_max=1
        ) as outbox,
        open_pool(
            settings.dsn.get_secret_value(), application_name=NAME, size_max=1, roles=("emitter",)
        ) as ledger,
    ):
        log = get_logger("relay")
        log.info(LogEvent.PROCESS_STARTED)
        yield Relay(outbox, ledger, batch_items_max=settings.relay_batch_items_max)
        log.info(LogEvent.PROCESS_STOPPED)


async def run_relay(settings: RelaySettings, stop: Stop) -> None:
    """Carry rows until a stop is requested. Any number of processes may run."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: RelaySettings, stop: Stop) -> None:
    async with open_relay(settings) as relay:
        stop.mark_started()
        await run_service("relay", relay.tick, stop=stop, idle_seconds=settings.relay_idle_seconds)
