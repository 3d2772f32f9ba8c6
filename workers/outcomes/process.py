"""The outcome intake's process: its connections, its topics, and its loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.kafka.topic_reader import ReaderOptions, open_reader
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation, register_actor
from dueledger.ledger.store.cells import lift_sequences
from dueledger.workers.outcomes.record import OutcomeRecorder
from dueledger.workers.outcomes.settings import OutcomeIntakeSettings

_PAUSE_SECONDS: Final = 0.01  # each poll waits for outcomes itself


@asynccontextmanager
async def open_outcome_intake(settings: OutcomeIntakeSettings) -> AsyncGenerator[TopicIntake]:
    """Open an outcome intake under its own actor name, and create its topics.

    Raises Unavailable if Postgres or Kafka cannot be reached.
    """
    name = incarnation(ActorKind.WORKER)
    options = ReaderOptions(
        topic=settings.outcome_topic,
        rejected_topic=settings.rejected_topic,
        group=settings.outcome_group,
        session_seconds=settings.outcome_session_seconds,
        poll_seconds=settings.outcome_poll_seconds,
        records_max=settings.outcome_batch_records,
    )
    dsn = settings.dsn.get_secret_value()
    async with (
        open_pool(dsn, application_name=name, size_max=2, before_use=lift_sequences) as pool,
        open_reader(settings, options, client=name.replace(":", "-")) as reader,
    ):
        async with pool.acquire() as connection:
            actor_no = await register_actor(connection, name, ActorKind.WORKER)
        log = get_logger("outcomes")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
        recorder = OutcomeRecorder(pool, actor_no=actor_no)
        yield TopicIntake("outcomes", reader, recorder, rejected_event=LogEvent.RECORD_REJECTED)
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_outcome_intake(settings: OutcomeIntakeSettings, stop: Stop) -> None:
    """Record outcomes until a stop is requested. Any number of processes may run."""
    await run_to_stop(_run(settings, stop), stop)


async def _run(settings: OutcomeIntakeSettings, stop: Stop) -> None:
    async with open_outcome_intake(settings) as intake:
        stop.mark_started()
        await run_service("outcomes", intake.tick, stop=stop, idle_seconds=_PAUSE_SECONDS)
