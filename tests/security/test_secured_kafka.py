"""A broker with TLS and logins: clients of every sort, all processes, and what the doctor reports.

One broker has a listener for each: `login` by SASL_SSL, `clear` by SASL_PLAINTEXT, `mutual` by
client certificates, `expired` with a certificate of the past, and its own without any security.
"""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.doctor import Health, check_replication, run_checks
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.intake import EventIntakeSettings, open_intake
from dueledger.ledger.kafka.batch_consumer import BatchConsumer
from dueledger.ledger.kafka.broker_check import find_connect_failure
from dueledger.ledger.kafka.client_arguments import client_arguments, member_arguments
from dueledger.ledger.kafka.envelope import (
    EVENT_TOPIC,
    OUTCOME_TOPIC,
    REJECTED_TOPIC,
    REPAIR_TOPIC,
)
from dueledger.ledger.kafka.log_reader import open_log_reader
from dueledger.ledger.kafka.topic_reader import started
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.reconciler.repair.command_publisher import RepairCommand, open_publisher
from dueledger.stack.free_ports import LOOPBACK
from dueledger.stack.kafka import Kafka, SecuredListener
from dueledger.stack.start_progress import StartProgress
from dueledger.workers.outcomes import OutcomeIntakeSettings, open_outcome_intake
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings

from .certificates import PAST, Authority, Issued

pytestmark = pytest.mark.long

USER = "alice"
SECRET = "open-Sesame-1"  # noqa: S105 - opens only the broker of this test
SASL = "org.apache.kafka.common.security"
LOGINS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "plain.sasl.jaas.config": f'{SASL}.plain.PlainLoginModule required user_{USER}="{SECRET}";',
    "scram-sha-256.sasl.jaas.config": f"{SASL}.scram.ScramLoginModule required;",
    "scram-sha-512.sasl.jaas.config": f"{SASL}.scram.ScramLoginModule required;",
    "oauthbearer.sasl.jaas.config": f"{SASL}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
Drafts = Callable[..., list[ItemDraft]]


def token(end: int) -> str:
    """Return an unsigned token, which the broker accepts until its end."""
    parts = ({"alg": "none"}, {"sub": USER, "iat": 1_600_000_000, "exp": end})
    texts = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""])


VALID, OVER = token(4_700_000_000), token(1_700_000_000)


@dataclass(frozen=True)
class SecuredBroker:
    """The broker, and the files of its clients."""

    kafka: Kafka
    directory: Path
    authority: Authority
    client: Issued
    stranger: Issued

    def settings(self, way: str, **changed: object) -> dict[str, Any]:
        """Return the settings of a client by one way of logging in, some of them changed."""
        settings: dict[str, Any] = {
            "kafka_security_protocol": "SASL_SSL",
            "kafka_ssl_cafile": str(self.authority.cafile),
            "bootstrap_servers": self.kafka.servers_of("login"),
        }
        if way == "certificate":
            settings |= {
                "kafka_security_protocol": "SSL",
                "kafka_ssl_certfile": str(self.client.certfile),
                "kafka_ssl_keyfile": str(self.client.keyfile),
                "bootstrap_servers": self.kafka.servers_of("mutual"),
            }
        elif way == "OAUTHBEARER":
            path = self.file(VALID)
            settings |= {"kafka_sasl_mechanism": way, "kafka_sasl_token_file": path}
        else:
            settings |= {
                "kafka_sasl_mechanism": way,
                "kafka_sasl_username": USER,
                "kafka_sasl_password": SecretStr(SECRET),
            }
        return {name: each for name, each in (settings | changed).items() if each is not None}

    def file(self, content: str, name: str | None = None) -> str:
        """Write a file, a new one or that of a name, and return its path."""
        path = self.directory / (name or f"file-{len(list(self.directory.iterdir()))}")
        path.write_text(content)
        return str(path)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Generator[SecuredBroker]:
    files = tmp_path_factory.mktemp("certificates")
    authority, other = Authority("authority", files), Authority("other-authority", files)
    server = authority.issue("broker", address=LOOPBACK)
    expired = authority.issue("expired", address=LOOPBACK, end=PAST)
    identity = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(server.both)}
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.cafile)}
    kafka = Kafka(
        tmp_path_factory.mktemp("secured-kafka"),
        steps=StartProgress(None),
        brief=True,
        listeners=[
            SecuredListener("login", "SASL_SSL", identity | LOGINS),
            SecuredListener("clear", "SASL_PLAINTEXT", LOGINS),
            SecuredListener("mutual", "SSL", identity | trusted | {"ssl.client.auth": "required"}),
            SecuredListener(
                "expired", "SSL", identity | {"ssl.keystore.location": str(expired.both)}
            ),
        ],
        scram_users={USER: SECRET},
    )
    try:
        kafka.start()
        client, stranger = authority.issue("client"), other.issue("stranger")
        yield SecuredBroker(kafka, tmp_path_factory.mktemp("clients"), authority, client, stranger)
    finally:
        kafka.stop()


@pytest.mark.parametrize(
    "way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"]
)
async def test_every_login_makes_topics_sends_and_reads(broker: SecuredBroker, way: str) -> None:
    settings = KafkaSettings(**broker.settings(way), topic_partitions=1)
    topic = f"by-{way}"
    assert await make_missing_topics(settings, [topic]) == {}
    async with AIOKafkaProducer(**client_arguments(settings)) as producer:
        await producer.send_and_wait(topic, b"sent")
    member = member_arguments(topic, session_seconds=10)
    consumer = BatchConsumer(client_arguments(settings), member, client_id="test")
    consumer.subscribe([topic])
    async with started(consumer):
        (batches,) = (await consumer.getbatches(timeout_ms=30_000, records_max=1)).values()
    assert [batch.size for batch in batches] == [1]
    assert await find_connect_failure(settings, settings.bootstrap_servers) is None


async def test_a_renewed_token_and_a_renewed_password_are_used_without_a_restart(
    broker: SecuredBroker,
) -> None:
    for way, setting, wrong, right in (
        ("OAUTHBEARER", "kafka_sasl_token_file", OVER, VALID),
        ("SCRAM-SHA-512", "kafka_sasl_password_file", "old", f"{SECRET}\n"),
    ):
        changed = {"kafka_sasl_password": None, setting: broker.file(wrong, way)}
        settings = KafkaSettings(**broker.settings(way, **changed))
        assert await find_connect_failure(settings, settings.bootstrap_servers) is not None
        broker.file(right, way)
        assert await find_connect_failure(settings, settings.bootstrap_servers) is None


def failures(broker: SecuredBroker) -> dict[str, tuple[dict[str, Any], str, str]]:
    """Return clients that cannot connect: their settings, the reason, and part of the remedy."""
    kafka = broker.kafka
    plain = {"bootstrap_servers": kafka.bootstrap_servers}
    login, mutual = kafka.servers_of("login"), kafka.servers_of("mutual")
    tls = {"kafka_security_protocol": "SSL", "kafka_ssl_cafile": str(broker.authority.cafile)}
    localhost = login.replace(LOOPBACK, "localhost")
    strange = {
        "kafka_ssl_certfile": str(broker.stranger.both),
        "kafka_ssl_keyfile": None,
    }
    password = SecretStr("guessed")
    return {
        "unknown CA": (
            broker.settings("PLAIN", kafka_ssl_cafile=None),
            "unknown authority",
            "SSL_CAFILE",
        ),
        "expired certificate": (
            tls | {"bootstrap_servers": kafka.servers_of("expired")},
            "certificate has expired",
            "renew it",
        ),
        "certificate of another host": (
            broker.settings("PLAIN", bootstrap_servers=localhost),
            "not for localhost",
            "BOOTSTRAP_SERVERS",
        ),
        "bad password, PLAIN": (
            broker.settings("PLAIN", kafka_sasl_password=password),
            "refuses the user 'alice' or the password",
            "SASL_PASSWORD",
        ),
        "bad password, SCRAM": (
            broker.settings("SCRAM-SHA-256", kafka_sasl_password=password),
            "refuses the user 'alice' or the password",
            "SCRAM-SHA-256",
        ),
        "unknown user": (
            broker.settings("SCRAM-SHA-512", kafka_sasl_username="bob"),
            "refuses the user 'bob' or the password",
            "SASL_USERNAME",
        ),
        "expired token": (
            broker.settings("OAUTHBEARER", kafka_sasl_token_file=broker.file(OVER)),
            "refuses the token",
            "SASL_TOKEN_FILE",
        ),
        "plain client, TLS port": (
            {"bootstrap_servers": login},
            "probably expects TLS",
            "SECURITY_PROTOCOL",
        ),
        "TLS client, plain port": (tls | plain, "does not speak TLS", "SECURITY_PROTOCOL"),
        "TLS client, port with login": (
            tls | {"bootstrap_servers": login},
            "expects a login",
            "SASL_SSL",
        ),
        "login, port without": (
            broker.settings("certificate")
            | {name: each for name, each in broker.settings("PLAIN").items() if "sasl" in name}
            | {"kafka_security_protocol": "SASL_SSL"},
            "expects no login",
            "SECURITY_PROTOCOL to SSL",
        ),
        "login without TLS, plain port": (
            broker.settings(
                "PLAIN", kafka_ssl_cafile=None, kafka_security_protocol="SASL_PLAINTEXT", **plain
            ),
            "expects no login",
            "SECURITY_PROTOCOL to PLAINTEXT",
        ),
        "no client certificate": (
            tls | {"bootstrap_servers": mutual},
            "client certificate|expects a login",
            "SSL_CERTFILE",
        ),
        "client certificate of a stranger": (
            broker.settings("certificate", **strange),
            "refuses the client certificate|closed the connection",
            "",
        ),
        "nobody listens": (
            tls | {"bootstrap_servers": f"{LOOPBACK}:1"},
            "cannot be reached",
            "BOOTSTRAP_SERVERS",
        ),
    }


async def test_why_a_client_cannot_connect_is_said_in_plain_words(broker: SecuredBroker) -> None:
    said: dict[str, str] = {}
    for name, (settings, reason, remedy) in failures(broker).items():
        failure = await find_connect_failure(
            KafkaSettings(**settings), settings["bootstrap_servers"]
        )
        assert failure is not None, name
        said[name] = f"{failure.reason} / {failure.remedy}"
        if not any(part in failure.reason for part in reason.split("|")):
            pytest.fail(f"{name}: {said[name]}")
        assert remedy in failure.remedy, f"{name}: {said[name]}"
    text = " ".join(said.values())
    assert not [secret for secret in (SECRET, "guessed", OVER, VALID) if secret in text]


async def test_the_doctor_names_the_protocol_and_what_fails(
    broker: SecuredBroker, database: str
) -> None:
    gone = str(broker.directory / "gone.pem")
    clear: dict[str, Any] = {
        "bootstrap_servers": broker.kafka.servers_of("clear"),
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_ssl_cafile": None,
    }
    cases = (
        (broker.settings("PLAIN", **clear), Health.WARN, "unencrypted"),
        (broker.settings("SCRAM-SHA-256", **clear), Health.OK, "by SASL_PLAINTEXT"),
        (broker.settings("SCRAM-SHA-512"), Health.OK, "SASL_SSL with SCRAM-SHA-512"),
        (broker.settings("certificate"), Health.OK, "by SSL"),
        (
            broker.settings("PLAIN", kafka_sasl_password=SecretStr("guessed")),
            Health.FAIL,
            "SASL_SSL with PLAIN: the broker refuses the user",
        ),
        (broker.settings("PLAIN", kafka_ssl_cafile=gone), Health.FAIL, "gone.pem cannot be read"),
    )
    for settings, health, text in cases:
        checks = [
            check async for check in run_checks(Settings(dsn=SecretStr(database), **settings))
        ]
        (kafka,) = [check for check in checks if check.name == "kafka"]
        assert (kafka.health, text in kafka.text) == (health, True), kafka
        assert (kafka.remedy is None) == (health is Health.OK)
        assert SECRET not in repr(checks)


async def test_the_doctor_compares_the_replicas_of_new_topics_with_those_that_brokers_wait_for(
    broker: SecuredBroker, database: str
) -> None:
    settings = Settings(dsn=SecretStr(database), bootstrap_servers=broker.kafka.bootstrap_servers)
    (check,) = [each async for each in run_checks(settings) if each.name == "topic_replication"]
    says = "1; the brokers wait for 1 (min.insync.replicas)"
    assert (check.health, check.text, check.remedy) == (Health.OK, says, None)
    cases = [(1, 2, Health.FAIL), (2, 2, Health.WARN), (3, 2, Health.OK), (1, None, Health.OK)]
    for copies, needed, health in cases:
        check = check_replication(copies, needed)
        assert (check.health, check.remedy is None) == (health, health is Health.OK)


async def test_all_processes_work_by_sasl_ssl(
    broker: SecuredBroker,
    database: str,
    connection: Connection,
    make_drafts: Drafts,
    actor_no: int,
    kind: str,
    eventually: Eventually,
) -> None:
    """Items are published and worked; events, outcomes and poison are read; repairs are sent.

    The reconciler reads the published items.
    """
    secured = broker.settings("SCRAM-SHA-512", dsn=SecretStr(database))
    handlers = Handlers()

    @handlers.on(kind)
    async def complete(item: DueItem) -> Verdict:
        return Completed({"key": item.business_key})

    await emit_items(connection, make_drafts(20), actor_no=actor_no)
    stop = Stop()
    worker = asyncio.create_task(
        run_worker(WorkerSettings(**secured, worker_group_id=kind), handlers, stop)
    )
    try:
        async with open_allocator(AllocatorSettings(**secured), stop=stop) as allocator:

            async def completed() -> bool:
                await allocator.tick()
                (account,) = await read_accounting(connection)
                return account.completed == 20

            await eventually(completed)
    finally:
        stop.request()
        await worker

    settings = KafkaSettings(**broker.settings("SCRAM-SHA-512"))
    async with open_log_reader(settings, client="reconciler") as reader:
        places = await reader.find_partitions([f"due.{kind}"])
        bounds = await reader.read_bounds(places)
        read = [batch.size for at in places async for batch in reader.read(at, *bounds[at])]
    assert sum(read) == 20

    async with (
        open_intake(EventIntakeSettings(**secured)) as intake,
        open_outcome_intake(OutcomeIntakeSettings(**secured)) as outcomes,
        AIOKafkaProducer(**client_arguments(settings)) as producer,
    ):
        for process, topic in ((intake, EVENT_TOPIC), (outcomes, OUTCOME_TOPIC)):
            await producer.send_and_wait(topic, b"poison", b"key")

            async def rejected(process: Any = process) -> bool:  # noqa: ANN401 - either intake
                return (await process.tick())["rejected"] == 1

            await eventually(rejected)

    command = RepairCommand("1", "acme", "key", datetime(2027, 3, 1, tzinfo=UTC), b"{}")
    async with open_publisher(settings) as publisher:
        await publisher.publish([command])
    async with AIOKafkaConsumer(
        REJECTED_TOPIC, REPAIR_TOPIC, **client_arguments(settings), auto_offset_reset="earliest"
    ) as consumer:
        topics = [(await consumer.getone()).topic for _ in range(3)]
    assert sorted(topics) == sorted([REJECTED_TOPIC, REJECTED_TOPIC, REPAIR_TOPIC])


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_a_process_whose_login_is_refused_ends_and_shows_no_secret(
    broker: SecuredBroker, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    password, path = SecretStr("guessed"), broker.file(OVER)
    wrong = (
        {"kafka_sasl_token_file": path}
        if way == "OAUTHBEARER"
        else {"kafka_sasl_password": password}
    )
    bad = KafkaSettings(**broker.settings(way, **wrong))
    with pytest.raises(Unavailable, match="DUELEDGER_KAFKA_") as refused:
        await make_missing_topics(bad, ["any"])
    text = f"{refused.value} {refused.value.__cause__} {caplog.text}"
    assert not [secret for secret in ("guessed", OVER, SECRET) if secret in text]
    assert caplog.text  # what aiokafka logs for the operator
