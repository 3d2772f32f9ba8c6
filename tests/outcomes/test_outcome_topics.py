"""A definition may name the topic from which alone outcomes of its items are accepted."""

from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer

from dueledger.ledger.kafka.rejects import ConsumedRecord
from dueledger.ledger.kafka.topic_intake import TopicIntake
from dueledger.ledger.kafka.topic_reader import ReaderOptions, open_reader
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.states import State
from dueledger.ledger.store import Pool
from dueledger.workers.outcomes import OutcomeIntakeSettings
from dueledger.workers.outcomes.process import OutcomeTopics
from dueledger.workers.outcomes.record import OutcomeRecorder

from .conftest import OUTCOME_TOPIC, WorkTopic

NAMED = "outcomes.letters"


def _on(topic: str, record: ConsumedRecord) -> ConsumedRecord:
    return replace(record, topic=topic)


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize(("named", "other"), [(NAMED, OUTCOME_TOPIC), (None, NAMED)])
async def test_g4_outcomes_of_a_kind_are_accepted_from_its_topic_alone(
    topic: WorkTopic, named: str | None, other: str, *, published: bool
) -> None:
    await topic.put_policy(outcome_topic=named)
    (handed,) = await topic.emit_and_claim(published=published)
    (before,) = await topic.states()

    forged = await topic.take(_on(other, handed.outcome()))

    assert (forged.settled, forged.refused) == (0, 1)
    (rejected,) = forged.rejected
    assert rejected.error.problems[0].field == "topic"
    assert await topic.refused() == [("wrong_topic", "completed")]
    assert await topic.states() == [before]
    honest = await topic.take(_on(named or OUTCOME_TOPIC, handed.outcome()))
    assert (honest.settled, honest.refused) == (1, 0)
    assert await topic.states() == [State.COMPLETED]


async def test_a_topic_that_a_definition_names_later_is_made_and_read(
    topic: WorkTopic, settings: OutcomeIntakeSettings, pool: Pool, kind: str
) -> None:
    named = f"outcomes.{kind}"
    options = ReaderOptions(
        topic=settings.outcome_topic,
        rejected_topic=settings.rejected_topic,
        group=settings.outcome_group,
        session_seconds=settings.outcome_session_seconds,
        poll_seconds=settings.outcome_poll_seconds,
        records_max=settings.outcome_batch_records,
    )
    async with open_reader(settings, options, client="test") as reader:
        topics = OutcomeTopics(settings, pool, reader, client="test")
        assert await topics.tick() == {}
        await topic.put_policy(outcome_topic=named)
        assert await topics.tick() == {"topics": 2}
        assert await topics.tick() == {}
        handed = await topic.emit_and_claim(20)
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
            for one in handed:
                record = one.outcome()
                headers = [(name, value or b"") for name, value in record.headers]
                await producer.send(named, record.value, record.key, headers=headers)
        recorder = OutcomeRecorder(
            pool, actor_no=topic.actor_no, outcome_topic=settings.outcome_topic
        )
        intake = TopicIntake("outcomes", reader, recorder, rejected_event=LogEvent.RECORD_REJECTED)
        settled = 0
        while settled < len(handed):
            settled += (await intake.tick())["settled"]
    assert await topic.states() == [State.COMPLETED]
