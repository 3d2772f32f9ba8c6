"""Each hindrance, made on a real installation: an item that it hinders, and what ends it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from signal import SIGCONT, SIGSTOP
from socket import socket
from typing import Final
from uuid import UUID

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.states import State
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.processes import ProcessRole
from tests.wire import wire_to

from .conftest import Installation, kill

FIRST: Final = datetime(2025, 1, 1, tzinfo=UTC)
SECOND: Final = datetime(2026, 1, 2, tzinfo=UTC)
LATER: Final = datetime(2199, 1, 1, tzinfo=UTC)
LATE_RETRIES: Final = {"backoff_base_seconds": 1e6, "backoff_cap_seconds": 1e6}
HANDED_OUT: Final = (State.CLAIMED, State.RUNNING, State.COMPLETED)


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Hindered:
    """An item that is hindered. `mend` does what its remedy asks for beside commands.

    `leads_to` are the states to which the remedy leads; none: it only explains. `ended` is called
    after that, so that the item completes all the same. The sentence has the words of `says`.
    """

    item: UUID
    mend: Callable[[], Awaitable[object]] = _nothing
    leads_to: tuple[State, ...] = (State.COMPLETED,)
    ended: Callable[[], Awaitable[object]] = _nothing
    says: tuple[str, ...] = ()


# Its time, and decisions of people.


async def ended(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.run("cancel", str(item), "--reason", "the policy lapsed")
    return Hindered(item, leads_to=())


async def not_due(site: Installation) -> Hindered:
    [item] = await site.emit_direct(due_at=LATER)
    await site.start_direct()
    await site.until_live(ProcessRole.DIRECT_WORKER)
    return Hindered(item)


async def clock_behind(site: Installation) -> Hindered:
    await set_clock(site.connection, datetime(2025, 6, 1, tzinfo=UTC), 0, database=True)
    await site.reconnect()
    [item] = await site.emit_direct()

    async def restart() -> None:
        await site.reconnect()
        await site.start_direct()

    return Hindered(item, restart)


async def retry(site: Installation) -> Hindered:
    await site.put_kind(**LATE_RETRIES)
    [item] = await site.emit_direct("fail")
    await site.start_direct()
    return Hindered(item)


async def snoozed(site: Installation) -> Hindered:
    [item] = await site.emit_direct("snooze")
    await site.start_direct()
    return Hindered(item)


async def released(site: Installation) -> Hindered:
    [item] = await site.emit_direct("lack")
    await site.start_direct()
    return Hindered(item, says=("the secret BILLING is missing",))


async def expired(site: Installation) -> Hindered:
    await site.put_kind(queue_seconds=1)
    [item] = await site.emit()
    await site.connection.execute(
        "insert into ledger.partition_backoff (topic, partition, expirations, available_at)"
        " select $1, partition, 3, ledger.now() from generate_series(0, 99) partition",
        site.topic,
    )  # the next lasts 8 s: a command that prints it takes longer than the first, of 1 s
    await site.grant(10)
    await site.start("allocate")

    async def keep_up() -> None:
        await site.grant(0)
        await site.put_kind(queue_seconds=3600)

    return Hindered(item, keep_up)


async def parked(site: Installation) -> Hindered:
    [item] = await site.emit_direct("park")
    await site.start_direct()
    return Hindered(item)


async def paused_tenant(site: Installation) -> Hindered:
    [item] = await site.emit_direct(due_at=LATER, lane="eu")
    await site.run("pause", "acme", "--reason", "a deployment")
    await site.run("pause", "acme", site.kind, "--reason", "a narrower one")
    await site.start_direct()
    await site.run("trigger", str(item), "--reason", "it is wanted now")
    return Hindered(item)


async def paused_kind(site: Installation) -> Hindered:
    [item] = await site.emit_direct()
    await site.run("pause", "acme", site.kind, "--reason", "a deployment")
    await site.start_direct()
    return Hindered(item)


async def paused_lane(site: Installation) -> Hindered:
    [item] = await site.emit_direct(lane="north west")
    await site.run("pause", "acme", site.kind, "--lane", "north west", "--reason", "a deployment")
    await site.start_direct()
    return Hindered(item)


async def _redriven(site: Installation) -> UUID:
    [item] = await site.emit_direct()
    await site.connection.execute("update ledger.pending set state = 4, attempt = 1")
    await site.run("park", str(item), "--reason", "the address is wrong")
    await site.run(
        *("redrive", "--tenant", "acme", "--kind", site.kind),
        *("--reason", "it was corrected", "--execute"),
    )
    return item


async def operation_waits(site: Installation) -> Hindered:
    return Hindered(await _redriven(site))


async def operation_runs(site: Installation) -> Hindered:
    item = await _redriven(site)
    unlock = await site.lock_rows("select from ledger.operation for update")
    await site.start_direct()
    return Hindered(item, leads_to=(), ended=unlock)


# Its key.


async def _follower(site: Installation, how: str) -> UUID:
    """Emit an item, and return one that may only run after it."""
    await site.put_kind(ordering="key", **LATE_RETRIES)
    await site.emit_direct(how, partition_key="one")
    [item] = await site.emit(partition_key="one", due_at=SECOND)
    await site.start_direct()
    return item


async def behind(site: Installation) -> Hindered:
    second = await _follower(site, "hang")
    return Hindered(second, leads_to=(), ended=site.end_hang)


async def behind_parked(site: Installation) -> Hindered:
    second = await _follower(site, "park")
    return Hindered(second)


async def behind_retry(site: Installation) -> Hindered:
    second = await _follower(site, "fail")
    return Hindered(second)


async def overlap(site: Installation) -> Hindered:
    [first] = site.make_drafts(prefix="hang")
    first = replace(first, overlap=Overlap.WAIT)
    second = replace(first, cycle="2028", due_at=SECOND)
    await site.put_kind(dispatch="direct")
    await site.emit_drafts([first, second])
    await site.start_direct()
    return Hindered(second.id, leads_to=(), ended=site.end_hang)


async def key_free(site: Installation) -> Hindered:
    second = await _follower(site, "hang")
    await site.until(second, Hindrance.BEHIND)
    unlock = await site.lock_rows("select from ledger.pending for update")
    await site.connection.execute("delete from ledger.held_key")

    async def end() -> None:
        await unlock()
        await site.end_hang()

    return Hindered(second, leads_to=(), ended=end)


# Processes that claim, and their servers.


async def read_only(site: Installation) -> Hindered:
    [item] = await site.emit_direct()
    name = await site.connection.fetchval("select current_database()")
    await site.connection.execute(f"alter database {name} set default_transaction_read_only = on")
    await site.reconnect()

    async def restart() -> None:
        await site.reconnect()
        await site.start_direct()

    return Hindered(item, restart)


async def no_allocator(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start_worker()
    return Hindered(item)


async def allocator_silent(site: Installation) -> Hindered:
    [item] = await site.emit(due_at=LATER)
    await site.start_worker()
    allocator = await site.start("allocate")
    await site.until_live(ProcessRole.ALLOCATOR)
    await site.freeze(allocator)
    await site.run("trigger", str(item), "--reason", "it is wanted now")
    return Hindered(item, lambda: kill(allocator))


async def no_direct_worker(site: Installation) -> Hindered:
    [item] = await site.emit_direct()
    return Hindered(item, says=("no direct worker runs: none was seen in the last hour",))


async def direct_worker_silent(site: Installation) -> Hindered:
    worker = await site.start_direct()
    await site.until_live(ProcessRole.DIRECT_WORKER)
    await site.freeze(worker)
    [item] = await site.emit_direct()
    return Hindered(item, lambda: kill(worker))


async def no_direct_handler(site: Installation) -> Hindered:
    [item] = await site.emit_direct()
    await site.start("work", "--direct", "other:handlers")
    await site.until_live(ProcessRole.DIRECT_WORKER)
    return Hindered(item)


def _free_port() -> int:
    with socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


async def kafka_down(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.grant(10)
    port = _free_port()
    await site.start("allocate", DUELEDGER_BOOTSTRAP_SERVERS=f"127.0.0.1:{port}")

    async def start_brokers() -> None:
        wire = wire_to(f"kafka://{site.bootstrap_servers}", port=port)
        await site.running.enter_async_context(wire)

    says = ("Kafka has not responded to allocator:", "since 2")
    return Hindered(item, start_brokers, leads_to=HANDED_OUT, says=says)


async def kafka_down_for_workers(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start("allocate")
    await site.until_live(ProcessRole.ALLOCATOR)
    port = _free_port()
    await site.start("work", "mine:handlers", DUELEDGER_BOOTSTRAP_SERVERS=f"127.0.0.1:{port}")

    async def start_brokers() -> None:
        wire = wire_to(f"kafka://{site.bootstrap_servers}", port=port)
        await site.running.enter_async_context(wire)

    return Hindered(item, start_brokers)


async def claims_fail(site: Installation) -> Hindered:
    roles = "ledger_allocator, ledger_worker"
    await site.connection.execute(f"revoke insert on ledger.claim from {roles}")
    [item] = await site.emit_direct()
    await site.start_direct()

    async def grant() -> None:
        await site.connection.execute(f"grant insert on ledger.claim to {roles}")

    return Hindered(item, grant)


# Limits of its flow.


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


# Its topic, and the workers that read it.


async def topic_unavailable(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start("allocate", DUELEDGER_TOPIC_REPLICATION="3")  # of one broker

    async def make_topic() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic(site.topic, 1, 1)])
        await admin.close()
        await site.start_worker()

    return Hindered(item, make_topic)


async def no_worker(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start("allocate")
    return Hindered(item)


async def worker_silent(site: Installation) -> Hindered:
    await site.start("allocate")
    worker = await site.start_worker()
    await site.freeze(worker)
    await site.until_live(ProcessRole.ALLOCATOR)
    await site.connection.execute("update ledger.credit set granted_until = ledger.machine_now()")
    [item] = await site.emit()
    return Hindered(item, lambda: kill(worker))


async def no_handler(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start("allocate")
    await site.start("work", "other:handlers")
    await site.until_live(ProcessRole.WORKER)
    return Hindered(item)


async def no_credit(site: Installation) -> Hindered:
    await site.emit("hang", 3)
    await site.start("allocate")
    await site.start_worker(TEST_CONCURRENCY="1", DUELEDGER_WORKER_BUFFER_ITEMS_MAX="20")
    [item] = await site.emit("key", due_at=SECOND)
    site.settings["TEST_HANGS"] = ""
    says = (", the last of them since 2",)
    return Hindered(item, leads_to=HANDED_OUT, ended=site.end_hang, says=says)


async def not_claimed(site: Installation) -> Hindered:
    worker = await site.start_direct()
    await site.until_live(ProcessRole.DIRECT_WORKER)
    worker.send_signal(SIGSTOP)  # not yet for so long that it is silent
    [item] = await site.emit_direct()

    async def go_on() -> None:
        worker.send_signal(SIGCONT)

    return Hindered(item, go_on)


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


Arrange = Callable[[Installation], Awaitable[Hindered]]

CASES: Final[tuple[tuple[Hindrance, Arrange], ...]] = (
    (Hindrance.ENDED, ended),
    (Hindrance.NOT_DUE, not_due),
    (Hindrance.CLOCK_BEHIND, clock_behind),
    (Hindrance.RETRY, retry),
    (Hindrance.SNOOZED, snoozed),
    (Hindrance.RELEASED, released),
    (Hindrance.EXPIRED, expired),
    (Hindrance.PARKED, parked),
    (Hindrance.PAUSED, paused_tenant),
    (Hindrance.PAUSED, paused_kind),
    (Hindrance.PAUSED, paused_lane),
    (Hindrance.OPERATION_RUNS, operation_runs),
    (Hindrance.OPERATION_WAITS, operation_waits),
    (Hindrance.BEHIND, behind),
    (Hindrance.BEHIND_PARKED, behind_parked),
    (Hindrance.BEHIND_RETRY, behind_retry),
    (Hindrance.OVERLAP, overlap),
    (Hindrance.KEY_FREE, key_free),
    (Hindrance.READ_ONLY, read_only),
    (Hindrance.NO_ALLOCATOR, no_allocator),
    (Hindrance.ALLOCATOR_SILENT, allocator_silent),
    (Hindrance.NO_DIRECT_WORKER, no_direct_worker),
    (Hindrance.DIRECT_WORKER_SILENT, direct_worker_silent),
    (Hindrance.NO_DIRECT_HANDLER, no_direct_handler),
    (Hindrance.KAFKA_DOWN, kafka_down),
    (Hindrance.KAFKA_DOWN, kafka_down_for_workers),
    (Hindrance.CLAIMS_FAIL, claims_fail),
    (Hindrance.CIRCUIT_OPEN, circuit_open),
    (Hindrance.CIRCUIT_PROBING, circuit_probing),
    (Hindrance.CONCURRENCY, concurrency),
    (Hindrance.RATE, rate),
    (Hindrance.WINDOW, window),
    (Hindrance.SILENT_CONSUMER, silent_consumer),
    (Hindrance.TOPIC_UNAVAILABLE, topic_unavailable),
    (Hindrance.NO_WORKER, no_worker),
    (Hindrance.WORKER_SILENT, worker_silent),
    (Hindrance.NO_HANDLER, no_handler),
    (Hindrance.NO_CREDIT, no_credit),
    (Hindrance.NOT_CLAIMED, not_claimed),
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
