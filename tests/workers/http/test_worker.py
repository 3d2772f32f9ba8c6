"""Through Kafka to an endpoint and back into the journal, while definitions change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.workers.http import DirectHttpSettings, HttpSettings, run_http_worker
from dueledger.workers.http.allow_list import read_origin
from tests.logins import with_login

from .conftest import OK, Endpoint, MakeEndpoint, never

if TYPE_CHECKING:
    from dueledger.workers.counts import WorkerCounts
    from tests.workers.conftest import Site

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]


def http_settings(site: Site, *origins: str) -> HttpSettings:
    return HttpSettings.model_validate(
        site.settings.model_dump()
        | {
            "http_allowed_origins": tuple(read_origin(origin) for origin in origins),
            "http_allowed_networks": (ip_network("127.0.0.0/8"),),
            "http_refresh_seconds": 0.1,
        }
    )


@pytest.fixture
async def sending(site: Site) -> AsyncGenerator[asyncio.Task[WorkerCounts | None]]:
    """A worker that may call this machine by http, until the test ends."""
    stop = Stop()
    task = asyncio.create_task(run_http_worker(http_settings(site, "http://127.0.0.1:*"), stop))
    yield task
    stop.request()
    await task


async def define(
    site: Site, kind: str, url: str, *, tenant: str = "acme", concurrency: int = 8, **retry: object
) -> None:
    document = {
        "definition": f"{kind}-definition",
        "tenant": tenant,
        "kind": kind,
        "business_key": "unused",
        "when": {"cron": "0 0 1 1 *", "timezone": "UTC"},
        "dispatch": {"http": {"url": url, "concurrency": concurrency, "timeout": "PT5M"}},
        "retry": retry,
    }
    await put_in_force(site.connection, [parse_definition(document)], actor_no=site.actor_no)


def until(site: Site, *, completed: int) -> Callable[[], Awaitable[bool | None]]:
    async def reached() -> bool | None:
        await site.allocate()
        return await site.completed() == completed or None

    return reached


async def test_g7_an_items_response_is_in_the_journal(
    site: Site,
    make_drafts: MakeDrafts,
    endpoint: Endpoint,
    sending: asyncio.Task[WorkerCounts | None],
) -> None:
    busy = b"HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
    endpoint.answers = [busy, OK]
    await define(site, site.kind, endpoint.url)
    await site.emit(make_drafts(1))
    await site.eventually(until(site, completed=1))
    first, second = endpoint.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["ce-dueattempt"] == "1"
    assert second.headers["ce-dueattempt"] == "2"
    assert second.body == b'{"premium":"123.45"}'
    assert (await site.events())["key-000000"][-1] == "completed"
    evidence = (await site.details())["key-000000"]
    assert (evidence["status"], evidence["body"]) == (200, "ok")
    assert not sending.done()


async def test_a_changed_address_and_a_new_kind_are_followed_while_it_runs(
    site: Site,
    make_drafts: MakeDrafts,
    make_endpoint: MakeEndpoint,
    sending: asyncio.Task[WorkerCounts | None],
) -> None:
    before, after = await make_endpoint(), await make_endpoint()
    await define(site, site.kind, before.url)
    await site.emit(make_drafts(1, prefix="before"))
    await site.eventually(until(site, completed=1))
    await define(site, site.kind, after.url)
    await define(site, f"{site.kind}New", after.url)
    await site.emit(make_drafts(1, prefix="new", kind=f"{site.kind}New"))
    await site.eventually(until(site, completed=2))
    # The new kind was served, so the endpoints had been read again before this one.
    await site.emit(make_drafts(1, prefix="after"))
    await site.eventually(until(site, completed=3))
    assert (len(before.received), len(after.received)) == (1, 2)
    assert not sending.done()


async def test_what_is_not_accepted_waits_for_a_person_with_the_reason(
    site: Site,
    make_drafts: MakeDrafts,
    endpoint: Endpoint,
    sending: asyncio.Task[WorkerCounts | None],
) -> None:
    endpoint.answers = [b"HTTP/1.1 422 No\r\ncontent-length: 7\r\n\r\nno term"]
    await define(site, site.kind, endpoint.url)
    await site.emit(make_drafts(1))

    async def reviewed() -> dict[str, str] | None:
        await site.allocate()
        return await site.reviews() or None

    reviews = await site.eventually(reviewed)
    reason = f"422 from POST {endpoint.url}: no term"
    assert reviews == {"key-000000": reason}
    detail = (await site.details())["key-000000"]
    assert detail["reason"] == reason
    assert (detail["evidence"]["status"], detail["evidence"]["body"]) == (422, "no term")
    assert not sending.done()


def direct_settings(site: Site) -> DirectHttpSettings:
    """Settings of a worker that may call this machine, and to which Kafka is nowhere."""
    known = http_settings(site, "http://127.0.0.1:*").model_dump()
    dsn = with_login(site.settings.dsn.get_secret_value(), "direct_worker")
    return DirectHttpSettings.model_validate(
        known | {"bootstrap_servers": "127.0.0.1:1", "dsn": SecretStr(dsn)}
    )


async def test_items_are_sent_without_kafka_and_those_of_other_tenants_kinds_are_left_alone(
    site: Site, make_drafts: MakeDrafts, endpoint: Endpoint
) -> None:
    await define(site, site.kind, endpoint.url)
    await site.emit(make_drafts(3))
    await site.emit(make_drafts(2, prefix="other", tenant="umbra"))
    stop = Stop()
    sending = asyncio.create_task(run_http_worker(direct_settings(site), stop))

    async def all_completed() -> bool | None:
        return await site.completed() == 3 or None

    await site.eventually(all_completed)

    async def served() -> object:
        return await site.connection.fetchval("select kind_tenants from ledger.process")

    assert await site.eventually(served) == {site.kind: ["acme"]}
    stop.request()
    await sending
    assert len(endpoint.received) == 3
    waiting = await site.pending()
    assert set(waiting) == {"other-000000", "other-000001"}
    starts = await site.connection.fetchval("select max(starts) from ledger.pending")
    assert starts == 0  # no worker claimed and released them


async def test_one_pass_without_kafka_sends_due_items_and_reports_them(
    site: Site, make_drafts: MakeDrafts, endpoint: Endpoint
) -> None:
    nothing = await run_http_worker(direct_settings(site), Stop(), once=True)
    assert nothing is not None
    assert nothing.settled == 0
    await define(site, site.kind, endpoint.url)
    await site.emit(make_drafts(3))
    counts = await run_http_worker(direct_settings(site), Stop(), once=True)
    assert counts is not None
    assert (counts.settled, len(endpoint.received)) == (3, 3)


async def test_one_pass_through_kafka_sends_due_items_and_reports_them(
    site: Site, make_drafts: MakeDrafts, endpoint: Endpoint
) -> None:
    await define(site, site.kind, endpoint.url)
    await site.emit(make_drafts(3))
    settings = http_settings(site, "http://127.0.0.1:*")
    passing = asyncio.create_task(run_http_worker(settings, Stop(), once=True))

    async def passed() -> bool | None:
        await site.allocate()
        return passing.done() or None

    await site.eventually(passed)
    counts = await passing
    assert counts is not None
    assert (counts.settled, len(endpoint.received)) == (3, 3)


async def test_nothing_is_sent_while_no_origin_may_be_called(site: Site) -> None:
    with pytest.raises(
        InvalidSetting, match="DUELEDGER_HTTP_ALLOWED_ORIGINS: no origin may be called"
    ):
        await run_http_worker(http_settings(site), Stop())


@pytest.mark.parametrize("direct", [False, True], ids=["through Kafka", "without Kafka"])
async def test_an_endpoint_that_hangs_has_its_own_bound_and_uses_no_call_slot_of_anothers(
    *, site: Site, make_drafts: MakeDrafts, make_endpoint: MakeEndpoint, direct: bool
) -> None:
    hanging, other = await make_endpoint(), await make_endpoint()
    hanging.answers = [never] * 100
    await define(site, site.kind, hanging.url, tenant="acme", concurrency=2)
    await define(site, site.kind, other.url, tenant="umbra", concurrency=3)
    settings = direct_settings(site) if direct else http_settings(site, "http://127.0.0.1:*")
    settings = settings.model_copy(update={"worker_drain_seconds": 0.0})
    await site.emit(make_drafts(20, tenant="acme"))
    await site.emit(make_drafts(20, tenant="umbra"))
    stop = Stop()
    working = asyncio.create_task(run_http_worker(settings, stop))

    async def others_are_done() -> bool | None:
        if not direct:
            await site.allocate()
        return (await site.completed() == 20 and len(hanging.received) > 1) or None

    try:
        await site.eventually(others_are_done)
    finally:
        stop.request()
        await working
    assert (len(hanging.received), len(other.received)) == (2, 20)
