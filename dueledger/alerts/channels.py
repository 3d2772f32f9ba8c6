"""The channels of alerts: a signed webhook, chats and mail by apprise, a topic of Kafka."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Protocol, cast

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from dueledger.alerts.notices import Notice
from dueledger.alerts.settings import AlertSettings
from dueledger.ledger.errors import InvalidSetting, MissingExtra, Problem, Unavailable
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.producer_internals import new_producer
from dueledger.ledger.kafka.topic_reader import started
from dueledger.ledger.kafka.topics import make_missing_topics

SEND_SECONDS: Final = 10.0
ALERT_TYPE: Final = "dueledger.alert"


class NotSent(Exception):
    """A channel did not take a notice. The reason names no secret; the next pass sends it again."""


class AlertChannel(Protocol):
    """Sends notices."""

    async def send(self, notice: Notice, at: int) -> None:
        """Send a notice; `at` is the time of a signature, in seconds. Raises NotSent."""
        ...


@asynccontextmanager
async def open_channels(settings: AlertSettings) -> AsyncGenerator[Mapping[str, AlertChannel]]:
    """Open the channels that the settings name, by name.

    Raises InvalidSetting for one that cannot be used, MissingExtra if its library is missing.
    """
    async with AsyncExitStack() as stack:
        channels: dict[str, AlertChannel] = {}
        if settings.alert_webhook_url is not None:
            channels["webhook"] = await stack.enter_async_context(_open_webhook(settings))
        for number, url in enumerate(settings.alert_apprise_urls, 1):
            channels[f"apprise-{number}"] = _AppriseChannel(url.get_secret_value(), number)
        if settings.alert_topic is not None:
            channels["kafka"] = _KafkaChannel(settings, settings.alert_topic)
        yield channels


@asynccontextmanager
async def _open_webhook(settings: AlertSettings) -> AsyncGenerator[AlertChannel]:
    try:
        from dueledger.alerts.webhook import open_webhook  # noqa: PLC0415 - aiohttp is an extra
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed. Install dueledger[http]."
        raise MissingExtra(message, extra="http") from None
    async with open_webhook(settings) as channel:
        yield channel


class _Apprise(Protocol):
    """The part of apprise that is called."""

    def add(self, servers: str) -> bool: ...

    async def async_notify(self, *, body: str, title: str, notify_type: str) -> bool: ...


_NOTIFY_TYPES: Final = {"firing": "failure", "resolved": "success", "test": "info"}


class _AppriseChannel:
    """A chat or a mailbox."""

    def __init__(self, url: str, number: int) -> None:
        """Read a URL, which may be a secret; `number` is its place in the setting."""
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            message = f"{error.name} is not installed. Install dueledger[alert]."
            raise MissingExtra(message, extra="alert") from None
        self._apprise = cast("_Apprise", apprise.Apprise())
        if not self._apprise.add(url):
            problem = Problem(
                "DUELEDGER_ALERT_APPRISE_URLS",
                "",
                f"apprise cannot read the URL of place {number}",
                "mailtos://user:password@example.com",
            )
            raise InvalidSetting("Settings are missing or wrong:", [problem])

    async def send(self, notice: Notice, at: int) -> None:
        """Send it as a title and a text."""
        del at
        document = notice.document()
        body = f"{document['summary']}\nsince {document['since']}\n{document['runbook']}"
        kind = _NOTIFY_TYPES[notice.status]
        try:
            async with asyncio.timeout(SEND_SECONDS):
                is_sent = await self._apprise.async_notify(
                    body=body, title=notice.title, notify_type=kind
                )
        except TimeoutError:
            raise NotSent(f"apprise had no answer within {SEND_SECONDS:.0f} s") from None
        if not is_sent:
            raise NotSent("apprise did not reach it")


class _KafkaChannel:
    """A topic. It has a client of its own for each notice: there are few."""

    def __init__(self, settings: AlertSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        client_arguments(settings)  # a file that is missing is found at once

    async def send(self, notice: Notice, at: int) -> None:
        """Publish it as a CloudEvent, keyed by alert and labels."""
        del at
        try:
            async with asyncio.timeout(SEND_SECONDS):
                for reason in (await make_missing_topics(self._settings, [self._topic])).values():
                    raise NotSent(reason)
                producer = new_producer(**client_arguments(self._settings), acks="all")
                async with started(producer):
                    await self._publish(producer, notice)
        except (KafkaError, TimeoutError, Unavailable) as error:
            raise NotSent(f"Kafka did not take it: {type(error).__name__}") from None

    async def _publish(self, producer: AIOKafkaProducer, notice: Notice) -> None:
        headers = [
            (envelope.SPECVERSION_HEADER, envelope.SPECVERSION_BYTES),
            (envelope.ID, notice.id.encode()),
            (envelope.SOURCE, f"{envelope.SOURCE_PREFIX}alerts".encode()),
            (envelope.TYPE, ALERT_TYPE.encode()),
            (envelope.SUBJECT, notice.row.name.encode()),
            (envelope.CONTENT_TYPE, envelope.CONTENT_TYPE_JSON),
        ]
        key = "/".join((notice.row.name, *notice.row.labels)).encode()
        value = orjson.dumps(notice.document())
        await producer.send_and_wait(self._topic, value=value, key=key, headers=headers)
