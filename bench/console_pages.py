"""The console under measurement: what each page costs, how large it is, and a thousand streams."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, final

import aiohttp

from bench.ended_ledger import TENANT, schedule_name
from bench.ledgers import Ledger, MeasurementFailed
from bench.report import Goal, at_most
from bench.rig import Rig
from bench.service_requests import RouteCost, ServiceClient, measure_route, percentiles
from bench.usage import Usage
from dueledger.console.view import BROWSER_ZONE
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope, create_key
from dueledger.stack import free_ports

CPU_GOAL_MILLISECONDS: Final = 15.0
QUIET_GOAL_MILLISECONDS: Final = 100.0
FLOOD_GOAL_MILLISECONDS: Final = 400.0
BYTES_GOAL: Final = 60_000
STREAMS_GOAL: Final = 0.1
"""Of a core, of service and Postgres together: one statement a second reads for all streams."""
_OPENED_SECONDS: Final = 120.0
FLOOD_TENANT: Final = "flood"
"""The tenant of the items that are due at once."""
_ZONE: Final = "Asia/Kolkata"
"""In which pages are opened: its days begin at half an hour, which has more to add up."""


@final
@dataclass(frozen=True, slots=True)
class PageCost:
    """What the requests of a page took, and its size, compressed as a proxy may send it."""

    route: RouteCost
    bytes: int

    def fields(self) -> dict[str, Any]:
        """Return the figures as they are printed."""
        cpu = self.route.cpu_milliseconds
        return {**asdict(self.route), "cpu_milliseconds": cpu, "compressed_bytes": self.bytes}


@final
@dataclass(frozen=True, slots=True)
class Streams:
    """So many open streams: usage and memory while all listen."""

    streams: int
    usage: Usage
    memory_bytes: int
    events: int


@asynccontextmanager
async def open_console_client(ledger: Ledger, service_pid: int) -> AsyncGenerator[ServiceClient]:
    """Open a client that is signed in by a key with every scope and tenant."""
    key = await create_key(
        ledger.connection,
        "key:console",
        scopes=[*Scope],
        tenants=None,
        expires_at=None,
        created_by=await register_actor(ledger.connection, "person:console", ActorKind.PERSON),
    )
    assert key is not None  # noqa: S101 - the ledger is new
    port = ledger.environment["DUELEDGER_SERVICE_PORT"]
    async with aiohttp.ClientSession(
        f"http://{free_ports.LOOPBACK}:{port}",
        headers={"Accept": "text/html", "Accept-Encoding": "gzip"},
        cookies={BROWSER_ZONE: _ZONE, f"dueledger_zone_{port}": "browser"},
        cookie_jar=aiohttp.CookieJar(unsafe=True),  # of addresses, too
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
    ) as session:
        form = {"key": key.text}
        async with session.post("/console/sign-in", data=form, allow_redirects=False) as reply:
            if reply.status != 303:  # noqa: PLR2004 - see other
                raise MeasurementFailed(f"no session: {reply.status}")
        yield ServiceClient(session, ledger.watcher, service_pid)


def page_paths(ledger: Ledger, ids: Sequence[str], keys: Sequence[str]) -> dict[str, list[str]]:
    """Return the addresses of each page, by its name."""
    schedule = f"/schedules/{TENANT}/{schedule_name(1)}"
    flow = f"tenant={TENANT}&kind={ledger.kind}"
    one = {
        "now": "/",
        "items": "/items",
        "items that are open": "/items?open=true",
        "items that are completed": "/items?state=Completed",
        "items that are late": "/items?late=true",
        "items of a flow": f"/items?{flow}&default_lane=true",
        "items of a quarter hour": f"/items?{flow}&due_from=2027-03-10T00:00:00Z"
        "&due_before=2027-03-10T00:15:00Z",
        "schedules": "/schedules",
        "a schedule": schedule,
        "the editor": f"{schedule}/edit",
        "the calendar": "/schedules/calendar",
        "the last four weeks": "/schedules/past",
        "import": "/schedules/import",
        "flows": "/flows",
        "a flow": f"/flows/{TENANT}/{ledger.kind}",
        "reviews": "/reviews",
        "parked items": "/reviews/parked",
        "a decision about many items": f"/reviews/{FLOOD_TENANT}/decide?kind={ledger.kind}",
        "a decision about a due time": f"/reviews/{FLOOD_TENANT}/decide?kind={ledger.kind}"
        "&due_from=2027-03-10T00:00:00Z&due_before=2027-03-10T00:15:00Z",
        "findings to decide": "/reviews/findings",
        "operations": "/reviews/operations",
        "reconciliation": "/reconciliation",
        "missing items": "/reconciliation/missing",
        "findings": "/reconciliation/findings",
        "repairs": "/reconciliation/repairs",
        "reports": "/reconciliation/reports",
        "audit": "/audit",
        "a badge": f"/badges/{TENANT}/{ledger.kind}/late",
        "system": "/system",
    }
    several = {
        "search": [f"/search?q={key}" for key in keys],
        "an item": [f"/items/{item}" for item in ids],
    }
    return {
        name: [f"/console{path}" for path in paths]
        for name, paths in {**{name: [path] for name, path in one.items()}, **several}.items()
    }


async def measure_pages(
    rig: Rig, client: ServiceClient, paths: Mapping[str, Sequence[str]], requests: int
) -> dict[str, PageCost]:
    """Measure each page on a quiet ledger."""
    pages: dict[str, PageCost] = {}
    for name, each in paths.items():
        rig.say(f"opening {name}")
        cost = await measure_route(client, each, requests)
        body, _ = await client.ask("GET", each[-1])
        pages[name] = PageCost(cost, len(body if body[:2] == b"\x1f\x8b" else gzip.compress(body)))
    return pages


async def watch_streams(rig: Rig, client: ServiceClient, streams: int, seconds: float) -> Streams:
    """Open so many streams, and watch the service while all of them listen."""
    rig.say(f"watching {streams:,} open streams")
    events = 0
    opened = asyncio.Semaphore(0)

    async def listen() -> None:
        nonlocal events
        async with client.session.get("/console/live", timeout=aiohttp.ClientTimeout()) as reply:
            async for line in reply.content:
                if line.startswith(b"data: "):
                    events += 1
                    opened.release()

    tasks = [asyncio.create_task(listen()) for _ in range(streams)]
    try:
        async with asyncio.timeout(_OPENED_SECONDS):
            for _ in range(streams):
                await opened.acquire()
        meter = rig.meter()
        await asyncio.sleep(seconds)
        return Streams(streams, meter.read(), rig.memory_bytes()["service"], events)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def page_goals(
    pages: Mapping[str, PageCost], flooded: Mapping[str, Sequence[float]], streams: Streams
) -> list[Goal]:
    """Return the goals of the console."""
    routes = [page.route for page in pages.values()]
    beside = percentiles([seconds for each in flooded.values() for seconds in each])
    return [
        at_most(
            f"CPU a page of the console at most {CPU_GOAL_MILLISECONDS:.0f} ms",
            max(route.cpu_milliseconds for route in routes),
            CPU_GOAL_MILLISECONDS,
            "ms",
        ),
        at_most(
            f"p99 of each page below {QUIET_GOAL_MILLISECONDS:.0f} ms",
            max(route.p99_milliseconds for route in routes),
            QUIET_GOAL_MILLISECONDS,
            "ms",
        ),
        at_most(
            f"p99 of all pages below {FLOOD_GOAL_MILLISECONDS:.0f} ms while a flood drains",
            beside[1],
            FLOOD_GOAL_MILLISECONDS,
            "ms",
        ),
        at_most(
            f"each page below {BYTES_GOAL / 1e3:.0f} kB, compressed",
            max(page.bytes for page in pages.values()),
            BYTES_GOAL,
            "bytes",
        ),
        at_most(
            f"{streams.streams:,} open pages below {STREAMS_GOAL:.0%} of a core",
            round(sum(map(streams.usage.share_of_core().get, ("service", "postgres"), (0, 0))), 3),
            STREAMS_GOAL,
            "cores",
        ),
    ]


def page_figures(
    pages: Mapping[str, PageCost], flooded: Mapping[str, Sequence[float]], streams: Streams
) -> dict[str, Any]:
    """Return the figures of the console as they are printed."""
    every = [seconds for each in flooded.values() for seconds in each]
    return {
        "pages": {name: page.fields() for name, page in pages.items()},
        "pages_beside_a_flood": {
            "requests": len(every),
            "p50_milliseconds": percentiles(every)[0],
            "p99_milliseconds": percentiles(every)[1],
            "most_milliseconds": {
                name: round(max(seconds) * 1e3, 1) for name, seconds in flooded.items()
            },
        },
        "open_streams": {
            "streams": streams.streams,
            "memory_bytes": streams.memory_bytes,
            "share_of_core": streams.usage.share_of_core(),
            "events": streams.events,
        },
    }
