"""CPU of the backend an item, at each door by which services emit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from statistics import median
from typing import Any, Final, final

import orjson
import psutil

from bench.draining import PREFIX, WARM_UP_PREFIX
from bench.ledgers import MeasurementFailed
from bench.measurements import bench_statement
from bench.report import Goal
from bench.rig import APPLICATION, Rig
from bench.workload import make_batches
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, PlanProfile, connect

ROUNDS: Final = 5


@final
@dataclass(frozen=True, slots=True)
class Door:
    """A way to emit `batch` items in one statement, and its goal in microseconds an item."""

    name: str
    statement: str
    batch: int
    microseconds_max: float
    arguments: Callable[[Sequence[ItemDraft]], list[Any]]


def _columns(drafts: Sequence[ItemDraft]) -> list[Any]:
    return [
        [draft.tenant for draft in drafts],
        [draft.kind for draft in drafts],
        [draft.business_key for draft in drafts],
        [draft.effective_date for draft in drafts],
        [draft.due_at for draft in drafts],
        [draft.payload for draft in drafts],
    ]


def _values(drafts: Sequence[ItemDraft]) -> list[Any]:
    return [column[0] for column in _columns(drafts)]


def _document(drafts: Sequence[ItemDraft]) -> list[Any]:
    names = ("tenant", "kind", "business_key", "effective_date", "due_at")
    items = [
        {name: getattr(draft, name) for name in names} | {"payload": orjson.Fragment(draft.payload)}
        for draft in drafts
    ]
    return [orjson.dumps(items).decode()]


DOORS: Final = (
    Door("one call a statement", bench_statement("emit_one"), 1, 120, _values),
    Door("500 calls a statement", bench_statement("emit_calls"), 500, 60, _columns),
    Door("arrays of 2,000", bench_statement("emit_arrays"), 2_000, 22, _columns),
    Door("JSON of 2,000", bench_statement("emit_json"), 2_000, 30, _document),
)


async def measure_doors(rig: Rig, items: int) -> tuple[list[Goal], dict[str, Any]]:
    """Emit about `items` at each door in open transactions; return goals, and figures by door."""
    goals: list[Goal] = []
    figures: dict[str, Any] = {}
    async with rig.ledger() as ledger:
        for number, door in enumerate(DOORS):
            rig.say(f"emitting by {door.name}")
            connection = await connect(
                ledger.dsn, application_name=APPLICATION, profile=PlanProfile.ANALYTIC
            )
            try:
                batches = max(items // ROUNDS // door.batch, 1)
                await _round(
                    connection,
                    door,
                    _drafts(ledger.kind, door, f"{WARM_UP_PREFIX}{number}-", 10),
                )
                rounds = [
                    await _round(
                        connection,
                        door,
                        _drafts(ledger.kind, door, f"{PREFIX}{number}-{n}-", batches),
                    )
                    for n in range(ROUNDS)
                ]
            finally:
                await connection.close()
            figures[door.name] = {
                "median": round(median(rounds), 1),
                "least": round(min(rounds), 1),
                "most": round(max(rounds), 1),
            }
            says = f"{door.microseconds_max:g} microseconds of the backend an item, {door.name}"
            goals.append(
                Goal(says, figures[door.name]["median"], door.microseconds_max, "us", ceiling=True)
            )
    return goals, figures


def _drafts(kind: str, door: Door, prefix: str, batches: int) -> list[list[ItemDraft]]:
    drafts = chain.from_iterable(make_batches(kind, batches * door.batch, prefix=prefix))
    return [list(islice(drafts, door.batch)) for _ in range(batches)]


async def _round(
    connection: Connection, door: Door, batches: Sequence[Sequence[ItemDraft]]
) -> float:
    """Return the microseconds that the backend used for an item. All of them must be new."""
    arguments = [door.arguments(batch) for batch in batches]
    backend = psutil.Process(connection.get_server_pid())
    async with connection.transaction():
        before = sum(backend.cpu_times()[:2])
        created = 0
        for each in arguments:
            created += await connection.fetchval(door.statement, *each)
        used = sum(backend.cpu_times()[:2]) - before
    items = len(batches) * door.batch
    if created != items:
        raise MeasurementFailed(f"{created:,} of {items:,} items were new")
    return used / items * 1e6
