"""The intake as a process: its connections, its topics, and its loop."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from ledger.errors import Unavailable
from ledger.intake.service import Intake
from ledger.intake.settings import IntakeSettings
from ledger.log import LogEvent, get_logger
from ledger.service import Stop, run_service
from ledger.store import PlanProfile, open_pool
from ledger.store.actors import ActorKind, incarnation, register_actor

_STOP_SECONDS_MAX: Final = 5.0
_REJECT_BYTES_MAX: Final = 4 * 1024 * 1024 + 64 * 1024  # a large record and the reason
_FETCH_WAIT_MS = 100
_PAUSE_SECONDS = 0.01  # a poll waits for itself


@asynccontextmanager
async def open_intake(settings: IntakeSettings) -> AsyncGenerator[Intake]:
    """Have an intake under an actor name of its own, its topics made.

    Raises Unavailable when Postgres or Kafka cannot be reached.
    """
    name = incarnation(ActorKind.INTAKE)
    client = name.replace(":", "-")
    await make_topics(settings, client)
    consumer = AIOKafkaConsumer(
        settings.event_topic,
        bootstrap_servers=settings.bootstrap_servers,
        client_id=client,
        group_id=settings.intake_group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=int(settings.intake_session_seconds * 1000),
        heartbeat_interval_ms=int(settings.intake_session_seconds * 1000 / 3),
        fetch_max_wait_ms=_FETCH_WAIT_MS,
        isolation_level="read_committed",  # what an emitter's transaction took back never was
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=client,
        # Not idempotent: aiokafka 0.14 counts a record that the broker refuses as too large, and is
        # refused ever after as out of sequence. What was rejected may stand there twice.
        acks="all",
        max_request_size=_REJECT_BYTES_MAX,
    )
    async with open_pool(
        settings.dsn.get_secret_value(),
        application_name=name,
        size_max=2,
        # The arrays of a batch are joined to one another, and nested loops over them are
        # quadratic: landing 2,000 events takes 550 ms with them and 60 without.
        profile=PlanProfile.ANALYTIC,
    ) as pool:
        async with pool.acquire() as connection:
            actor_no = await register_actor(connection, name, ActorKind.INTAKE)
        async with _started(consumer), _started(producer):
            log = get_logger("intake")
            log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
            yield Intake(pool, consumer, producer, settings=settings, actor_no=actor_no)
            log.info(LogEvent.PROCESS_STOPPED, actor=name)


@asynccontextmanager
async def _started(client: AIOKafkaConsumer | AIOKafkaProducer) -> AsyncGenerator[None]:
    """Start and stop a client.

    Where the broker is gone its stop waits for it without end, or ends as a fetch it cancelled.
    """
    await client.start()
    try:
        yield
    finally:
        stopping = asyncio.create_task(client.stop())
        await asyncio.wait([stopping], timeout=_STOP_SECONDS_MAX)
        if not stopping.done():
            stopping.cancel()
        elif not stopping.cancelled():
            stopping.result()


async def run_intake(settings: IntakeSettings, stop: Stop) -> None:
    """Take events in until a stop is asked for. Any number of processes may."""
    async with open_intake(settings) as intake:
        await run_service("intake", intake.tick, stop=stop, idle_seconds=_PAUSE_SECONDS)


async def make_topics(settings: IntakeSettings, client: str) -> None:
    """Make the two topics where they are missing.

    The list is read first: asking for the metadata of an unknown topic makes a broker create it
    with partitions of its own choosing.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers, client_id=client)
    try:
        await admin.start()
        wanted = {settings.event_topic, settings.rejected_topic}
        missing = sorted(wanted - set(await admin.list_topics()))
        if missing:
            # One that another process makes at the same moment is answered as existing.
            await admin.create_topics(
                [
                    NewTopic(topic, settings.topic_partitions, settings.topic_replication)
                    for topic in missing
                ]
            )
    except (KafkaError, OSError, TimeoutError) as error:
        message = (
            f"Kafka cannot be used: {type(error).__name__}. Check DUELEDGER_BOOTSTRAP_SERVERS "
            "and that the brokers are up; `dueledger doctor` says more."
        )
        raise Unavailable(message, service="kafka") from error
    finally:
        await admin.close()
