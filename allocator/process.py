"""The allocator's process: its connections, its services, and its end."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import asynccontextmanager

from dueledger.allocator.allocator import Allocator
from dueledger.allocator.publish import Publisher, PublisherOptions
from dueledger.allocator.settings import AllocatorSettings
from dueledger.ledger.flows.shares import FlowLoad
from dueledger.ledger.gauges import READ_SECONDS
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.metrics import METRICS
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Signals, Stop, run_service, run_to_stop
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.cells import lift_sequences
from dueledger.ledger.store.processes import ProcessRole

CONNECTIONS_MAX = 8


@asynccontextmanager
async def open_allocator(
    settings: AllocatorSettings, *, stop: Stop, signals: Signals | None = None
) -> AsyncGenerator[Allocator]:
    """Open an allocator under a new actor name; drain it at the end.

    Raises Unavailable when Postgres cannot be reached. Kafka is only needed once items are due, but
    a file that its settings name is missed at once: raises InvalidSetting.
    """
    client_arguments(settings)
    name = incarnation(ActorKind.ALLOCATOR)
    dsn = settings.dsn.get_secret_value()
    async with (
        open_pool(
            dsn,
            application_name=name,
            size_max=CONNECTIONS_MAX,
            roles=("allocator", "upkeep"),
            before_use=lift_sequences,
        ) as pool,
        open_presence(dsn, name, ProcessRole.ALLOCATOR, does_upkeep=True, stop=stop) as presence,
    ):
        allocator_no = presence.process_no
        publishers = {load: Publisher(_options(settings, name), stop=stop) for load in FlowLoad}
        allocator = Allocator(
            pool, publishers, settings, presence=presence, stop=stop, signals=signals
        )
        log = get_logger("allocator")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=allocator_no)
        try:
            yield allocator
            await allocator.drain()
        finally:
            for publisher in publishers.values():
                await publisher.stop()
            log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_allocator(settings: AllocatorSettings, stop: Stop) -> None:
    """Run an allocator until a stop is requested; then finish or release claims in flight."""
    await run_to_stop(
        lambda: _run(settings, stop), stop, drain_seconds=settings.allocator_drain_seconds
    )


async def _run(settings: AllocatorSettings, stop: Stop) -> None:
    async with open_allocator(settings, stop=stop) as allocator:
        stop.mark_started()
        with METRICS.source(allocator.gauges.samples):
            await asyncio.gather(*_services(allocator, settings, stop))


def _services(
    allocator: Allocator, settings: AllocatorSettings, stop: Stop
) -> Iterator[Coroutine[object, object, None]]:
    yield run_service(
        "allocator", allocator.serve, stop=stop, idle_seconds=allocator.wait_for_items
    )
    yield run_service(
        "allocator.upkeep",
        allocator.run_upkeep,
        stop=stop,
        idle_seconds=allocator.upkeep.pause_seconds,
    )
    yield run_service(
        "allocator.check_items",
        allocator.item_check.tick,
        stop=stop,
        idle_seconds=allocator.item_check.pause_seconds,
    )
    if settings.metrics_port is not None:
        yield run_service(
            "allocator.measure", allocator.gauges.tick, stop=stop, idle_seconds=READ_SECONDS
        )


def _options(settings: AllocatorSettings, name: str) -> PublisherOptions:
    return PublisherOptions(
        kafka=settings,
        client_id=name.replace(":", "-"),
        batch_bytes_max=settings.allocator_batch_bytes_max,
        compression=settings.allocator_compression,
        request_seconds=settings.allocator_request_seconds,
        send_seconds=settings.allocator_send_seconds,
        drain_seconds=settings.allocator_drain_seconds,
    )
