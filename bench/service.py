"""REST and console on a large ledger: bulk emission, lists, items, pages, beside a flood.

The ledger has a mixture of states: most items are completed, half of these of schedules and half of
an event rule; others are due, pending for later, or cancelled.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from statistics import median
from time import monotonic
from typing import Any, Final, final
from uuid import UUID

import aiohttp
import orjson
import psutil

from bench.console_pages import (
    FLOOD_TENANT,
    measure_pages,
    open_console_client,
    page_figures,
    page_goals,
    page_paths,
    watch_streams,
)
from bench.draining import HANDLERS, PREFIX
from bench.ended_ledger import TENANT, load_ended
from bench.ledgers import Ledger, MeasurementFailed, after
from bench.measurements import bench_statement, fill_past_load, read_drain
from bench.report import Measured, at_most
from bench.rig import APPLICATION, Rig
from bench.service_requests import (
    CALENDAR,
    CALENDAR_PATH,
    RouteCost,
    ServiceClient,
    measure_route,
    paths_of,
    percentiles,
)
from bench.usage import Usage
from bench.workload import TENANTS, make_batches, tenant_flows
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import PlanProfile, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope, create_key
from dueledger.ledger.store.items import withdraw_items
from dueledger.stack import free_ports

EMISSION: Final = 10_000
EMISSION_GOAL_SECONDS: Final = 1.5
CPU_GOAL_MILLISECONDS: Final = 10.0
QUIET_GOAL_MILLISECONDS: Final = 50.0
FLOOD_GOAL_MILLISECONDS: Final = 300.0
IDLE_GOAL: Final = 0.01
POLLS_GOAL_BYTES: Final = 200_000_000
POLL_WAIT_SECONDS: Final = 300
LATER_SECONDS: Final = 30 * 86_400.0
STARTED_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.02
READ_MAX: Final = 1_000
PAST_KINDS: Final = 30
FLOOD: Final = "FLOOD-"
SERVICE: Final = "service"
SCOPES: Final = (Scope.READ, Scope.EMIT, Scope.OPERATE, Scope.ADMIN, Scope.WORK)


@final
@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The ledger, the flood among it, the requests of each route, and the time of idleness."""

    items: int = 10_000_000
    flood_items: int = 1_000_000
    requests: int = 200
    emissions: int = 5
    seconds: float = 30.0
    polls: int = 1_000
    streams: int = 1_000


@final
@dataclass(frozen=True, slots=True)
class _Emissions:
    """Requests of 10,000 items: seconds, of these those in which a process waited for a core.

    Then the CPU of service and backend, and of `emit_arrays` for as many items.
    """

    seconds: list[float]
    queued_seconds: list[float]
    service_seconds: float
    backend_seconds: float
    arrays_seconds: float


async def bench_service(rig: Rig, options: ServiceOptions) -> Measured:
    """Load a ledger and measure a service on it: idle, by route, in bulk, and beside a flood."""
    async with rig.ledger() as ledger:
        await _load(ledger, rig, options)
        async with (
            _serving(rig, ledger) as client,
            open_console_client(ledger, client.service_pid) as browser,
        ):
            paths, pages = await _paths(client, ledger, options)
            idle, memory = await _watch_idle(rig, options.seconds)
            polled, polling_memory = await _watch_polls(rig, ledger, client, options)
            routes: dict[str, RouteCost] = {}
            for name, each in paths.items():
                rig.say(f"asking for {name}")
                routes[name] = await measure_route(client, each, options.requests)
            streams = await watch_streams(rig, browser, options.streams, options.seconds)
            page_costs = await measure_pages(rig, browser, pages, options.requests)
            emissions = await _emit(rig, ledger, client, options.emissions)
            flooded, flooded_pages = await _flood(rig, ledger, (client, paths), (browser, pages))
            rig.require_alive()
    every = [seconds for each in flooded.values() for seconds in each]
    slowest = max(routes.values(), key=lambda route: route.cpu_milliseconds)
    goals = [
        at_most(
            f"{EMISSION:,} items by one request within {EMISSION_GOAL_SECONDS} s",
            round(max(emissions.seconds), 3),
            EMISSION_GOAL_SECONDS,
            "s",
        ),
        at_most(
            f"CPU a request at most {CPU_GOAL_MILLISECONDS:.0f} ms for each list and item",
            slowest.cpu_milliseconds,
            CPU_GOAL_MILLISECONDS,
            "ms",
        ),
        at_most(
            f"p99 of each below {QUIET_GOAL_MILLISECONDS:.0f} ms",
            max(route.p99_milliseconds for route in routes.values()),
            QUIET_GOAL_MILLISECONDS,
            "ms",
        ),
        at_most(
            f"p99 of all below {FLOOD_GOAL_MILLISECONDS:.0f} ms while a flood drains",
            percentiles(every)[1],
            FLOOD_GOAL_MILLISECONDS,
            "ms",
        ),
        at_most(
            "idle under 1 % of a core",
            round(idle.share_of_core()[SERVICE], 4),
            IDLE_GOAL,
            "cores",
        ),
        at_most(
            f"{options.polls:,} open long polls below {POLLS_GOAL_BYTES / 1e6:.0f} MB",
            polling_memory,
            POLLS_GOAL_BYTES,
            "bytes",
        ),
        *page_goals(page_costs, flooded_pages, streams),
    ]
    figures = {
        "emission": _emission_fields(emissions),
        "routes": {
            name: {**asdict(route), "cpu_milliseconds": route.cpu_milliseconds}
            for name, route in routes.items()
        },
        "beside_a_flood": {
            "requests": len(every),
            "p50_milliseconds": percentiles(every)[0],
            "p99_milliseconds": percentiles(every)[1],
            "most_milliseconds": {
                name: round(max(seconds) * 1e3, 1) for name, seconds in flooded.items()
            },
        },
        **page_figures(page_costs, flooded_pages, streams),
        "idle_memory_bytes": memory,
        "open_polls": {
            "polls": options.polls,
            "memory_bytes": polling_memory,
            "share_of_core": polled.share_of_core(),
        },
    }
    return Measured(goals, figures, idle)


async def _load(ledger: Ledger, rig: Rig, options: ServiceOptions) -> None:
    """Load items in a mixture of states: ended, due, pending for later, and cancelled."""
    others = (options.items - options.flood_items) // 10
    await load_ended(ledger, rig, options.items - options.flood_items - others)
    now = await ledger.now()
    await fill_past_load(ledger.connection, TENANT, PAST_KINDS, now)
    await ledger.load(
        options.flood_items,
        flows=[(FLOOD_TENANT, ledger.kind, "")],
        prefix=FLOOD,
        due_at=now,
    )
    await ledger.load(
        others,
        flows=tenant_flows(ledger.other_kind),
        prefix=PREFIX,
        due_at=after(now, LATER_SECONDS),
        spacing_seconds=1.0,
    )
    await ledger.rest()


@asynccontextmanager
async def _serving(rig: Rig, ledger: Ledger) -> AsyncGenerator[ServiceClient]:
    """Run `dueledger serve` for the block, and give a client whose key reaches all tenants."""
    port = free_ports.free()
    ledger.environment["DUELEDGER_SERVICE_PORT"] = str(port)
    ledger.environment["DUELEDGER_SERVICE_RATE_PER_SECOND"] = "100000"  # one key asks for all
    person_no = await register_actor(ledger.connection, "person:bench", ActorKind.PERSON)
    key = await create_key(
        ledger.connection,
        "key:bench",
        scopes=SCOPES,
        tenants=[TENANT, FLOOD_TENANT, *(f"tenant-{number}" for number in range(TENANTS))],
        expires_at=None,
        created_by=person_no,
    )
    assert key is not None  # noqa: S101 - the ledger is new
    headers = {"Authorization": f"Bearer {key.text}", "Content-Type": "application/json"}
    async with (
        rig.several(SERVICE, 1, ledger, "serve") as [process],
        aiohttp.ClientSession(
            f"http://{free_ports.LOOPBACK}:{port}",
            headers=headers,
            connector=aiohttp.TCPConnector(limit=0),  # or a hundred polls are all
        ) as session,
    ):
        await _until_ready(rig, session)
        yield ServiceClient(session, ledger.watcher, process.pid)


async def _until_ready(rig: Rig, session: aiohttp.ClientSession) -> None:
    until = monotonic() + STARTED_SECONDS
    while monotonic() < until:
        rig.require_alive()
        try:
            async with session.get("/health/ready") as reply:
                if reply.ok:
                    return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.1)
    raise MeasurementFailed(f"the service was not ready within {STARTED_SECONDS:.0f} s")


async def _paths(
    client: ServiceClient, ledger: Ledger, options: ServiceOptions
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Put a calendar, cancel some items, and choose items from the whole ledger.

    Return the paths of routes, and those of pages.
    """
    await client.ask("PUT", CALENDAR_PATH, orjson.dumps(CALENDAR))
    of_events = (options.items - options.flood_items) * 9 // 20
    step = max(1, of_events // options.requests)
    keys = [f"P-{number:09}" for number in range(1, of_events, step)][: options.requests]
    ids: list[str] = []
    for key in keys:
        found, _ = await client.ask("GET", f"/v1/items?business_key={key}")
        ids.extend(item["id"] for item in found["items"])
    found, _ = await client.ask("GET", f"/v1/items?kind={ledger.other_kind}&open=true&limit=1000")
    open_ids = [item["id"] for item in found["items"]]
    await withdraw_items(
        ledger.connection,
        [UUID(item) for item in open_ids[: len(open_ids) // 2]],
        event=TransitionEvent.CANCELLED,
        reason="bench",
        actor_no=ledger.actor_no,
    )
    found, _ = await client.ask("GET", f"/v1/items?limit={READ_MAX}")
    if len(ids) < len(keys) or found["next_cursor"] is None:
        raise MeasurementFailed(f"{len(ids):,} of {len(keys):,} items were found by their keys")
    ids += open_ids[:: len(open_ids) // 10 or 1]
    routes = paths_of(ledger.kind, ids, keys, found["next_cursor"])
    return routes, page_paths(ledger, ids, keys)


async def _watch_idle(rig: Rig, seconds: float) -> tuple[Usage, int]:
    rig.say("watching the idle service")
    meter = rig.meter()
    await asyncio.sleep(seconds)
    return meter.read(), rig.memory_bytes()[SERVICE]


async def _watch_polls(
    rig: Rig, ledger: Ledger, client: ServiceClient, options: ServiceOptions
) -> tuple[Usage, int]:
    """Watch the service while polls wait that find nothing; return its usage and memory."""
    rig.say(f"watching {options.polls:,} open long polls")
    asked = {"kinds": [ledger.kind], "lanes": ["nothing"], "wait_seconds": POLL_WAIT_SECONDS}
    polls = [
        asyncio.create_task(client.ask("POST", "/v1/claims", orjson.dumps(asked)))
        for _ in range(options.polls)
    ]
    try:
        await asyncio.wait_for(client.until_waiting(options.polls), POLL_WAIT_SECONDS / 2)
        meter = rig.meter()
        await asyncio.sleep(options.seconds)
        return meter.read(), rig.memory_bytes()[SERVICE]
    finally:
        for each in polls:
            each.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def _emit(rig: Rig, ledger: Ledger, client: ServiceClient, emissions: int) -> _Emissions:
    """Emit items that are due later in requests of 10,000, and as many by `emit_arrays`."""
    rig.say(f"emitting {emissions} times {EMISSION:,} items by one request")
    kind = ledger.other_kind
    later = after(await ledger.now(), LATER_SECONDS)

    def drafts(prefix: str, count: int = EMISSION) -> list[ItemDraft]:
        return [each for batch in make_batches(kind, count, prefix=prefix) for each in batch]

    def body(prefix: str, count: int = EMISSION) -> bytes:
        names = ("tenant", "kind", "business_key", "cycle", "effective_date")
        items = [
            {name: getattr(each, name) for name in names}
            | {"due_at": later, "payload": orjson.Fragment(each.payload)}
            for each in drafts(prefix, count)
        ]
        return orjson.dumps({"items": items})

    await client.ask("POST", "/v1/items", body("EMITTED-WARM-", 100))
    bodies = [body(f"EMITTED-{number}-") for number in range(emissions)]
    before = await client.cpu()
    timed = [await client.timed("POST", "/v1/items", each) for each in bodies]
    if any(item["verdict"] != "created" for each in timed for item in each.answer["items"]):
        raise MeasurementFailed("an item was not new")
    service, backend = (await client.cpu()).since(before)
    connection = await connect(
        ledger.dsn, application_name=APPLICATION, profile=PlanProfile.ANALYTIC
    )
    try:
        process = psutil.Process(connection.get_server_pid())
        columns = [_columns(drafts(f"ARRAYS-{number}-")) for number in range(emissions)]
        used = sum(process.cpu_times()[:2])
        for values in columns:
            dues = [later] * EMISSION
            await connection.fetchval(bench_statement("emit_arrays"), *values[:4], dues, values[4])
        used = sum(process.cpu_times()[:2]) - used
    finally:
        await connection.close()
    return _Emissions(
        [each.seconds for each in timed],
        [each.queued_seconds for each in timed],
        service / emissions,
        backend / emissions,
        used / emissions,
    )


def _columns(drafts: list[ItemDraft]) -> list[list[Any]]:
    names = ("tenant", "kind", "business_key", "effective_date", "payload")
    return [[getattr(each, name) for each in drafts] for name in names]


def _emission_fields(one: _Emissions) -> dict[str, Any]:
    return {
        "items": EMISSION,
        "seconds": {
            "least": round(min(one.seconds), 3),
            "median": round(median(one.seconds), 3),
            "most": round(max(one.seconds), 3),
        },
        "queued_seconds": [round(each, 3) for each in one.queued_seconds],
        "cpu_seconds": {
            "service": round(one.service_seconds, 3),
            "backend": round(one.backend_seconds, 3),
            "backend_by_emit_arrays": round(one.arrays_seconds, 3),
        },
    }


async def _flood(
    rig: Rig, ledger: Ledger, *asked: tuple[ServiceClient, dict[str, list[str]]]
) -> list[dict[str, list[float]]]:
    """Ask for each in turn while allocator and worker complete the due items; return the seconds.

    Raises MeasurementFailed if they ended before each was asked for.
    """
    rig.say("asking while a flood drains")
    seconds = [{name: list[float]() for name in paths} for _, paths in asked]
    async with (
        rig.several("worker", 1, ledger, "work", HANDLERS),
        rig.several("allocator", 1, ledger, "allocate"),
    ):
        number = 0
        while (drain := await read_drain(ledger.watcher, ledger.kind)).has_pending:
            rig.require_alive()
            if not drain.has_claims:
                await asyncio.sleep(POLL_SECONDS)
                continue
            for taken, (client, paths) in zip(seconds, asked, strict=True):
                for name, each in paths.items():
                    path = each[number % len(each)]
                    taken[name].append((await client.ask("GET", path))[1])
            number += 1
    if number == 0:
        raise MeasurementFailed("the flood ended before anything was asked for; make it larger")
    return seconds
