"""The intake process: its connections, its topics, and its loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from dueledger.ledger.intake.event_recorder import EventRecorder
from dueledger.ledger.intake.settings import EventIntakeSettings
from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.kafka.topic_reader import ReaderOptions, open_reader
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.processes import ProcessRole

_PAUSE_SECONDS: Final = 0.01  # each poll waits for events itself


@asynccontextmanager
async def open_intake(
    settings: EventIntakeSettings, stop: Stop | None = None
) -> AsyncGenerator[TopicIntake]:
    """Open an intake under its own actor name, and create its topics.

    Raises Unavailable if Postgres or Kafka cannot be reached.
    """
    name = incarnation(ActorKind.INTAKE)
    options = ReaderOptions(
        topic=settings.event_topic,
        rejected_topic=settings.rejected_topic,
        group=settings.intake_group,
        session_seconds=settings.intake_session_seconds,
        poll_seconds=settings.intake_poll_seconds,
        records_max=settings.intake_batch_events,
    )
    dsn = settings.dsn.get_secret_value()
    async with (
        open_pool(
            dsn,
            application_name=name,
            size_max=2,
            roles=("intake",),
            # A batch's arrays are joined to each other, and nested loops over them are quadratic:
            # recording 2,000 events takes 550 ms with them and 60 without.
            profile=PlanProfile.ANALYTIC,
        ) as pool,
        open_presence(dsn, name, ProcessRole.INTAKE, stop=stop) as presence,
        open_reader(settings, options, client=name.replace(":", "-")) as reader,
    ):
        actor_no = presence.process_no
        log = get_logger("intake")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
        recorder = EventRecorder(pool, actor_no=actor_no)
        yield TopicIntake("intake", reader, recorder, rejected_event=LogEvent.EVENT_REJECTED)
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_intake(settings: EventIntakeSettings, stop: Stop) -> None:
    """Run the intake until a stop is requested. Any number of processes may run it."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: EventIntakeSettings, stop: Stop) -> None:
    async with open_intake(settings, stop) as intake:
        stop.mark_started()
        await run_service("intake", intake.tick, stop=stop, idle_seconds=_PAUSE_SECONDS)
