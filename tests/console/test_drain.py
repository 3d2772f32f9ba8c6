"""A process that is asked to drain: it ends what it has, takes no more, and stops."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.console.conftest import Browser, open_browser
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login
from tests.service.conftest import SCHEDULE, Answer, Api
from tests.service.test_requests import problem

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]
Start = Callable[..., Awaitable[ForkedProcess]]

KIND = "DrainedDue"
HANDLERS = """
import asyncio
from pathlib import Path
from dueledger import Completed, Handlers
handlers = Handlers()
@handlers.on("DrainedDue")
async def wait(item):
    await asyncio.to_thread(Path("gate").read_text)
    return Completed()
"""
"""Each item waits until somebody writes to the pipe."""
PROCESS = "/console/system/process?name="


@pytest.fixture
async def start(
    api: Api, tmp_path: Path, bootstrap_servers: str, fork_server: ForkServer
) -> AsyncGenerator[Start]:
    """Start `dueledger` under the login of a role."""
    (tmp_path / "mine.py").write_text(HANDLERS)
    os.mkfifo(tmp_path / "gate")
    started: list[ForkedProcess] = []

    async def begin(role: str, *arguments: str) -> ForkedProcess:
        process = await fork_server.start(
            *("-m", "dueledger", *arguments),
            cwd=tmp_path,
            env={
                **os.environ,
                "DUELEDGER_DSN": with_login(api.dsn, role),
                "DUELEDGER_BOOTSTRAP_SERVERS": bootstrap_servers,
                "DUELEDGER_WORKER_DRAIN_SECONDS": "120",
            },
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
async def everybody(api: Api) -> AsyncGenerator[Browser]:
    """A browser of somebody who may do everything for all tenants."""
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("drains", *Scope, tenants=None))
        yield browser


async def _drain(api: Api, key: NewApiKey, name: str) -> Answer:
    path = f"/v1/processes/{quote(name)}/drain"
    return await api.ask("POST", path, key=key, body={"reason": "a new version"})


async def test_a_worker_that_is_asked_to_drain_ends_its_items_takes_no_more_and_stops(
    api: Api, everybody: Browser, start: Start, tmp_path: Path, eventually: Eventually
) -> None:
    key = await api.make_key("drains", *Scope, tenants=None)
    await api.define("acme", "drained", {**SCHEDULE, "kind": KIND, "business_key": "drained"})
    [running] = await api.emit(key, api.item("D-1", kind=KIND))
    worker, other = [
        await start("direct_worker", "work", "--direct", "mine:handlers"),
        await start("materialiser", "materialise"),
    ]

    async def state_of(item: object) -> str:
        return (await api.ask("GET", f"/v1/items/{item}", key=key)).document["state"]

    async def is_running() -> bool:
        return await state_of(running) == State.RUNNING.label

    async def names(role: str) -> list[str]:
        answer = await api.ask("GET", "/v1/processes", key=key)
        return [each["name"] for each in answer.document["items"] if each["role"] == role]

    await eventually(is_running)
    [name] = await names("direct_worker")
    assert f"process?name={quote(name)}" in (await everybody.open("/console/system")).text
    page = (await everybody.open(PROCESS + quote(name))).text
    assert "It takes work." in page
    assert re.search("It holds <a href[^>]+>1 lease</a>; their items end first", page)
    form = {"name": name, "reason": "INC-7"}
    assert (await everybody.send("/console/system/drain", {"name": name})).status == 422
    assert (await everybody.send("/console/system/drain", form)).status == 303
    again = await _drain(api, key, name)
    assert (again.status, again.document) == (200, {"name": name, "result": "asked"})

    async def drains() -> bool:
        shown = (await everybody.open(PROCESS + quote(name))).text
        assert "key:drains" in shown
        assert "INC-7" in shown
        assert ">Drain</button>" not in shown
        return "It drains since" in shown

    await eventually(drains)
    assert ">Draining</span>" in (await everybody.open("/console/system")).text
    [later] = await api.emit(key, api.item("D-2", kind=KIND))
    assert (worker.returncode, await state_of(running)) == (None, State.RUNNING.label)
    await asyncio.to_thread((tmp_path / "gate").write_text, "open")
    async with asyncio.timeout(60):
        assert await worker.wait() == 0
    assert await state_of(running) == State.COMPLETED.label
    assert await state_of(later) == State.SCHEDULED.label

    assert "No process of this name lives" in (await everybody.open(PROCESS + quote(name))).text
    late = problem(await _drain(api, key, name), 409, "CONFLICT")
    assert "it has stopped; what runs in its place has another name" in late.detail
    problem(await _drain(api, key, f"{name}0"), 404, "NOT_FOUND")
    assert other.returncode is None
    [materialiser] = await names("materialiser")
    assert (await _drain(api, key, materialiser)).document["result"] == "done"
    async with asyncio.timeout(60):
        assert await other.wait() == 0
    audited = await api.owner.fetch(
        "select target, reason from ledger.audit where operation = 'drainProcess' order by audit_no"
    )
    assert [tuple(row) for row in audited] == [
        (f"processes/{name}", "INC-7"),
        (f"processes/{materialiser}", "a new version"),
    ]


async def test_a_process_that_takes_no_such_request_is_shown_with_the_reason(
    api: Api, everybody: Browser
) -> None:
    key = await api.make_key("drains", *Scope, tenants=None)
    own = await api.owner.fetchval(
        "select name from ledger.process_status where role = 'service' and status = 'live'"
    )
    page = (await everybody.open(PROCESS + quote(own))).text
    [why] = re.findall(r'aria-disabled="true"[^>]*>Drain</button> <span id="[^"]+">([^<]+)', page)
    assert why in problem(await _drain(api, key, own), 409, "CONFLICT").detail
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("sees", Scope.READ, tenants=None))
        assert ">Drain<" not in (await reader.open(PROCESS + quote(own))).text
