"""Items that are handed out, or run."""

from signal import SIGCONT
from typing import Final
from uuid import UUID

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.states import State

from .conftest import Installation, kill
from .hindered import Cases, Hindered

# It is handed out.


async def withdrawn(site: Installation) -> Hindered:
    [item] = await site.emit_direct("hang")
    await site.start_direct()
    await site.until_state(item, State.RUNNING)
    await site.run("cancel", str(item), "--reason", "the policy lapsed")
    return Hindered(item, leads_to=(), ended=site.end_hang)


async def _left_running(site: Installation) -> UUID:
    """Return an item whose worker was killed and whose lease has ended since."""
    [item] = await site.emit_direct("hang")
    worker = await site.start_direct()
    await site.until_state(item, State.RUNNING)
    await kill(worker)
    await site.end_hang()
    await site.connection.execute("update ledger.run set lease_until = ledger.machine_now()")
    return item


async def no_upkeep(site: Installation) -> Hindered:
    return Hindered(await _left_running(site))


async def lapsed(site: Installation) -> Hindered:
    item = await _left_running(site)
    unlock = await site.lock_rows("select from ledger.run for update")
    await site.start_direct()
    return Hindered(item, leads_to=(), ended=unlock)


async def not_published(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start_worker()
    await site.start("allocate", **{CRASH_VARIABLE: "allocator.recorded"})

    async def start_another() -> None:
        await site.start("allocate")

    return Hindered(item, leads_to=(), ended=start_another)


async def unread(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.grant(10)
    await site.start("allocate")
    await site.until_state(item, State.CLAIMED)
    await site.grant(0)
    return Hindered(item, says=(f" of {site.topic} at offset 0 since 2", "no live worker reads it"))


async def suspect(site: Installation) -> Hindered:
    await site.emit("hang", 20, partition_key="one")
    await site.connection.execute("update ledger.pending set batch_max = 1, state = 4, starts = 1")
    await site.start("allocate")
    await site.start_worker(TEST_CONCURRENCY="1")

    return Hindered(await _last_behind_a_run(site), leads_to=(), ended=site.end_hang)


async def _last_behind_a_run(site: Installation) -> UUID:
    """Wait until an item runs and others wait to be started; return the last of them."""

    async def waiting() -> UUID | None:
        return await site.connection.fetchval(
            "select i.id from ledger.open_item o join ledger.due_item i using (item_no)"
            " where o.state = $1 and exists (select from ledger.run)"
            " order by o.fence desc, o.position desc limit 1",
            State.CLAIMED,
        )

    return await site.eventually(waiting)


async def not_started(site: Installation) -> Hindered:
    await site.emit("hang", 8)
    await site.start("allocate")
    await site.start_worker(TEST_CONCURRENCY="1")
    return Hindered(await _last_behind_a_run(site), site.end_hang)


# It runs.


async def _awaiting(site: Installation) -> UUID:
    await site.put_kind(settled_by="topic", lease_seconds=3600)
    [item] = await site.emit()
    await site.start("allocate")
    await site.until_state(item, State.RUNNING)
    return item


async def no_outcome_intake(site: Installation) -> Hindered:
    item = await _awaiting(site)
    await site.report_outcome(item)
    return Hindered(item)


async def awaits_outcome(site: Installation) -> Hindered:
    item = await _awaiting(site)
    await site.start("work", "--outcomes")
    says = (f" of {site.topic} at offset 0 since 2", "it may until 2")
    return Hindered(item, lambda: site.report_outcome(item), says=says)


async def run_lost(site: Installation) -> Hindered:
    [item] = await site.emit_direct("hang")
    worker = await site.start_direct()
    await site.until_state(item, State.RUNNING)
    await kill(worker)
    await site.end_hang()

    async def start_another() -> None:
        await site.start_direct()

    return Hindered(item, leads_to=(), ended=start_another)


async def run_silent(site: Installation) -> Hindered:
    [item] = await site.emit_direct("hang")
    worker = await site.start_direct()
    await site.until_state(item, State.RUNNING)
    await site.freeze(worker)
    await site.end_hang()

    async def go_on() -> None:
        worker.send_signal(SIGCONT)

    return Hindered(item, leads_to=(), ended=go_on)


async def running(site: Installation) -> Hindered:
    [item] = await site.emit_direct("hang")
    await site.start_direct()
    return Hindered(item, leads_to=(), ended=site.end_hang)


CASES: Final[Cases] = (
    (Hindrance.WITHDRAWN, withdrawn),
    (Hindrance.NO_UPKEEP, no_upkeep),
    (Hindrance.LAPSED, lapsed),
    (Hindrance.NOT_PUBLISHED, not_published),
    (Hindrance.UNREAD, unread),
    (Hindrance.SUSPECT, suspect),
    (Hindrance.NOT_STARTED, not_started),
    (Hindrance.NO_OUTCOME_INTAKE, no_outcome_intake),
    (Hindrance.AWAITS_OUTCOME, awaits_outcome),
    (Hindrance.RUN_LOST, run_lost),
    (Hindrance.RUN_SILENT, run_silent),
    (Hindrance.RUNNING, running),
)
