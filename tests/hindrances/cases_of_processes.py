"""Items whose processes or servers are not there: those that claim, and those that read topics."""

from signal import SIGCONT, SIGSTOP
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.store.processes import ProcessRole
from tests.wire import hold_port, port_of, wire_to

from .conftest import Installation, kill
from .hindered import HANDED_OUT, LATER, SECOND, Cases, Hindered

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


async def kafka_down(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.grant(10)
    port = site.running.enter_context(hold_port())
    await site.start("allocate", DUELEDGER_BOOTSTRAP_SERVERS=f"127.0.0.1:{port_of(port)}")

    async def start_brokers() -> None:
        wire = wire_to(f"kafka://{site.bootstrap_servers}", held=port)
        await site.running.enter_async_context(wire)

    says = ("Kafka has not responded to allocator:", "since 2")
    return Hindered(item, start_brokers, leads_to=HANDED_OUT, says=says)


async def kafka_down_for_workers(site: Installation) -> Hindered:
    [item] = await site.emit()
    await site.start("allocate")
    await site.until_live(ProcessRole.ALLOCATOR)
    port = site.running.enter_context(hold_port())
    servers = f"127.0.0.1:{port_of(port)}"
    await site.start("work", "mine:handlers", DUELEDGER_BOOTSTRAP_SERVERS=servers)

    async def start_brokers() -> None:
        wire = wire_to(f"kafka://{site.bootstrap_servers}", held=port)
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


CASES: Final[Cases] = (
    (Hindrance.READ_ONLY, read_only),
    (Hindrance.NO_ALLOCATOR, no_allocator),
    (Hindrance.ALLOCATOR_SILENT, allocator_silent),
    (Hindrance.NO_DIRECT_WORKER, no_direct_worker),
    (Hindrance.DIRECT_WORKER_SILENT, direct_worker_silent),
    (Hindrance.NO_DIRECT_HANDLER, no_direct_handler),
    (Hindrance.KAFKA_DOWN, kafka_down),
    (Hindrance.KAFKA_DOWN, kafka_down_for_workers),
    (Hindrance.CLAIMS_FAIL, claims_fail),
    (Hindrance.TOPIC_UNAVAILABLE, topic_unavailable),
    (Hindrance.NO_WORKER, no_worker),
    (Hindrance.WORKER_SILENT, worker_silent),
    (Hindrance.NO_HANDLER, no_handler),
    (Hindrance.NO_CREDIT, no_credit),
    (Hindrance.NOT_CLAIMED, not_claimed),
)
