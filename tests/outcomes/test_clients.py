"""The consumers of examples/ in other languages: from the allocator's record to the outcome."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import (
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRecord,
    TopicPartition,
)
from aiokafka.protocol.fetch import FetchRequest
from pydantic import SecretStr

from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.ledger.kafka.record_format import CODEC_MASK, batch_end, read_batch_header
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.states import State
from dueledger.ledger.store.items import emit_items
from dueledger.stack import kafka_jars
from dueledger.workers.outcomes import OutcomeIntakeSettings, open_outcome_intake
from tests.document_blocks import blocks_of
from tests.logins import with_login

from .conftest import Handed, WorkTopic
from .contract import faults

pytestmark = pytest.mark.long

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
JARS = ("kafka-clients", "slf4j-api", "lz4-java")
SMALL = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CODECS = {"none": 0, "gzip": 1, "lz4": 3}
NODE_MIN = 18
FETCH = "`make clients` fetches what it needs"


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A row of the table of clients in docs/other-languages.md."""

    name: str
    version: str
    reads: Mapping[str, bool]


def client_rows() -> list[ClientRow]:
    """Return the rows; a codec is `read` or `refused` there."""
    text = (ROOT / "docs" / "other-languages.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.split("### Clients that were run")[1].split("\n## ")[0].splitlines()
        if line.startswith("| ")
    ]
    codecs = rows[0][3:]
    return [
        ClientRow(
            row[0].split("`")[1],
            row[1],
            {
                name: {"read": True, "refused": False}[cell]
                for name, cell in zip(codecs, row[3:], strict=True)
            },
        )
        for row in rows[1:]
    ]


async def output_of(*command: str, folder: Path | None = None, **environment: str) -> str:
    """Return what a command prints; nothing if it fails or does not exist."""
    if shutil.which(command[0]) is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    return output.decode() if process.returncode == 0 else ""


async def prepare_java(folder: Path) -> dict[str, str]:
    """Kafka's client as the embedded stack keeps it."""
    if shutil.which("javac") is None or not await output_of("java", "--version"):
        pytest.skip("no JDK of version 11 or newer on the path")
    found = [
        kafka_jars.cache_dir() / jar.name for jar in kafka_jars.pinned() if jar.artifact in JARS
    ]
    if not all(path.exists() for path in found):
        pytest.skip("Kafka's client is not in the cache of the embedded stack")
    (folder / "jars").mkdir()
    for path in found:
        (folder / "jars" / path.name).symlink_to(path)
    return {"JDK_JAVA_OPTIONS": " ".join(SMALL)}


async def prepare_go(_: Path) -> dict[str, str]:
    """The modules of go.sum, from the user's cache."""
    if not await output_of("go", "version"):
        pytest.skip("no `go` on the path")
    offline = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    if not await output_of("go", "list", "-deps", ".", folder=EXAMPLES / "go", **offline):
        pytest.skip(f"franz-go is not in Go's cache, or this Go is too old for it: {FETCH}")
    return offline


async def prepare_node(_: Path) -> dict[str, str]:
    """The packages of package-lock.json, beside it."""
    major = (await output_of("node", "-p", "process.versions.node")).split(".")[0]
    if not major or int(major) < NODE_MIN:
        pytest.skip(f"no `node` of version {NODE_MIN} or newer on the path")
    installed = EXAMPLES / "node" / "node_modules" / "kafkajs" / "package.json"
    version = json.loads(installed.read_text())["version"] if installed.exists() else None
    if version != pinned_versions()["kafkajs"]:
        pytest.skip(f"kafkajs is not beside the example, or another version: {FETCH}")
    return {}


PREPARED = {"kafka-clients": prepare_java, "franz-go": prepare_go, "kafkajs": prepare_node}


def documented_command(client: str, topic: str, group: str, outcome_topic: str) -> str:
    """Return how a document starts a consumer, for other topics; its packages are there already."""
    name = "test_a_consumer_works_what_is_due_with_its_kafka_client_alone"
    blocks = blocks_of("docs/consuming.md", run_by=name)
    place = list(PREPARED).index(client)
    assert len(blocks) == len(PREPARED)
    *before, start = re.split(r"\n| && ", blocks[place].text.strip())
    built = [each for each in before if not each.startswith("npm ci ")]
    usual = "due.LetterDue letters out &"
    assert start.endswith(usual)
    start = start.removesuffix(usual) + f"{topic} {group} out {outcome_topic}"
    return " && ".join([*built, f"exec {start}"])


def pinned_versions() -> dict[str, str]:
    """Return the version of each client in the files that pin them."""
    jars = {jar.artifact: jar.version for jar in kafka_jars.pinned()}
    (franz_go,) = re.findall(r"franz-go v(\S+)", (EXAMPLES / "go" / "go.mod").read_text())
    locked = json.loads((EXAMPLES / "node" / "package-lock.json").read_text())["packages"]
    return {
        "kafka-clients": jars["kafka-clients"],
        "lz4-java": jars["lz4-java"],
        "franz-go": franz_go,
        "kafkajs": locked["node_modules/kafkajs"]["version"],
    }


def test_the_clients_that_the_document_names_are_those_that_are_pinned_and_run() -> None:
    named = {client.name: client.version for client in client_rows()}
    pinned = pinned_versions()
    text = (ROOT / "docs" / "other-languages.md").read_text("utf-8")
    assert named == {name: pinned[name] for name in PREPARED}
    assert f"`lz4-java` {pinned['lz4-java']}" in text
    assert f"against Kafka {kafka_jars.VERSION}" in text
    lock = json.loads((EXAMPLES / "node" / "package-lock.json").read_text())
    assert lock["packages"][""]["engines"] == {"node": f">={NODE_MIN}"}
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert all(one["integrity"].startswith("sha512-") for one in packages.values())
    assert not [name for name, one in packages.items() if "resolved" in one]


async def offset_of(servers: str, place: TopicPartition, group: str) -> int:
    """Return how many records of a partition a group has committed."""
    async with AIOKafkaConsumer(
        bootstrap_servers=servers, group_id=group, enable_auto_commit=False
    ) as consumer:
        return await consumer.committed(place) or 0


async def codecs_of(servers: str, place: TopicPartition) -> set[int]:
    """Return the codecs of a partition's batches, as numbered in their attributes."""
    asked = [(place.topic, [(place.partition, 0, 1 << 20)])]
    client = AIOKafkaClient(bootstrap_servers=servers)
    await client.bootstrap()
    await client.add_topic(place.topic)
    leader = client.cluster.leader_for_partition(place)
    assert leader is not None
    response = await client.send(leader, FetchRequest(500, 1, 1 << 20, 0, asked))
    await client.close()
    fetched = response.topics[0][1][0][-1]
    codecs: set[int] = set()
    at = 0
    while (end := batch_end(fetched, at)) is not None:
        codecs.add(read_batch_header(memoryview(fetched)[at:end]).attributes & CODEC_MASK)
        at = end
    return codecs


async def record_of(servers: str, topic: str, draft: ItemDraft) -> ConsumerRecord:
    """Return an item's record in its work topic."""
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        subject = ("ce_subject", draft.business_key.encode())
        while subject not in (record := await consumer.getone()).headers:
            pass
        return record


Start = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start_consumer() -> AsyncGenerator[Start]:
    started: list[asyncio.subprocess.Process] = []

    async def start(
        command: str, folder: Path, environment: Mapping[str, str]
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_shell(
            command, cwd=folder, env=os.environ | environment
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


@dataclass(frozen=True, slots=True)
class LetterItems:
    """What a consumer gets: items that it completes, one that it parks and one that it retries."""

    usual: list[ItemDraft]
    unusable: ItemDraft
    failing: ItemDraft
    folder: Path

    @property
    def count(self) -> int:
        return len(self.usual) + 2

    async def check(self, topic: WorkTopic, records: list[ConsumerRecord]) -> None:
        """Compare with the letters, the ledger's rows and the records of the outcomes."""
        written = {path.name: path for path in self.folder.iterdir() if path.is_file()}
        assert {name: path.read_text() for name, path in written.items()} == {
            f"{draft.id}.txt": f"{draft.business_key}\n{draft.payload}\n" for draft in self.usual
        }
        completed = await topic.connection.fetch(
            "select detail ->> 'letter' as letter from ledger.transition where event = 5"
        )
        assert sorted(row["letter"] for row in completed) == sorted(written)
        assert await topic.state_of(Handed(self.failing.id, 0, 0)) is State.RETRYABLE_FAILURE
        assert await topic.state_of(Handed(self.unusable.id, 0, 0)) is State.MANUAL_REVIEW
        reason = await topic.connection.fetchval("select reason from ledger.review")
        assert reason == 'no "address"'
        assert [fault for record in records for fault in faults("outcome", record)] == []
        assert {record.key for record in records} == {
            draft.business_key.encode() for draft in (*self.usual, self.unusable, self.failing)
        }


@pytest.fixture
def items(topic: WorkTopic, tmp_path: Path) -> LetterItems:
    address = '{"address":"Müller \\"&\\" Söhne"}'

    def make(count: int, prefix: str, payload: str = address) -> list[ItemDraft]:
        return topic.make_drafts(count, prefix=prefix, payload=payload, partition_key="one")

    (unusable,) = make(1, 'odd "key" \\', '{"name":"\\u0001"}')
    (failing,) = make(1, "failing")
    folder = tmp_path / "out"
    (folder / f"{failing.id}.txt").mkdir(parents=True)  # where its letter would be written
    return LetterItems(make(30, "usual"), unusable, failing, folder)


@pytest.fixture
async def publish(
    topic: WorkTopic, settings: OutcomeIntakeSettings
) -> AsyncGenerator[Callable[[str, list[ItemDraft]], Awaitable[None]]]:
    """Emit items and publish them as one batch, with a codec that the kind then names."""
    allocating = AllocatorSettings(
        dsn=SecretStr(with_login(settings.dsn.get_secret_value(), "allocator")),
        bootstrap_servers=settings.bootstrap_servers,
    )
    async with open_allocator(allocating, stop=Stop()) as allocator:

        async def publish(codec: str, drafts: list[ItemDraft]) -> None:
            await topic.put_policy(compression=codec)
            await emit_items(topic.connection, drafts, actor_no=topic.actor_no)
            assert (await allocator.tick())["published"] == len(drafts)

        yield publish


@pytest.mark.parametrize("client", client_rows(), ids=lambda client: client.name)
async def test_a_consumer_works_what_is_due_with_its_kafka_client_alone(
    client: ClientRow,
    topic: WorkTopic,
    items: LetterItems,
    settings: OutcomeIntakeSettings,
    publish: Callable[[str, list[ItemDraft]], Awaitable[None]],
    start_consumer: Start,
    eventually: Eventually,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    environment = await PREPARED[client.name](tmp_path)
    servers, work, group = settings.bootstrap_servers, f"due.{topic.kind}", f"letters-{topic.kind}"
    command = documented_command(client.name, work, group, settings.outcome_topic)
    read = [codec for codec in CODECS if client.reads[codec]]
    refused = [codec for codec in CODECS if not client.reads[codec]]
    await publish(read[0], [items.unusable, items.failing])
    for number, codec in enumerate(read):
        await publish(codec, items.usual[number :: len(read)])
    async with (
        open_outcome_intake(settings) as intake,
        AIOKafkaConsumer(
            settings.outcome_topic, bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as outcomes,
        AIOKafkaProducer(bootstrap_servers=servers) as producer,
    ):
        process = await start_consumer(
            command, tmp_path, environment | {"DUELEDGER_BOOTSTRAP_SERVERS": servers}
        )

        async def all_are_settled() -> bool:
            assert process.returncode is None
            await intake.tick()
            return State.RUNNING not in await topic.states()

        await eventually(all_are_settled)
        # As after a restore: another claim has this fence, and its token is another.
        record = await record_of(servers, work, items.usual[0])
        forged = [
            (name, b"0" * 32 if name == "ce_duetoken" else text) for name, text in record.headers
        ]
        await producer.send_and_wait(
            work, record.value, record.key, record.partition, headers=forged
        )
        reports = [await outcomes.getone() for _ in range(items.count + 1)]

        async def forged_is_refused() -> object:
            await intake.tick()
            return await topic.refused()

        await eventually(forged_is_refused)
        assert await topic.refused() == [("mismatch", "completed")]
        place = TopicPartition(work, record.partition)
        assert await codecs_of(servers, place) == {CODECS[codec] for codec in read}

        for codec in refused:  # the consumer ends by itself
            await publish(codec, topic.make_drafts(20, prefix=codec, partition_key="one"))
        if not refused:
            process.terminate()
        await process.wait()
    errors = capfd.readouterr().err
    # A JVM ends as one that was terminated, whatever its hooks did.
    assert process.returncode in ({1} if refused else {0, 143}), errors
    assert all(codec in errors.lower() for codec in refused)
    assert await offset_of(servers, place, group) == items.count + 1
    await items.check(topic, reports)
    await topic.check_balance()
