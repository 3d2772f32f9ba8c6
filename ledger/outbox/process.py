"""The relay as a process: its connections, its presence, and its loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from dueledger.ledger.outbox.listener import OutboxListener
from dueledger.ledger.outbox.relay import Relay
from dueledger.ledger.outbox.settings import RelaySettings
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.processes import ProcessRole


@asynccontextmanager
async def open_relay(settings: RelaySettings, *, stop: Stop | None = None) -> AsyncGenerator[Relay]:
    """Connect a relay. Its items are the login's; its own actor is in its row of `process` alone.

    Raises Unavailable if either Postgres cannot be reached, NotPermitted if the login of the ledger
    is no relay.
    """
    name, dsn = incarnation(ActorKind.RELAY), settings.dsn.get_secret_value()
    async with (
        open_pool(
            settings.outbox_dsn.get_secret_value(), application_name=name, size_max=1
        ) as outbox,
        open_pool(dsn, application_name=name, size_max=1, roles=("relay",)) as ledger,
        open_presence(dsn, name, ProcessRole.RELAY, stop=stop) as presence,
    ):
        log = get_logger("relay")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=presence.process_no)
        listener = OutboxListener(settings.outbox_dsn.get_secret_value(), name)
        try:
            yield Relay(
                outbox,
                ledger,
                listener,
                batch_items_max=settings.relay_batch_items_max,
                idle_seconds=settings.relay_idle_seconds,
                stop=stop or Stop(),
                presence=presence,
            )
        finally:
            await listener.close()
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_relay(settings: RelaySettings, stop: Stop) -> None:
    """Carry rows until a stop is requested. Any number of processes may run."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: RelaySettings, stop: Stop) -> None:
    async with open_relay(settings, stop=stop) as relay:
        stop.mark_started()
        await run_service("relay", relay.tick, stop=stop, idle_seconds=relay.wait_for_rows)
