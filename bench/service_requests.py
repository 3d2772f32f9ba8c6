"""Requests to a service under measurement: their times, and the CPU of it and of its backends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from statistics import quantiles
from time import perf_counter
from typing import Any, Final, final

import aiohttp
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
CALENDAR_PATH: Final = f"/v1/calendars/{TENANT}/days"


@final
class ServiceClient:
    """Sends requests with a key, one at a time, and reads what they cost."""

    def __init__(
        self, session: aiohttp.ClientSession, watcher: Connection, service_pid: int
    ) -> None:
        self._session = session
        self._watcher = watcher
        self._service = psutil.Process(service_pid)

    async def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[Any, float]:
        """Return an answer and the seconds that it took. Raises MeasurementFailed for a problem."""
        content = None if body is None else BytesIO(body)
        began = perf_counter()
        async with self._session.request(method, path, data=content) as reply:
            answer = await reply.read()
            seconds = perf_counter() - began
            if not reply.ok:
                raise MeasurementFailed(f"{method} {path}: {answer.decode()}")
            return await reply.json(), seconds

    async def cpu(self) -> "Cpu":
        """Read the CPU of the service, and of its connections to Postgres."""
        pids = await list_backends(self._watcher, ActorKind.API)
        return Cpu(_seconds(self._service), {pid: _seconds(psutil.Process(pid)) for pid in pids})


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
    """What the requests of one route took, one after another."""

    requests: int
    service_milliseconds: float
    backend_milliseconds: float
    p50_milliseconds: float
    p99_milliseconds: float

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
    seconds = [(await client.ask("GET", paths[n % len(paths)]))[1] for n in range(requests)]
    service, backend = (await client.cpu()).since(before)
    p50, p99 = percentiles(seconds)
    per_request = 1e3 / requests
    return RouteCost(
        requests, round(service * per_request, 2), round(backend * per_request, 2), p50, p99
    )


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return round(cuts[49] * 1e3, 2), round(cuts[98] * 1e3, 2)


def _seconds(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])
