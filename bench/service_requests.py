"""Requests to a service under measurement: their times, and the CPU of it and of its backends."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any, Final, NamedTuple, final

import aiohttp
import orjson
import psutil

from bench.ended_ledger import RULE, TENANT, schedule_name
from bench.ledgers import MeasurementFailed
from bench.measurements import list_backends
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind

CALENDAR: Final = {
    "weekend": ["sat", "sun"],
    "holidays": ["2027-01-01"],
    "first_day": "2027-01-01",
    "last_day": "2027-12-31",
}
_QUIET_SHARE: Final = 0.05
"""Of a core."""
CALENDAR_PATH: Final = f"/v1/calendars/{TENANT}/days"


@final
class ServiceClient:
    """Sends requests with a key, one at a time, and reads what they cost."""

    def __init__(
        self, session: aiohttp.ClientSession, watcher: Connection, service_pid: int
    ) -> None:
        self.session = session
        self.service_pid = service_pid
        self._watcher = watcher
        self._service = psutil.Process(service_pid)
        self._queued = [open_queue_time(pid) for pid in (os.getpid(), service_pid)]
        self._queued_by_backend: dict[int, QueueTime] = {}

    async def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[Any, float]:
        """Return an answer and the seconds that it took: bytes, or what its JSON is.

        Raises MeasurementFailed for a problem.
        """
        content = None if body is None else BytesIO(body)
        began = perf_counter()
        async with self.session.request(method, path, data=content) as reply:
            answer = await reply.read()
            seconds = perf_counter() - began
            if not reply.ok:
                raise MeasurementFailed(f"{method} {path}: {answer.decode(errors='replace')}")
            is_json = reply.content_type == "application/json"
            return orjson.loads(answer) if is_json else answer, seconds

    async def until_waiting(self, polls: int) -> None:
        """Return when the service has so many connections and has nothing more to do for them."""
        used = 0.0
        while True:
            before = used
            await asyncio.sleep(1.0)
            used = _seconds(self._service)
            open_ = [each for each in self._service.net_connections("tcp") if each.raddr]
            if len(open_) >= polls and used - before < _QUIET_SHARE:
                return

    async def timed(self, method: str, path: str, body: bytes | None = None) -> "Timed":
        """Return an answer, its seconds, and for how many of them a process waited for a core.

        Of the connections to Postgres, those count that `cpu` found last. Raises as `ask` does.
        """
        before = self._queued_seconds()
        answer, seconds = await self.ask(method, path, body)
        return Timed(answer, seconds, min(seconds, self._queued_seconds() - before))

    def _queued_seconds(self) -> float:
        return sum(each() for each in (*self._queued, *self._queued_by_backend.values()))

    async def cpu(self) -> "Cpu":
        """Read the CPU of the service, and of its connections to Postgres."""
        pids = await list_backends(self._watcher, ActorKind.API)
        for pid in pids:
            self._queued_by_backend.setdefault(pid, open_queue_time(pid))
        return Cpu(_seconds(self._service), {pid: _seconds(psutil.Process(pid)) for pid in pids})


class Timed(NamedTuple):
    """An answer, its seconds, and the seconds of these in which a process waited for a core."""

    answer: Any
    seconds: float
    queued_seconds: float


QueueTime = Callable[[], float]


def open_queue_time(pid: int) -> QueueTime:
    """Return a function that reads for how long a process has waited for a core, in seconds.

    Of its main thread. Where the kernel does not say, it is 0.
    """
    path = Path(f"/proc/{pid}/schedstat")

    def read() -> float:
        try:
            return int(path.read_text().split()[1]) / 1e9
        except OSError:  # another system, or the process has ended
            return 0.0

    return read


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds so far: of the service, and of each backend by its process id."""

    service: float
    backends: Mapping[int, float]

    def since(self, before: "Cpu") -> tuple[float, float]:
        """Return what both used since an earlier reading."""
        backends = sum(used - before.backends.get(pid, 0.0) for pid, used in self.backends.items())
        return self.service - before.service, backends


@final
@dataclass(frozen=True, slots=True)
class RouteCost:
    """What the requests of one route took, one after another.

    `p99_unqueued_milliseconds` leaves out for how long service, backends and client waited for a
    core: on a machine with other work it is nearer to what the route itself takes.
    """

    requests: int
    service_milliseconds: float
    backend_milliseconds: float
    p50_milliseconds: float
    p99_milliseconds: float
    p99_unqueued_milliseconds: float

    @property
    def cpu_milliseconds(self) -> float:
        """CPU of service and backend a request."""
        return round(self.service_milliseconds + self.backend_milliseconds, 2)


def paths_of(
    kind: str, ids: Sequence[str], keys: Sequence[str], cursor: str
) -> dict[str, list[str]]:
    """Return the paths of each list and item route, by what is asked for."""
    lists = {
        "items": "",
        "items of a tenant and a kind": f"?tenant={TENANT}&kind={kind}",
        "items, a later page": f"?cursor={cursor}",
        "items that are completed": "?state=Completed",
        "items that are cancelled": "?state=Cancelled",
        "items of a label": "?label=region=EU",
        "items due on a day": "?due_from=2027-03-10T00:00:00Z&due_before=2027-03-11T00:00:00Z",
        "items that are open": "?open=true",
        "items that are open, of a tenant": f"?open=true&tenant=tenant-1&kind={kind}",
        "items that are scheduled": "?state=Scheduled",
        "items that are late": "?late=true",
    }
    ticks = f"/v1/definitions/{TENANT}/{schedule_name(1)}"
    rule = f"/v1/definitions/{TENANT}/{RULE}"
    one = {
        **{name: f"/v1/items{query}" for name, query in lists.items()},
        "definitions": "/v1/definitions",
        "a definition": rule,
        "versions of a definition": f"{rule}/versions",
        "executions of a schedule": f"{ticks}/executions",
        "executions of an event rule": f"{rule}/executions",
        "occurrences of a schedule": f"{ticks}/occurrences",
        "calendars": "/v1/calendars",
        "a calendar": CALENDAR_PATH,
        "keys": "/v1/keys",
    }
    return {
        **{name: [path] for name, path in one.items()},
        "items of a business key": [f"/v1/items?business_key={key}" for key in keys],
        "an item": [f"/v1/items/{item}" for item in ids],
        "timeline of an item": [f"/v1/items/{item}/timeline" for item in ids],
        "why of an item": [f"/v1/items/{item}/why" for item in ids],
    }


async def measure_route(client: ServiceClient, paths: Sequence[str], requests: int) -> RouteCost:
    """Send a route's requests one after another, the first of them unmeasured."""
    await client.ask("GET", paths[-1])
    before = await client.cpu()
    timed = [await client.timed("GET", paths[n % len(paths)]) for n in range(requests)]
    service, backend = (await client.cpu()).since(before)
    p50, p99 = percentiles([each.seconds for each in timed])
    _, unqueued = percentiles([each.seconds - each.queued_seconds for each in timed])
    service, backend = (round(each * 1e3 / requests, 2) for each in (service, backend))
    return RouteCost(requests, service, backend, p50, p99, unqueued)


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return round(cuts[49] * 1e3, 2), round(cuts[98] * 1e3, 2)


def _seconds(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])
