"""The outcome intake's process: its connections, its topics, and its loop."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, final

from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.kafka.topic_reader import ReaderOptions, TopicReader, open_reader
from dueledger.ledger.kafka.topics import make_topics
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import Pool, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.cells import lift_sequences
from dueledger.ledger.store.kinds import list_outcome_topics
from dueledger.ledger.store.processes import ProcessRole
from dueledger.workers.outcomes.record import OutcomeRecorder
from dueledger.workers.outcomes.settings import OutcomeIntakeSettings

_PAUSE_SECONDS: Final = 0.01  # each poll waits for outcomes itself
_TOPICS_SECONDS: Final = 5.0


@final
class OutcomeTopics:
    """Lets a reader read the topics that definitions name for outcomes, beside its first."""

    def __init__(
        self, settings: OutcomeIntakeSettings, pool: Pool, reader: TopicReader, *, client: str
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._reader = reader
        self._client = client

    async def tick(self) -> dict[str, int]:
        """Compare the topics; create and read new ones."""
        async with self._pool.acquire() as connection:
            named = await list_outcome_topics(connection)
        topics = frozenset({self._settings.outcome_topic, *named})
        if topics == self._reader.topics:
            return {}
        await make_topics(self._settings, topics, client=self._client, role="outcomes")
        self._reader.subscribe(topics)
        return {"topics": len(topics)}


@asynccontextmanager
async def open_outcome_intake(settings: OutcomeIntakeSettings) -> AsyncGenerator[TopicIntake]:
    """Open an outcome intake under its own actor name, and create its topics.

    Raises Unavailable if Postgres or Kafka cannot be reached.
    """
    async with _open(settings) as (intake, _):
        yield intake


@asynccontextmanager
async def _open(
    settings: OutcomeIntakeSettings, stop: Stop | None = None
) -> AsyncGenerator[tuple[TopicIntake, OutcomeTopics]]:
    name = incarnation(ActorKind.WORKER)
    client = name.replace(":", "-")
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
        open_pool(
            dsn,
            application_name=name,
            size_max=2,
            roles=("outcome_intake",),
            before_use=lift_sequences,
        ) as pool,
        open_presence(dsn, name, ProcessRole.OUTCOME_INTAKE, stop=stop) as presence,
        open_reader(settings, options, client=client) as reader,
    ):
        actor_no = presence.process_no
        log = get_logger("outcomes")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
        topics = OutcomeTopics(settings, pool, reader, client=client)
        await topics.tick()
        recorder = OutcomeRecorder(pool, actor_no=actor_no, outcome_topic=settings.outcome_topic)
        intake = TopicIntake("outcomes", reader, recorder, rejected_event=LogEvent.RECORD_REJECTED)
        yield intake, topics
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_outcome_intake(settings: OutcomeIntakeSettings, stop: Stop) -> None:
    """Record outcomes until a stop is requested. Any number of processes may run."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: OutcomeIntakeSettings, stop: Stop) -> None:
    async with _open(settings, stop) as (intake, topics), asyncio.TaskGroup() as both:
        stop.mark_started()
        both.create_task(
            run_service("outcomes", intake.tick, stop=stop, idle_seconds=_PAUSE_SECONDS)
        )
        both.create_task(
            run_service("outcomes.topics", topics.tick, stop=stop, idle_seconds=_TOPICS_SECONDS)
        )
