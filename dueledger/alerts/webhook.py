"""Alerts as signed webhooks, to an address that is checked as those of HTTP dispatch are."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, final

import orjson

from dueledger.alerts.channels import SEND_SECONDS, NotSent
from dueledger.alerts.notices import Notice
from dueledger.alerts.settings import AlertSettings
from dueledger.ledger.definitions.http_url import HttpUrl, InvalidUrl, read_url
from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.workers.http.allow_list import AllowList, TargetRefused, read_origin
from dueledger.workers.http.client import HttpClient, RequestFailed
from dueledger.workers.http.exchange import HttpRequest
from dueledger.workers.http.webhook import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    SigningKey,
    read_keys,
    sign,
)

_TAKEN: Final = range(200, 300)


@asynccontextmanager
async def open_webhook(settings: AlertSettings) -> AsyncGenerator["WebhookChannel"]:
    """Open the channel. Raises InvalidSetting if the address or the key cannot be read."""
    url, secret = settings.alert_webhook_url, settings.alert_webhook_secret
    if url is None or secret is None:
        raise ValueError("the settings have no webhook")
    try:
        target = read_url(url)
    except InvalidUrl as error:
        raise _invalid("DUELEDGER_ALERT_WEBHOOK_URL", error) from None
    try:
        keys = read_keys(secret.get_secret_value())
    except ValueError as error:
        raise _invalid("DUELEDGER_ALERT_WEBHOOK_SECRET", error) from None
    guard = AllowList([read_origin(target.origin)], settings.alert_webhook_networks)
    async with HttpClient(guard) as client:
        yield WebhookChannel(client, target, keys)


@final
class WebhookChannel:
    """Posts notices to one address."""

    def __init__(self, client: HttpClient, url: HttpUrl, keys: tuple[SigningKey, ...]) -> None:
        self._client = client
        self._url = url
        self._keys = keys

    async def send(self, notice: Notice, at: int) -> None:
        """Post a notice. Raises NotSent unless the answer is 2xx."""
        body = orjson.dumps(notice.document())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "dueledger",
            ID_HEADER: notice.id,
            TIMESTAMP_HEADER: str(at),
            SIGNATURE_HEADER: sign(self._keys, notice.id, at, body),
        }
        request = HttpRequest("POST", self._url, headers, body, SEND_SECONDS)
        try:
            response = await self._client.send(request)
        except (TargetRefused, RequestFailed) as error:
            raise NotSent(str(error)) from None
        if response.status not in _TAKEN:
            raise NotSent(f"the answer was {response.status}")


def _invalid(variable: str, error: ValueError) -> InvalidSetting:
    return InvalidSetting("Settings are missing or wrong:", [Problem(variable, "", str(error))])
