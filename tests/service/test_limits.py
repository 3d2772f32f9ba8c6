"""What a service with a certificate refuses: plain text, slow bodies, callers that are too fast."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from dueledger.ledger.errors import InvalidSetting, RateExceeded
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store.api_keys import CallRate, Scope
from dueledger.service import ServiceSettings, certificate, process
from dueledger.service.certificate import check_certificate
from dueledger.service.rates import CALLERS_MAX, CallRates
from tests.databases import MakeDatabase
from tests.security.certificates import END, PAST, Authority, Issued
from tests.service.conftest import Answer, Api, open_api
from tests.service.test_requests import NO_ITEM, problem

BURST = 3
NEVER = 0.001
"""Requests a second: the next one comes after the test."""


@dataclass
class Secured:
    """A service with a certificate, and what trusts it."""

    api: Api
    trusting: ssl.SSLContext


@pytest.fixture(scope="module")
async def secured(
    make_database: MakeDatabase, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Secured]:
    authority = Authority("authority", tmp_path_factory.mktemp("certificates"))
    issued = authority.issue("service", address="127.0.0.1")
    trusting = ssl.create_default_context(cafile=authority.cafile)
    async with (
        open_api(
            make_database,
            service_certificate=issued.certfile,
            service_certificate_key=issued.keyfile,
            service_rate_per_second=NEVER,
            service_rate_burst=BURST,
            service_body_seconds=0.2,
        ) as api,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session,
    ):
        yield Secured(replace(api, session=session), trusting)


async def test_a_service_with_a_certificate_answers_by_tls_alone(secured: Secured) -> None:
    url = secured.api.service.url
    assert url.startswith("https://127.0.0.1:")
    assert (await secured.api.ask("GET", "/health/live")).status == 200
    async with aiohttp.ClientSession() as plain:
        with pytest.raises(aiohttp.ClientConnectionError):
            await plain.get(url.replace("https", "http") + "/health/live")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await plain.get(url + "/health/live")


async def test_a_certificate_that_is_renewed_is_shown_to_new_connections_and_a_wrong_one_is_not(
    make_database: MakeDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "CHECK_SECONDS", 0.01)
    authority = Authority("authority", tmp_path)
    trusting = ssl.create_default_context(cafile=authority.cafile)
    now = datetime.now(UTC)  # noqa: TID251 - certificates have the time of a machine
    soon = now.replace(microsecond=0) + timedelta(days=13, hours=12)
    used, second, third = [
        authority.issue(name, address="127.0.0.1", end=end)
        for name, end in (("used", soon), ("second", END), ("third", soon))
    ]
    expired = authority.issue("expired", address="127.0.0.1", end=PAST)

    async def shown() -> bytes:
        place = urlsplit(api.service.url)
        _, writer = await asyncio.open_connection(place.hostname, place.port, ssl=trusting)
        handshake: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.close()
        return handshake.getpeercert(binary_form=True) or b""

    def certificate_of(issued: Issued) -> bytes:
        return ssl.PEM_cert_to_DER_cert(issued.certfile.read_text())

    def said(event: LogEvent) -> int:
        return [each["event"] for each in logs].count(event)

    with capture_logs() as logs:
        async with open_api(
            make_database,
            service_certificate=used.certfile,
            service_certificate_key=used.keyfile,
        ) as api:

            async def expires_at() -> datetime:
                return await api.owner.fetchval(
                    "select certificate_expires_at from ledger.process where role = 'service'"
                )

            first = certificate_of(used)
            while await expires_at() != soon:
                assert await shown() == first
            used.certfile.write_bytes(second.certfile.read_bytes())  # its key comes later
            while not said(LogEvent.CERTIFICATE_REFUSED):
                assert await shown() == first
            used.keyfile.write_bytes(second.keyfile.read_bytes())
            while await shown() != certificate_of(second) or await expires_at() != END:
                pass
            used.keyfile.write_bytes(expired.keyfile.read_bytes())
            used.certfile.write_bytes(expired.certfile.read_bytes())
            while not any("to 2021-01-01" in each.get("message", "") for each in logs):
                assert await shown() == certificate_of(second)
            used.keyfile.unlink()
            third.keyfile.rename(used.keyfile)  # as a link to another folder is replaced
            third.certfile.rename(used.certfile)
            while await shown() == certificate_of(second) or await expires_at() != soon:
                pass
    assert said(LogEvent.CERTIFICATE_LOADED) == 2
    assert said(LogEvent.CERTIFICATE_EXPIRING) == 2, "once a day of each that expires soon"
    assert all(one != following for one, following in pairwise(logs)), "a reason is logged once"


def test_a_certificate_that_no_client_would_accept_is_refused_at_the_start(tmp_path: Path) -> None:
    authority = Authority("authority", tmp_path)
    good = authority.issue("good", address="127.0.0.1")
    encrypted = authority.issue("encrypted", address="127.0.0.1", password="secret")  # noqa: S106 - of a test
    expired = authority.issue("expired", address="127.0.0.1", end=PAST)
    check_certificate(good.certfile, good.keyfile)
    for certfile, keyfile, reason in (
        (expired.certfile, expired.keyfile, "valid from 2020-01-01 to 2021-01-01, not now"),
        (encrypted.certfile, encrypted.keyfile, "its key is encrypted"),
        (good.certfile, expired.keyfile, "mismatch"),
        (good.keyfile, good.keyfile, "good.key has no certificate"),
        (good.certfile, tmp_path / "missing", "missing"),
    ):
        settings = ServiceSettings(
            dsn=SecretStr("postgresql://127.0.0.1/none"),
            service_certificate=certfile,
            service_certificate_key=keyfile,
        )
        with pytest.raises(InvalidSetting, match="DUELEDGER_SERVICE_CERTIFICATE") as refused:
            process._config(settings, ...)  # pyright: ignore[reportPrivateUsage, reportArgumentType]
        assert reason in str(refused.value)


async def test_a_body_that_does_not_arrive_in_time_is_a_problem(secured: Secured) -> None:
    key = await secured.api.make_key("slow", Scope.EMIT)
    place = urlsplit(secured.api.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=secured.trusting)
    lines = ("POST /v1/items HTTP/1.1", f"Host: {place.netloc}", "Content-Length: 100")
    head = "\r\n".join((*lines, f"Authorization: Bearer {key.text}", "", "{"))
    writer.write(head.encode())
    answered = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert answered.startswith("HTTP/1.1 408 ")
    length = next(each for each in answered.split("\r\n") if each.lower().startswith("content-le"))
    document = json.loads(await reader.readexactly(int(length.partition(":")[2])))
    assert document["code"] == "REQUEST_TIMEOUT"
    writer.close()


async def test_a_caller_that_is_too_fast_waits_and_another_does_not(secured: Secured) -> None:
    first, second = [await secured.api.make_key("fast", Scope.READ) for _ in range(2)]
    for each in (first, second, first):  # keys of one name are one caller
        problem(await secured.api.ask("GET", NO_ITEM, key=each), 404, "NOT_FOUND")
    refused = await secured.api.ask("GET", NO_ITEM, key=second)
    problem(refused, 429, "RATE_EXCEEDED")
    assert 0 < int(refused.headers["Retry-After"]) <= 1 / NEVER
    other = await secured.api.make_key("patient", Scope.READ)
    problem(await secured.api.ask("GET", NO_ITEM, key=other), 404, "NOT_FOUND")


async def test_a_key_has_the_rate_that_it_was_made_with_and_its_successor_the_same(
    secured: Secured,
) -> None:
    admin = await secured.api.make_key("admin", Scope.ADMIN)
    asked = {"name": "metered", "scopes": ["read"], "tenants": ["acme"]}

    async def make(**rate: object) -> Answer:
        return await secured.api.ask("POST", "/v1/keys", key=admin, body=asked | rate)

    made = await make(rate_per_second=NEVER, rate_burst=BURST + 2)
    assert made.status == 201, made.text
    rotate = f"/v1/keys/{made.document['prefix']}/rotate"
    second = await secured.api.ask("POST", rotate, key=admin, body={})
    keys = [each.document["key"] for each in (made, second)]
    for number in range(BURST + 2):  # more than the setting's; keys of one name are one caller
        answer = await secured.api.ask("GET", NO_ITEM, key=keys[number % 2])
        problem(answer, 404, "NOT_FOUND")
    for each in keys:
        problem(await secured.api.ask("GET", NO_ITEM, key=each), 429, "RATE_EXCEEDED")
    found = problem(await make(rate_burst=5), 422, "INVALID_INPUT")
    assert [each.pointer for each in found.errors] == ["rate_burst"]


def test_a_bucket_fills_at_its_rate_up_to_the_burst_and_their_count_is_bounded() -> None:
    now = 0.0
    rates = CallRates(CallRate(2.0, BURST), lambda: now)
    for at in (0.0, 100.0):
        now = at
        for _ in range(BURST):
            rates.take(1)
        with pytest.raises(RateExceeded) as refused:
            rates.take(1)
        assert refused.value.seconds == 1
    now += 0.5
    rates.take(1)
    with pytest.raises(RateExceeded):
        rates.take(1)
    for actor_no in range(2, CALLERS_MAX + 2):
        rates.take(actor_no)
    rates.take(1)  # forgotten
