"""The service and the console inside another program, under a path of it."""

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest
import uvicorn
from fastapi import FastAPI

from dueledger.console import open_app
from dueledger.console.headers import POLICY
from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.store import connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope, create_key
from tests.console.conftest import Browser
from tests.databases import MakeDatabase
from tests.document_blocks import blocks_of
from tests.logins import with_login

DOCUMENTED = "test_the_documented_host_has_the_service_and_the_console_under_a_path"
LINKS = re.compile(r'(?:href|src|action|data-root|data-suggest)="([^"#]*)')


class _Server(uvicorn.Server):
    """A server that leaves signals to the tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def _serve(host: FastAPI) -> AsyncGenerator[str]:
    """Serve a program for the block, with its lifespan, as `uvicorn program:host` does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Server(uvicorn.Config(host, log_config=None, timeout_graceful_shutdown=30))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        listening = asyncio.create_task(server.listening.wait())
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listening.cancel()
            server.should_exit = True
            await serving


async def _make_key(dsn: str) -> NewApiKey:
    owner = await connect(dsn, application_name="test")
    person_no = await register_actor(owner, "person:test", ActorKind.PERSON)
    key = await create_key(
        *(owner, "key:jane"),
        scopes=[*Scope],
        tenants=None,
        expires_at=None,
        created_by=person_no,
    )
    await owner.close()
    assert key is not None
    return key


@pytest.fixture
async def signed_in(
    make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Browser, NewApiKey]]:
    """A browser and a key of the documented program, which has the ledger under `/due`."""
    [block] = blocks_of("docs/mounting.md", run_by=DOCUMENTED)
    program: dict[str, FastAPI] = {}
    exec(block.text, program)  # noqa: S102 - our own document
    async with make_database() as dsn:
        monkeypatch.setenv("DUELEDGER_DSN", with_login(dsn, "service"))
        key = await _make_key(dsn)
        jar = aiohttp.CookieJar(unsafe=True)  # of addresses, too
        async with _serve(program["host"]) as url, aiohttp.ClientSession(cookie_jar=jar) as session:
            browser = Browser(url, session)
            answer = await browser.send("/due/console/sign-in", {"key": key.text})
            assert (answer.status, answer.location) == (303, "/due/console/")
            assert "Path=/;" in answer.headers["Set-Cookie"]
            yield browser, key


async def test_the_documented_host_has_the_service_and_the_console_under_a_path(
    signed_in: tuple[Browser, NewApiKey],
) -> None:
    browser, key = signed_in
    letters = await browser.open("/letters")
    assert (letters.status, letters.text) == (200, '["L-1"]')
    for path in ("/console/", "/v1/items", "/health/live"):
        assert (await browser.open(path)).status == 404
    assert (await browser.open("/due/")).location == "/due/console/"
    assert (await browser.open("/due/health/ready")).status == 200

    bearer = {"Authorization": f"Bearer {key.text}"}
    item: dict[str, object] = {
        "tenant": "acme",
        "kind": "LetterDue",
        "business_key": "L-1",
        "effective_date": "2027-03-01",
        "due_at": "2026-01-01T09:00:00Z",
        "payload": {},
    }
    url, session = f"{browser.url}/due/v1", browser.session
    async with session.post(f"{url}/items", json={"items": [item]}, headers=bearer) as made:
        assert made.status == 200
    operation = {"verb": "cancel", "kind": "LetterDue", "reason": "INC-1"}
    headers = {**bearer, "Idempotency-Key": "1"}
    path = f"{url}/tenants/acme/operations"
    async with session.post(path, json=operation, headers=headers) as recorded:
        assert recorded.status == 202, await recorded.text()
        location = recorded.headers["Location"]
        assert location.startswith("/due/v1/operations/")
    async with session.get(f"{browser.url}{location}", headers=bearer) as found:
        assert (await found.json())["kind"] == "LetterDue"
    async with session.get(f"{browser.url}/due/openapi.json") as described:
        assert (await described.json())["servers"] == [{"url": "/due"}]


async def test_pages_under_a_path_link_send_and_load_what_is_under_it(
    signed_in: tuple[Browser, NewApiKey],
) -> None:
    browser, _ = signed_in
    await browser.open("/due/console/")
    for path in ("/", "/items", "/flows", "/schedules/new", "/reviews", "/reconciliation"):
        page = await browser.open(f"/due/console{path}")
        assert (page.status, page.headers["Content-Security-Policy"]) == (200, POLICY)
        links = set(LINKS.findall(page.text)) - {""}
        assert {each for each in links if not each.startswith("/due/console")} == set()
        assert not re.search(r"<script>|<style| style=| on[a-z]+=", page.text)
        for asset in (each for each in links if "/assets/" in each):
            assert (await browser.open(asset)).status == 200

    form = {"tenant": "acme", "kind": "LetterDue", "over": "kind", "reason": "INC-1"}
    fields = {**form, "lane": "", "shown": "{}"}
    refused = await browser.send("/due/console/flows/acme/pause", fields, with_token=False)
    assert refused.status == 403
    foreign = {"Origin": "https://evil.example"}
    refused = await browser.send("/due/console/flows/acme/pause", fields, foreign)
    assert refused.status == 403
    left = await browser.send("/due/console/sign-out", {})
    assert (left.status, left.location) == (303, "/due/console/sign-in")
    asked = await browser.open("/due/console/items?kind=LetterDue")
    to = "%2Fdue%2Fconsole%2Fitems%3Fkind%3DLetterDue"
    assert asked.location == f"/due/console/sign-in?to={to}"


async def test_an_action_under_a_path_is_done_and_its_change_is_streamed(
    signed_in: tuple[Browser, NewApiKey],
) -> None:
    browser, _ = signed_in
    text = "{tenant: acme, definition: letters, kind: LetterDue, business_key: L,"
    text += " when: {cron: '0 9 1 * *', timezone: UTC}}"
    await browser.open("/due/console/schedules/new")
    defined = await browser.send("/due/console/schedules/define", {"text": text})
    assert (defined.status, defined.location) == (303, "/due/console/schedules/acme/letters")
    assert "Version 1 is defined." in (await browser.open(defined.location)).text

    async with browser.session.get(f"{browser.url}/due/console/live") as stream:
        assert (stream.status, stream.content_type) == (200, "text/event-stream")
        assert await stream.content.readline() == b": open\n"
        paused = await browser.send(f"{defined.location}/pause", {"reason": "INC-1"})
        assert (paused.status, paused.location) == (303, defined.location)
        async for line in stream.content:
            if b'"pause"' in line:
                break
    assert "INC-1" in (await browser.open(defined.location)).text


@pytest.mark.parametrize("name", ["service_port", "service_path_prefix", "session_hours"])
async def test_a_setting_that_the_program_has_or_nobody_knows_is_refused(name: str) -> None:
    settings: dict[str, object] = {name: 1}
    with pytest.raises(InvalidSetting) as refused:
        async with open_app(dsn=None, **settings):
            pass
    assert [each.field for each in refused.value.problems] == [name]
