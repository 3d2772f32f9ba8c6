"""Items that the limits of their flow hold back."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.states import State

from .conftest import Installation
from .hindered import HANDED_OUT, LATE_RETRIES, Cases, Hindered

FIRST: Final = datetime(2025, 1, 1, tzinfo=UTC)


async def _after_failure(site: Installation, how: str, rest_seconds: float) -> UUID:
    """Let one item fail, so that the circuit opens; return an item that waits for it."""
    await site.put_kind(**LATE_RETRIES)
    await site.emit_direct("fail")
    await site.connection.execute(
        "update ledger.flow set circuit_failure_ratio = 0.1, circuit_calls_min = 1,"
        " circuit_rest_seconds = $1",
        rest_seconds,
    )
    await site.start_direct()

    async def is_open() -> bool:
        return await site.connection.fetchval("select circuit <> 'closed' from ledger.flow")

    await site.eventually(is_open)
    [item, *_] = await site.emit(how)
    return item


async def circuit_open(site: Installation) -> Hindered:
    return Hindered(await _after_failure(site, "key", 3600))


async def circuit_probing(site: Installation) -> Hindered:
    probe = await _after_failure(site, "hang", 0.5)
    await site.until_state(probe, State.RUNNING)
    [item] = await site.emit()
    return Hindered(item, ended=site.end_hang)


async def concurrency(site: Installation) -> Hindered:
    [first] = await site.emit_direct("hang")
    await site.run("flow", "set", "acme", site.kind, "--concurrency", "1")
    await site.start_direct()
    await site.until_state(first, State.RUNNING)
    [item] = await site.emit()
    return Hindered(item, ended=site.end_hang)


async def rate(site: Installation) -> Hindered:
    [first] = await site.emit_direct(due_at=FIRST)
    await site.run("flow", "set", "acme", site.kind, "--rate", "0.01")
    await site.start_direct()
    await site.until_state(first, State.COMPLETED)
    await site.emit("before", 50)
    [item] = await site.emit("last")
    await site.connection.execute(
        "update ledger.pending set available_at = available_at + interval '1 ms' where item_no ="
        " (select max(item_no) from ledger.pending)"
    )
    return Hindered(item, says=("to 0.01 items a second, and 50 items are before it",))


async def window(site: Installation) -> Hindered:
    await site.emit("key", due_at=FIRST)
    await site.run("flow", "set", "acme", site.kind, "--window", "1")
    await site.grant(10)
    await site.start("allocate")
    [item] = await site.emit("second")
    return Hindered(item, leads_to=HANDED_OUT)


async def silent_consumer(site: Installation) -> Hindered:
    await site.put_kind(settled_by="topic", lease_seconds=1)
    items = await site.emit("key", 3)
    await site.start("allocate")

    async def one_is_handed_out() -> UUID | None:
        states = {item: (await site.shown(item))["state"] for item in items}
        silent = await site.connection.fetchval("select count(*) from ledger.silent_topic")
        running = [item for item, state in states.items() if state == State.RUNNING.label]
        return running[0] if silent and len(running) == 1 else None

    first = await site.eventually(one_is_handed_out)
    await site.put_kind(lease_seconds=3600)

    async def report_all() -> bool:
        """Report each item that is handed out; a claim that lapsed meanwhile is refused."""
        states = [(await site.shown(item))["state"] for item in items]
        for item, state in zip(items, states, strict=True):
            if state == State.RUNNING.label:
                await site.report_outcome(item)
        return set(states) == {State.COMPLETED.label}

    waiting = next(item for item in items if item != first)
    return Hindered(waiting, lambda: site.eventually(report_all))


CASES: Final[Cases] = (
    (Hindrance.CIRCUIT_OPEN, circuit_open),
    (Hindrance.CIRCUIT_PROBING, circuit_probing),
    (Hindrance.CONCURRENCY, concurrency),
    (Hindrance.RATE, rate),
    (Hindrance.WINDOW, window),
    (Hindrance.SILENT_CONSUMER, silent_consumer),
)
