"""The stream of changes: one query for all pages, digests alone, an end with the process."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from dueledger import console
from dueledger.console import open_console
from dueledger.console.activity import LedgerActivity
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.activity import read_activity
from dueledger.ledger.store.api_keys import Scope
from tests.console.conftest import Browser
from tests.databases import MakeDatabase
from tests.service.conftest import SCHEDULE, Api, open_api

PAGES = 1_000
STILL = {"problem.html", "runbook.html", "search.html", "sign_in.html"}
"""Pages that stay as they are; docs/console.md says which."""
WATCHED = re.compile(r'(?:data-live=|data-changed=|ui\.changed\(|set tables = )"([a-z_ ]+)"')


async def test_each_page_shows_what_changes_or_says_that_something_has(pool: Pool) -> None:
    async with pool.acquire() as connection:
        tables = (await read_activity(connection)).keys()
    for template in (Path(console.__file__).parent / "templates").glob("*.html"):
        text = template.read_text(encoding="utf-8")
        if not text.startswith('{% extends "layout.html" %}'):
            continue
        is_live = any(each in text for each in ("data-live=", "data-changed=", "ui.changed("))
        assert is_live == (template.name not in STILL), template.name
        watched = {name for names in WATCHED.findall(text) for name in names.split()}
        assert watched <= tables, template.name


async def test_the_page_of_a_schedule_watches_all_that_it_shows(api: Api, browser: Browser) -> None:
    await api.define("acme", "watched", SCHEDULE)
    page = (await browser.open("/console/schedules/acme/watched")).text
    live = page.partition("data-live=")[2]
    for part in ("<h1>watched", ">Pause<", "Next occurrences", "History", "Version 1"):
        assert part in live.partition("</main>")[0], part
    watched = live.partition(">")[0]
    for table in ("definition", "due_item", "materialised", "pause", "run", "transition"):
        assert table in watched


async def test_one_query_answers_a_thousand_pages_and_none_is_made_without_any(pool: Pool) -> None:
    reads = 0

    @asynccontextmanager
    async def lend() -> AsyncGenerator[Connection]:
        nonlocal reads
        reads += 1
        async with pool.acquire() as connection:
            yield connection

    activity = LedgerActivity(lend)
    idle = asyncio.create_task(activity.tick())
    await asyncio.sleep(0)
    assert (reads, activity.reload_seconds) == (0, 2.0)
    streams = [activity.stream() for _ in range(PAGES)]
    for stream in streams:
        assert await anext(stream) == b": open\n\n"
    await idle
    assert reads == 1
    assert activity.reload_seconds == 60.0
    events = {await anext(stream) for stream in streams}
    assert len(events) == 1
    [event] = events
    document = json.loads(event.partition(b"data: ")[2])
    assert {"due_item", "transition", "run"} <= document["tables"].keys()
    assert not document["tables"].keys() & {"api_key", "console_session"}
    assert all(len(digest) == 12 for digest in document["tables"].values())
    for stream in streams:
        await stream.aclose()
    assert activity.open_pages == 0
    waiting = asyncio.create_task(activity.tick())
    await asyncio.sleep(0)
    assert reads == 1
    activity.close()
    await waiting


async def test_a_page_is_sent_what_changes_and_the_stream_ends_with_the_service(
    make_database: MakeDatabase,
) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with open_api(make_database, open_console) as api:
            browser = Browser(api.service.url, session)
            await browser.sign_in(await api.make_key("watcher", *Scope))
            reply = await session.get(f"{api.service.url}/console/live")
            assert reply.headers["Content-Type"].startswith("text/event-stream")
            assert (await _event(reply))["every"] == 2.0
            await api.owner.execute(
                "insert into ledger.watermark (tenant, kind, as_of) values ('acme', 'P-1', now())"
            )
            await api.owner.execute("select pg_stat_force_next_flush()")
            while "watermark" not in (news := await _event(reply))["tables"]:
                pass
            assert "P-1" not in json.dumps(news)
        await reply.read()  # it ends, although nobody closed it


async def _event(reply: aiohttp.ClientResponse) -> dict[str, dict[str, str]]:
    while True:
        line = await reply.content.readline()
        if line.startswith(b"data: "):
            return json.loads(line[6:])


async def test_without_the_scope_or_a_session_there_is_no_stream(
    api: Api, stranger: Browser
) -> None:
    nobody = await stranger.open("/console/live", {"Accept": "text/event-stream"})
    assert nobody.status == 401
    await stranger.send(
        "/console/sign-in", {"key": (await api.make_key("emitting", Scope.EMIT)).text}
    )
    assert (await stranger.open("/console/live", {"Accept": "text/event-stream"})).status == 403
