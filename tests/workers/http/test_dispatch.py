"""The request for an item, and the outcome of each response."""

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest
from pydantic import SecretStr

from dueledger import Completed, Park, Retry
from dueledger.ledger.definitions.http_dispatch import HttpDispatch
from dueledger.ledger.store.kinds import HttpKind
from dueledger.ledger.store.runs import Outcome
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.http.client import HttpClient
from dueledger.workers.http.database_clock import DatabaseClock
from dueledger.workers.http.dispatcher import HttpDispatcher
from dueledger.workers.http.settings import HttpSettings
from dueledger.workers.http.targets import EndpointLimits, HttpTarget, HttpTargets, UnusableTarget
from dueledger.workers.verdict_outcomes import outcome_of_verdict
from dueledger.workers.verdicts import NotAttempted

from .conftest import ITEM, OK, Endpoint, make_item, never, permissive

NOW = datetime(2027, 3, 1, 9, 0, 0, tzinfo=UTC)
NEW, OLD = (bytes([number]) * 32 for number in (1, 2))
KEYS = " ".join("whsec_" + b64encode(key).decode() for key in (NEW, OLD))
TOKEN = "Bearer tok-0123456789"  # noqa: S105 - of the tests
SIGNED = {"secret": "signing"}
SECRETS = {"acme/signing": KEYS, "acme/token": TOKEN, "umbra/token": "umbra-0123456789"}

Configure = Callable[..., HttpDispatcher]


def settings(**changed: object) -> HttpSettings:
    given = {"dsn": "postgresql://nowhere", "http_secrets": json.dumps(SECRETS)}
    return HttpSettings.model_validate(given | changed)


def kind(url: str, tenant: str = "acme", /, **http: object) -> HttpKind:
    checked = HttpDispatch.model_validate({"url": url, **http})
    document = checked.model_dump(mode="json", exclude_none=True)
    topic = f"due-http.{tenant}.RenewalDue"
    return HttpKind(tenant, "RenewalDue", topic, document, 10.0, 20.0)


def database_clock() -> DatabaseClock:
    clock = DatabaseClock(lambda: 0.0)
    clock.set(NOW, at=0.0)
    return clock


@pytest.fixture
async def configure(client: HttpClient, endpoint: Endpoint) -> Configure:
    """Make a dispatcher whose tenant acme sends to the endpoint, as the fields say."""

    def make(**http: object) -> HttpDispatcher:
        targets = HttpTargets(settings())
        targets.replace([kind(endpoint.url, **http)])
        return HttpDispatcher(targets, client, database_clock())

    return make


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} Said\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


# Requests.


async def test_an_item_is_sent_signed_with_every_key_and_with_the_headers_of_kafka(
    configure: Configure, endpoint: Endpoint
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    dispatch = configure(
        **SIGNED,
        headers={"X-Source": "dueledger", "Content-Type": "application/vnd.acme+json"},
        secret_headers={"Authorization": "token"},
    )
    item = make_item(b'{"a": 1}', business_key='P "1" ü', traceparent=trace, attempt=2)
    assert isinstance(await dispatch(item), Completed)
    (received,) = endpoint.received
    assert received.line == "POST /due HTTP/1.1"
    assert received.body == b'{"a": 1}'
    sent_at = str(int(NOW.timestamp()))
    signatures = received.headers.pop("webhook-signature").split(" ")
    for key, signature in zip((NEW, OLD), signatures, strict=True):
        # As a receiver verifies: https://www.standardwebhooks.com
        version, _, digest = signature.partition(",")
        content = f"{ITEM}.{sent_at}.".encode() + received.body
        assert version == "v1"
        assert hmac.compare_digest(b64decode(digest), hmac.digest(key, content, "sha256"))
    assert received.headers == {
        "host": f"127.0.0.1:{endpoint.port}",
        "user-agent": "dueledger",
        "accept-encoding": "identity",
        "content-type": "application/vnd.acme+json",
        "content-length": "8",
        "x-source": "dueledger",
        "authorization": TOKEN,
        "webhook-id": ITEM,
        "webhook-timestamp": sent_at,
        "idempotency-key": ITEM,
        "traceparent": trace,
        "ce-specversion": "1.0",
        "ce-id": f"{ITEM}:7",
        "ce-source": "/dueledger/acme",
        "ce-type": "RenewalDue",
        "ce-subject": "P%20%221%22%20%C3%BC",
        "ce-time": "2027-03-01T09:00:00Z",
        "ce-duetenant": "acme",
        "ce-duecycle": "2027",
        "ce-dueeffective": "2027-03-31",
        "ce-dueat": "2027-03-01T09:00:00Z",
        "ce-dueitem": ITEM,
        "ce-dueattempt": "2",
    }


async def test_g6_every_attempt_carries_the_same_key_for_the_receiver_to_deduplicate_by(
    configure: Configure, endpoint: Endpoint
) -> None:
    dispatch = configure()
    endpoint.answers = [answer(503), OK]
    await dispatch(make_item(fence=7, attempt=1))
    await dispatch(make_item(fence=9, attempt=2))
    for name in ("webhook-id", "idempotency-key"):
        assert [received.headers[name] for received in endpoint.received] == [ITEM, ITEM]
    assert [r.headers["ce-id"] for r in endpoint.received] == [f"{ITEM}:7", f"{ITEM}:9"]
    assert "webhook-signature" not in endpoint.received[0].headers


async def test_method_and_body_are_the_definitions(
    configure: Configure, endpoint: Endpoint
) -> None:
    dispatch = configure(method="PUT", body={"policy": "item.business_key", "x": "payload.a"})
    await dispatch(make_item(b'{"a": 1}'))
    dispatch = configure(method="GET")
    await dispatch(make_item(b'{"a": 1}'))
    put, get = endpoint.received
    assert (put.line, put.body) == ("PUT /due HTTP/1.1", b'{"policy":"P-1","x":1}')
    assert (get.line, get.body) == ("GET /due HTTP/1.1", b"")
    assert "content-type" not in get.headers


async def test_a_traceparent_that_is_none_is_not_passed_on(
    configure: Configure, endpoint: Endpoint
) -> None:
    await configure()(make_item(traceparent="00-ab\r\nx-forged: 1"))
    assert "traceparent" not in endpoint.received[0].headers
    assert "x-forged" not in endpoint.received[0].headers


# Responses.


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_a_success_completes_with_the_response_as_evidence(
    configure: Configure, endpoint: Endpoint, status: int
) -> None:
    endpoint.answers = [answer(status, b"" if status == 204 else b"booked R-1")]
    verdict = await configure()(make_item())
    assert isinstance(verdict, Completed)
    assert isinstance(verdict.evidence, dict)
    assert verdict.evidence["status"] == status
    assert verdict.evidence["body"] == ("" if status == 204 else "booked R-1")
    assert verdict.evidence["url"] == endpoint.url
    assert verdict.evidence["address"] == "127.0.0.1"


def kept(verdict: Retry | Park, *names: str) -> tuple[object, ...]:
    """Return what the evidence says under these names."""
    assert isinstance(verdict.evidence, dict)
    return tuple(verdict.evidence[name] for name in names)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
async def test_overload_and_failure_are_tried_again_after_the_kinds_backoff(
    configure: Configure, endpoint: Endpoint, status: int
) -> None:
    endpoint.answers = [answer(status, b"down for maintenance")]
    verdict = await configure()(make_item())
    assert isinstance(verdict, Retry)
    assert verdict.after_seconds is not None
    assert 0 <= verdict.after_seconds <= 10
    assert verdict.reason == f"{status} from POST {endpoint.url}: down for maintenance"
    assert kept(verdict, "status", "body") == (status, "down for maintenance")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("value", ["120", "Mon, 01 Mar 2027 09:02:00 GMT"])
async def test_retry_after_is_honoured_in_both_forms_and_spread_a_little(
    configure: Configure, endpoint: Endpoint, status: int, value: str
) -> None:
    endpoint.answers = [answer(status, retry_after=value)]
    verdict = await configure()(make_item())
    assert isinstance(verdict, Retry)
    assert verdict.after_seconds is not None
    assert 120 <= verdict.after_seconds <= 132


@pytest.mark.parametrize(
    ("status", "verdict"), [(200, Completed), (429, Retry), (503, Retry), (404, Park)]
)
async def test_g6_a_header_that_is_no_utf8_is_kept_as_far_as_it_can_be_read(
    configure: Configure, endpoint: Endpoint, status: int, verdict: type[Completed | Retry | Park]
) -> None:
    odd = b"Server: caf\xe9\r\nLocation: /\xff\r\nContent-Encoding: \xfe\r\ncontent-length"
    endpoint.answers = [answer(status).replace(b"content-length", odd)]
    judged = await configure()(make_item())
    assert isinstance(judged, verdict)
    ending = outcome_of_verdict(judged, make_item(), HandlerOptions())
    assert isinstance(ending, Outcome)
    assert "evidence_refused" not in str(ending.detail)
    assert isinstance(judged.evidence, dict)
    headers = cast("dict[str, str]", judged.evidence["headers"])
    assert headers["server"] == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 451, 499, 600, 999])
async def test_what_the_endpoint_does_not_accept_waits_for_a_person(
    configure: Configure, endpoint: Endpoint, status: int
) -> None:
    endpoint.answers = [answer(status, b"no such policy")]
    verdict = await configure()(make_item())
    assert isinstance(verdict, Park)
    assert verdict.reason == f"{status} from POST {endpoint.url}: no such policy"
    assert kept(verdict, "status", "body") == (status, "no such policy")


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
async def test_a_redirect_waits_for_a_person(
    configure: Configure, endpoint: Endpoint, status: int
) -> None:
    endpoint.answers = [answer(status, location="http://169.254.169.254/latest?token=hunter22")]
    verdict = await configure()(make_item())
    assert isinstance(verdict, Park)
    assert verdict.reason == (
        f"a redirect is not followed: {status} to http://169.254.169.254/latest"
        f" from POST {endpoint.url}"
    )
    assert kept(verdict, "status", "headers") == (
        status, {"location": "http://169.254.169.254/latest"},
    )  # fmt: skip
    assert len(endpoint.received) == 1


async def test_a_missing_response_is_retried(configure: Configure, endpoint: Endpoint) -> None:
    endpoint.answers = [never]
    verdict = await configure(timeout="PT1S")(make_item())
    assert isinstance(verdict, Retry)
    assert verdict.reason == f"no response within 1 s from POST {endpoint.url}"
    assert kept(verdict, "error", "url") == ("no response within 1 s", endpoint.url)


async def test_a_refused_target_waits_for_a_person_and_is_never_connected_to(
    endpoint: Endpoint,
) -> None:
    targets = HttpTargets(settings())
    targets.replace([kind(endpoint.url + "?token=hunter22")])
    async with HttpClient(permissive(networks=())) as strict:
        verdict = await HttpDispatcher(targets, strict, database_clock())(make_item())
    assert verdict == Park(f"the request is refused: http://127.0.0.1:{endpoint.port} is loopback")
    assert endpoint.connections == 0


async def test_a_body_that_cannot_be_made_waits_for_a_person(
    configure: Configure, endpoint: Endpoint
) -> None:
    verdict = await configure(body="payload.missing")(make_item())
    assert isinstance(verdict, Park)
    assert "payload.missing (as body) is missing or null" in verdict.reason
    assert endpoint.received == []


# Secrets.


async def test_secrets_in_a_response_are_left_out_of_evidence_and_reason(
    configure: Configure, endpoint: Endpoint
) -> None:
    dispatch = configure(
        **SIGNED,
        secret_headers={"Authorization": "token"},
    )
    said = f"{TOKEN} {KEYS} tok-0123456789".encode()
    verdicts: list[object] = []
    for status in (200, 400, 500, 307):
        endpoint.answers = [answer(status, said, server=TOKEN, location=f"/{TOKEN}")]
        verdicts.append(await dispatch(make_item()))
    shown = repr(verdicts)
    assert endpoint.received[0].headers["authorization"] == TOKEN
    assert "tok-0123456789" not in shown
    assert not any(key.removeprefix("whsec_") in shown for key in KEYS.split())
    assert shown.count("[redacted]") >= 4


def test_nothing_that_holds_a_secret_shows_it() -> None:
    targets = HttpTargets(settings())
    targets.replace([kind("https://a.example/", **SIGNED, secret_headers={"X-Token": "token"})])
    target = targets.find("acme", "RenewalDue")
    assert isinstance(target, HttpTarget)
    shown = repr(target) + repr(settings()) + str(settings())
    assert "tok-0123456789" not in shown
    assert KEYS[:20] not in shown


async def test_a_tenant_can_name_none_but_its_own_secrets(
    client: HttpClient, endpoint: Endpoint
) -> None:
    targets = HttpTargets(settings())
    targets.replace(
        [
            kind(endpoint.url, "umbra", **SIGNED),
            kind(endpoint.url, secret_headers={"Authorization": "token"}),
        ]
    )
    found = targets.find("umbra", "RenewalDue")
    assert isinstance(found, UnusableTarget)
    assert found.reason == "this worker has no secret umbra/signing"
    verdict = await HttpDispatcher(targets, client, database_clock())(make_item(tenant="umbra"))
    assert verdict == NotAttempted(60.0, "this worker has no secret umbra/signing")
    await HttpDispatcher(targets, client, database_clock())(make_item(tenant="acme"))
    assert [received.headers["authorization"] for received in endpoint.received] == [TOKEN]


async def test_a_signing_secret_that_is_no_key_stops_its_kind_and_is_not_quoted(
    client: HttpClient, endpoint: Endpoint
) -> None:
    targets = HttpTargets(settings())
    targets.replace([kind(endpoint.url, secret="token")])  # noqa: S106 - its name
    verdict = await HttpDispatcher(targets, client, database_clock())(make_item())
    assert isinstance(verdict, NotAttempted)
    assert verdict.reason == "secret token: a key must begin with whsec_"
    assert endpoint.received == []


async def test_an_item_whose_kind_is_sent_no_more_goes_back_at_once(
    client: HttpClient, endpoint: Endpoint
) -> None:
    targets = HttpTargets(settings())
    targets.replace([kind(endpoint.url)])
    verdict = await HttpDispatcher(targets, client, database_clock())(make_item(kind="Other"))
    assert isinstance(verdict, NotAttempted)
    assert verdict.seconds == 1.0


# Bounds.


def test_an_exchange_ends_well_before_the_lease_does() -> None:
    targets = HttpTargets(settings(worker_lease_seconds=30))
    targets.replace([kind("https://a.example/", timeout="PT1M", concurrency=8)])
    target = targets.find("acme", "RenewalDue")
    assert isinstance(target, HttpTarget)
    assert target.timeout_seconds == 24.0


def test_each_endpoint_has_bounds_of_its_own() -> None:
    targets = HttpTargets(settings())
    targets.replace(
        [
            kind("https://a.example/", timeout="PT10S", concurrency=8),
            kind("https://b.example/", "umbra", timeout="PT20S", concurrency=4),
        ]
    )
    assert targets.endpoint_limits() == {
        ("RenewalDue", "due-http.acme.RenewalDue"): EndpointLimits(8, 15.0),
        ("RenewalDue", "due-http.umbra.RenewalDue"): EndpointLimits(4, 25.0),
    }


def test_the_database_clock_advances_with_the_monotonic_clock_alone() -> None:
    ticks = [100.0]
    clock = DatabaseClock(lambda: ticks[0])
    with pytest.raises(RuntimeError, match="has not been read yet"):
        clock.now()
    clock.set(NOW, at=100.0)
    ticks[0] = 103.5
    assert (clock.now() - NOW).total_seconds() == 3.5


# Settings.


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("http_allowed_origins", "https://a.example/path", "not an origin"),
        ("http_allowed_networks", "10.0.0.1/8", "host bits"),
        ("http_ca_file", "/nowhere/ca.pem", "does not point to a file"),
        ("http_secrets", "hunter22", "not a JSON object"),
        ("http_secrets", '{"hunter22": "x"}', "a name is not <tenant>/<name>"),
        ("http_secrets", '{"acme/token": "short"}', "8 characters or more"),
        (
            "http_secrets",
            '{"acme/token": "hunter22\\n"}',
            "a character that a header cannot contain",
        ),
    ],
)
def test_a_bad_setting_says_why_and_quotes_no_secret(name: str, value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        settings(**{name: value})
    assert "hunter22" not in str(refused.value)


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUELEDGER_HTTP_ALLOWED_ORIGINS", "hooks.example.com, http://billing:8080")
    monkeypatch.setenv("DUELEDGER_HTTP_ALLOWED_NETWORKS", "10.2.0.0/16,fd00::/8")
    monkeypatch.setenv("DUELEDGER_HTTP_SECRETS", '{"acme/token": "hunter22"}')
    read = HttpSettings(dsn=SecretStr("postgresql://nowhere"))
    assert [origin.host for origin in read.http_allowed_origins] == ["hooks.example.com", "billing"]
    assert [str(network) for network in read.http_allowed_networks] == ["10.2.0.0/16", "fd00::/8"]
    assert read.http_secrets["acme/token"].get_secret_value() == "hunter22"
    assert "hunter22" not in repr(read)
