"""Alerts are sent once to each channel, by one process, and so is their end."""

import hashlib
import hmac
import json
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import asyncpg
import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer
from pydantic import SecretStr

from dueledger.alerts.channels import open_channels
from dueledger.alerts.process import Alerter
from dueledger.alerts.settings import AlertSettings
from dueledger.cli.exit_codes import ExitCode
from dueledger.ledger.errors import InvalidSetting, Unavailable
from dueledger.ledger.runtime.setting_problems import read_settings
from dueledger.ledger.store import Connection, Pool, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import set_machine_clock
from tests.databases import DatabasePool, MakeDatabase
from tests.forks import ForkServer
from tests.logins import with_login
from tests.service.commands import start
from tests.wire import wire_to

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def make_database(served_database_pool: DatabasePool) -> MakeDatabase:
    return served_database_pool.lease


@dataclass
class Receiver:
    """A server that takes what is posted, and refuses it while `status` says so."""

    url: str = ""
    status: int = 204
    signed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    chats: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    on_signed: Callable[[], Awaitable[object]] | None = None
    """What happens once, while something signed is taken."""

    async def take_signed(self, request: web.Request) -> web.Response:
        body = await request.read()
        number, at = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        key = b64decode(SECRET.removeprefix("whsec_"))
        digest = hmac.digest(key, f"{number}.{at}.".encode() + body, hashlib.sha256)
        assert request.headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"
        document = json.loads(body)
        assert document["id"] == number
        if self.status == 204:
            self.signed.append(document)
        call, self.on_signed = self.on_signed, None
        if call is not None:
            await call()
        return web.Response(status=self.status)

    async def take_chat(self, request: web.Request) -> web.Response:
        self.chats.append(await request.json())
        return web.Response(status=200)

    async def refuse_mail(self, _: web.Request) -> web.Response:
        return web.Response(status=503)


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/alerts", receiver.take_signed)
    app.router.add_post("/chat", receiver.take_chat)
    app.router.add_post("/mail", receiver.refuse_mail)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    receiver.url = f"{host}:{port}"
    yield receiver
    await runner.cleanup()


@pytest.fixture
def settings(database: str, bootstrap_servers: str, receiver: Receiver, kind: str) -> AlertSettings:
    return AlertSettings(
        dsn=SecretStr(with_login(database, "alerter")),
        bootstrap_servers=bootstrap_servers,
        alert_webhook_url=f"http://{receiver.url}/alerts",
        alert_webhook_secret=SecretStr(SECRET),
        alert_webhook_networks=(ip_network("127.0.0.0/8"),),
        alert_apprise_urls=(SecretStr(f"json://{receiver.url}/chat"),),
        alert_topic=f"alerts-{kind}",
    )


@pytest.fixture
def only_webhook(settings: AlertSettings) -> AlertSettings:
    return settings.model_copy(update={"alert_apprise_urls": (), "alert_topic": None})


async def advance(pool: Pool, seconds: float) -> None:
    """Let the only session of a pool believe that so much time has passed."""
    async with pool.acquire() as connection:
        now = await connection.fetchval("select ledger.machine_now()")
        await set_machine_clock(connection, now + timedelta(seconds=seconds), 1.0)


async def silence(connection: Connection, topics: int = 1) -> None:
    """Have an allocator live for a day, a reconciler be at work, and topics be silent."""
    number = await register_actor(connection, "allocator:test", ActorKind.ALLOCATOR)
    await connection.execute(
        "insert into ledger.process (process_no, role, host, version, started_at, seen_at)"
        " select $1, 'allocator', 'here', '1', now, now + interval '1 day'"
        " from ledger.machine_now() now",
        number,
    )
    await connection.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " select 'acme', 'Renewal', day, day from (select ledger.now() + interval '1 day') d (day)"
    )
    for each in range(topics):
        consumers = await register_actor(connection, f"topic:{each}", ActorKind.WORKER)
        await connection.execute(
            "insert into ledger.silent_topic values ($1, $2, ledger.machine_now())",
            f"due.Silent{each}",
            consumers,
        )


async def read_topic(settings: AlertSettings, count: int) -> list[dict[str, Any]]:
    assert settings.alert_topic is not None
    consumer = AIOKafkaConsumer(
        settings.alert_topic,
        bootstrap_servers=settings.bootstrap_servers,
        auto_offset_reset="earliest",
    )
    async with consumer:
        return [json.loads((await consumer.getone()).value or b"") for _ in range(count)]


async def test_an_alert_and_its_end_are_sent_once_to_each_channel_by_one_process(
    settings: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    await silence(connection)
    dsn = settings.dsn.get_secret_value()
    async with (
        open_channels(settings) as channels,
        open_pool(dsn, application_name="test", size_max=1, roles=("alerter",)) as pool,
    ):
        first, second = (Alerter(pool, channels, holder=holder) for holder in ("one", "two"))
        assert await first.tick() == {"sent": 0, "failed": 0}  # it is too new
        await advance(pool, 31)
        receiver.status = 503
        assert await first.tick() == {"sent": 2, "failed": 1}
        receiver.status = 204
        assert await second.tick() == {}
        assert await first.tick() == {"sent": 1, "failed": 0}
        assert await first.tick() == {"sent": 0, "failed": 0}
        [alert] = receiver.signed
        assert alert["alert"] == "TopicSilent"
        assert alert["status"] == "firing"
        assert alert["labels"] == {"topic": "due.Silent0"}
        await connection.execute("delete from ledger.silent_topic")
        await first.tick()
        await advance(pool, 91)
        assert await second.tick() == {"sent": 3, "failed": 0}  # the first has lost the lead
        assert await first.tick() == {}
        assert [each["status"] for each in receiver.signed] == ["firing", "resolved"]
        assert [each["title"] for each in receiver.chats] == [
            "PAGE: the consumers of due.Silent0 report no outcomes",
            "Ended: the consumers of due.Silent0 report no outcomes",
        ]
        published = await read_topic(settings, 2)
        assert [each["id"] for each in published] == [each["id"] for each in receiver.signed]
        assert await connection.fetchval("select count(*) from ledger.alert") == 0


async def test_in_an_hour_nothing_is_sent_but_an_alert_and_its_end_once(
    only_webhook: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    await silence(connection)
    dsn = only_webhook.dsn.get_secret_value()
    async with (
        open_channels(only_webhook) as channels,
        open_pool(dsn, application_name="test", size_max=1) as pool,
    ):
        alerter = Alerter(pool, channels, holder="one")

        async def pass_hour() -> None:
            for _ in range(60):
                await alerter.tick()
                await advance(pool, 60)

        await pass_hour()
        assert [each["status"] for each in receiver.signed] == ["firing"]
        await connection.execute("delete from ledger.silent_topic")
        await pass_hour()
        assert [each["status"] for each in receiver.signed] == ["firing", "resolved"]
        await pass_hour()  # all is well
        assert len(receiver.signed) == 2


async def test_a_process_that_led_reports_that_postgres_is_away_and_its_end_though_another_leads(
    only_webhook: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    await silence(connection)
    await connection.execute("delete from ledger.silent_topic")
    broken: list[str] = []

    async def forward(answer: bytes) -> bytes:
        if broken:
            raise ConnectionError
        return answer

    own_dsn = only_webhook.dsn.get_secret_value()
    async with (
        open_channels(only_webhook) as channels,
        wire_to(own_dsn, forward=forward) as (_, dsn),
        open_pool(dsn, application_name="test", size_max=1) as pool,
        open_pool(own_dsn, application_name="test", size_max=1) as other_pool,
    ):
        passed = [0.0]
        first = Alerter(pool, channels, holder="one", clock=lambda: passed[0])
        second = Alerter(other_pool, channels, holder="two")
        await first.tick()

        async def tick_after(seconds: float) -> None:
            passed[0] += seconds
            with suppress(Unavailable):
                await first.tick()

        broken.append("postgres")
        for _ in range(4):
            await tick_after(16)
        assert [each["alert"] for each in receiver.signed] == ["PostgresUnreachable"]
        broken.clear()
        await advance(other_pool, 91)
        assert await second.tick() == {"sent": 0, "failed": 0}
        await tick_after(16)
        await advance(pool, 31)
        assert await first.tick() == {}
        assert [each["status"] for each in receiver.signed] == ["firing", "resolved"]
        assert len({each["since"] for each in receiver.signed}) == 1


async def test_a_database_that_refuses_writes_is_reported_as_one_that_is_away(
    only_webhook: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    """As after a failover to a server that is read-only, or with a full disk."""
    await silence(connection)
    async with (
        open_channels(only_webhook) as channels,
        open_pool(only_webhook.dsn.get_secret_value(), application_name="t", size_max=1) as pool,
    ):
        passed = [0.0]
        alerter = Alerter(pool, channels, holder="one", clock=lambda: passed[0])
        await alerter.tick()
        async with pool.acquire() as session:
            await session.execute("set default_transaction_read_only = on")
        for _ in range(3):
            passed[0] += 16
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await alerter.tick()
        [alert] = receiver.signed
        assert alert["alert"] == "PostgresUnreachable"


async def test_who_lost_the_lead_while_it_sent_sends_no_more_and_records_nothing(
    only_webhook: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    await silence(connection, topics=2)
    dsn = only_webhook.dsn.get_secret_value()
    async with (
        open_channels(only_webhook) as channels,
        open_pool(dsn, application_name="test", size_max=1) as pool,
    ):
        first, second = (Alerter(pool, channels, holder=holder) for holder in ("one", "two"))
        await first.tick()
        await advance(pool, 31)

        async def take_over() -> None:
            await advance(pool, 91)
            assert await second.tick() == {"sent": 2, "failed": 0}

        receiver.on_signed = take_over
        assert await first.tick() == {"sent": 1, "failed": 0}
        sent = [each["labels"]["topic"] for each in receiver.signed]
        assert sent == ["due.Silent0", "due.Silent0", "due.Silent1"]
        assert len({each["id"] for each in receiver.signed}) == 2
        assert await first.tick() == {}
        assert await second.tick() == {"sent": 0, "failed": 0}


async def test_a_chat_gets_an_alert_once_while_the_mail_server_is_down(
    settings: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    await silence(connection)
    urls = tuple(SecretStr(f"json://{receiver.url}/{each}") for each in ("mail", "chat"))
    chats = settings.model_copy(update={"alert_apprise_urls": urls, "alert_topic": None})
    async with (
        open_channels(chats) as channels,
        open_pool(settings.dsn.get_secret_value(), application_name="t", size_max=1) as pool,
    ):
        alerter = Alerter(pool, channels, holder="one")
        await alerter.tick()
        await advance(pool, 31)
        assert await alerter.tick() == {"sent": 2, "failed": 1}
        assert await alerter.tick() == {"sent": 0, "failed": 1}
        assert len(receiver.chats) == 1
        receiver.chats.clear()
        receiver.signed.clear()
        results = await alerter.send_test()
        assert results.pop("apprise-1") != "sent"
        assert results == {"apprise-2": "sent", "webhook": "sent"}
        [test] = receiver.signed
        assert (test["alert"], test["status"]) == ("Test", "test")
        [chat] = receiver.chats
        assert chat["title"].startswith("TEST: ")


async def test_an_alert_that_no_rule_finds_any_more_is_forgotten(
    only_webhook: AlertSettings, connection: Connection
) -> None:
    """As of a rule that an upgrade renamed, or whose labels it changed."""
    await silence(connection)
    await connection.execute("delete from ledger.silent_topic")
    await connection.execute(
        "insert into ledger.alert (name, labels, value, since, sent_to)"
        " select name, '[\"acme\"]', 1, ledger.machine_now(), '[\"webhook\"]'"
        " from unnest(array['ItemsForgotten', 'DatabaseLarge']) u (name)"
    )
    async with (
        open_channels(only_webhook) as channels,
        open_pool(only_webhook.dsn.get_secret_value(), application_name="t", size_max=1) as pool,
    ):
        assert await Alerter(pool, channels, holder="one").tick() == {"sent": 0, "failed": 0}
    assert await connection.fetchval("select count(*) from ledger.alert") == 0


def test_a_channel_is_needed_and_a_webhook_is_signed_and_its_address_checked(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    dsn = SecretStr(with_login(database, "alerter"))
    with pytest.raises(InvalidSetting, match="there is no channel"):
        read_settings(AlertSettings, dsn=dsn)
    with pytest.raises(InvalidSetting, match="ALERT_WEBHOOK_SECRET"):
        read_settings(AlertSettings, dsn=dsn, alert_webhook_url="https://hooks.example.com")


async def test_the_command_that_sends_a_test_fails_if_a_channel_does(
    fork_server: ForkServer, only_webhook: AlertSettings, receiver: Receiver
) -> None:
    for status, code in ((204, ExitCode.DONE), (503, ExitCode.FAILED)):
        receiver.status = status
        command = await start(
            fork_server,
            only_webhook.dsn.get_secret_value(),
            *("alert", "--test"),
            DUELEDGER_ALERT_WEBHOOK_URL=only_webhook.alert_webhook_url or "",
            DUELEDGER_ALERT_WEBHOOK_SECRET=SECRET,
            DUELEDGER_ALERT_WEBHOOK_NETWORKS="127.0.0.0/8",
        )
        printed = await command.communicate()
        assert command.returncode == code, printed
    assert [each["status"] for each in receiver.signed] == ["test"]


async def test_a_webhook_to_an_address_that_is_not_public_is_refused(
    settings: AlertSettings, connection: Connection, receiver: Receiver
) -> None:
    await silence(connection)
    guarded = settings.model_copy(
        update={"alert_webhook_networks": (), "alert_apprise_urls": (), "alert_topic": None}
    )
    dsn = settings.dsn.get_secret_value()
    async with (
        open_channels(guarded) as channels,
        open_pool(dsn, application_name="test", size_max=1) as pool,
    ):
        assert "loopback" in (await Alerter(pool, channels, holder="one").send_test())["webhook"]
    assert receiver.signed == []
