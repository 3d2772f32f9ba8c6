"""The consumer in Java: from the allocator's record to the recorded outcome."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from pydantic import SecretStr

from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import State
from dueledger.ledger.store.items import emit_items
from dueledger.stack import kafka_jars
from dueledger.workers.outcomes import OutcomeIntakeSettings, open_outcome_intake
from tests.logins import with_login

from .conftest import WorkTopic
from .contract import faults

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
SOURCE = Path(__file__).parents[2] / "examples" / "java" / "DueConsumer.java"
CLIENT = ("kafka-clients", "slf4j-api", "lz4-java")
SMALL = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@pytest.fixture
def class_path() -> str:
    """Kafka's client as the embedded stack keeps it; skips where it, or a compiler, is not."""
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("no JDK on the path: a `java` with its `javac` compiles the example")
    found = [
        kafka_jars.cache_dir() / jar.name for jar in kafka_jars.pinned() if jar.artifact in CLIENT
    ]
    if not all(path.exists() for path in found):
        pytest.skip("Kafka's client is not in the cache of the embedded stack")
    return ":".join(map(str, found))


Start = Callable[[str, str], Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start_consumer(settings: OutcomeIntakeSettings, class_path: str) -> AsyncGenerator[Start]:
    started: list[asyncio.subprocess.Process] = []

    async def start(topic: str, group: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *("java", *SMALL, f"-Doutcomes={settings.outcome_topic}", "-cp", class_path),
            *(str(SOURCE), settings.bootstrap_servers, topic, group),
            stdout=asyncio.subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_consumer_in_java_works_what_is_due_with_its_kafka_client_alone(
    topic: WorkTopic,
    settings: OutcomeIntakeSettings,
    bootstrap_servers: str,
    start_consumer: Start,
    eventually: Eventually,
    kind: str,
) -> None:
    usual = topic.make_drafts(40, payload='{"address":"Müller \\"&\\" Söhne"}')
    odd = topic.make_drafts(1, prefix='odd "key" \\', payload='{"addressee":"nobody"}')
    wrong = replace(odd[0], payload='{"name":"\\u0001"}')
    await emit_items(topic.connection, [*usual, wrong], actor_no=topic.actor_no)
    allocating = AllocatorSettings(
        dsn=SecretStr(with_login(settings.dsn.get_secret_value(), "allocator")),
        bootstrap_servers=bootstrap_servers,
    )
    async with (
        open_allocator(allocating, stop=Stop()) as allocator,
        open_outcome_intake(settings) as intake,
        AIOKafkaConsumer(
            settings.outcome_topic,
            bootstrap_servers=bootstrap_servers,
            auto_offset_reset="earliest",
        ) as outcomes,
    ):
        assert (await allocator.tick())["published"] == 41
        process = await start_consumer(f"due.{kind}", f"letters-{kind}")

        async def all_answered() -> bool:
            await intake.tick()
            return State.RUNNING not in await topic.states()

        await eventually(all_answered)
        process.terminate()
        printed, _ = await process.communicate()
        records = [await outcomes.getone() for _ in range(41)]
    assert await topic.states() == [State.MANUAL_REVIEW, State.COMPLETED]
    assert await topic.connection.fetchval("select reason from ledger.review") == 'no "address"'
    letters = [line.split()[0] for line in printed.decode().splitlines()]
    assert len(letters) == 40
    kept = await topic.connection.fetch(
        "select detail ->> 'letter' as letter from ledger.transition where event = 5"
    )
    assert sorted(row["letter"] for row in kept) == sorted(letters)
    assert [fault for record in records for fault in faults("outcome", record)] == []
    assert {record.key for record in records} == {
        *(draft.business_key.encode() for draft in usual),
        wrong.business_key.encode(),
    }
    assert await topic.refused() == []
    await topic.check_balance()
