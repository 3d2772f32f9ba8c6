"""Which processes live: each has a row, renewed while it lives, and a lock that ends with it."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from time import monotonic
from typing import Final

import pytest
from pydantic import SecretStr

from dueledger import Handlers
from dueledger.alerts.process import open_alerter
from dueledger.alerts.settings import AlertSettings
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.doctor import Health, run_checks
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.intake.process import open_intake
from dueledger.ledger.intake.settings import EventIntakeSettings
from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.materialise.process import open_materialiser
from dueledger.ledger.materialise.settings import MaterialiserSettings
from dueledger.ledger.outbox import RelaySettings, open_relay
from dueledger.ledger.presence import Presence, open_presence
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import Connection
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.items import emit_items, show_item
from dueledger.ledger.store.operations import ItemFilter, record_operation
from dueledger.ledger.store.processes import (
    OUTBOX_COUNTED_MAX,
    DrainResult,
    ProcessRole,
    list_processes,
    prune_processes,
    read_roles,
    request_drain,
)
from dueledger.reconciler.process import open_reconciler
from dueledger.reconciler.settings import ReconcilerSettings
from dueledger.reconciler.sources_file import ReconcilerSources
from dueledger.service import ServiceSettings, open_service
from dueledger.sizing import CONNECTIONS
from dueledger.why import Explanation, explain
from dueledger.workers.connections import open_connections
from dueledger.workers.outcomes.process import open_outcome_intake
from dueledger.workers.outcomes.settings import OutcomeIntakeSettings
from dueledger.workers.process import DIRECT_WORKER_ROLES, WORKER_ROLES
from dueledger.workers.settings import WorkerSettings
from tests.logins import with_login
from tests.wire import wire_to

MakeDrafts = Callable[..., list[ItemDraft]]
Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]]
Opening = Callable[[SecretStr, str], AbstractAsyncContextManager[object]]

UNSEEN: Final = "update ledger.process set seen_at = seen_at - interval '6 seconds'"
OPENINGS: Final[dict[str, Opening]] = {
    "allocator": lambda dsn, kafka: open_allocator(
        AllocatorSettings(dsn=dsn, bootstrap_servers=kafka), stop=Stop()
    ),
    "worker": lambda dsn, kafka: open_connections(
        WorkerSettings(dsn=dsn, bootstrap_servers=kafka), Handlers(), WORKER_ROLES
    ),
    "direct_worker": lambda dsn, kafka: open_connections(
        WorkerSettings(dsn=dsn, bootstrap_servers=kafka), Handlers(), DIRECT_WORKER_ROLES
    ),
    "outcome_intake": lambda dsn, kafka: open_outcome_intake(
        OutcomeIntakeSettings(dsn=dsn, bootstrap_servers=kafka)
    ),
    "intake": lambda dsn, kafka: open_intake(EventIntakeSettings(dsn=dsn, bootstrap_servers=kafka)),
    "materialiser": lambda dsn, _: open_materialiser(MaterialiserSettings(dsn=dsn)),
    "relay": lambda dsn, _: open_relay(RelaySettings(dsn=dsn, outbox_dsn=dsn)),
    "service": lambda dsn, _: open_service(ServiceSettings(dsn=dsn, service_port=0)),
    "reconciler": lambda dsn, kafka: open_reconciler(
        ReconcilerSettings(dsn=dsn, bootstrap_servers=kafka), ReconcilerSources()
    ),
    "alerter": lambda dsn, kafka: open_alerter(
        AlertSettings(dsn=dsn, bootstrap_servers=kafka, alert_topic="due-alerts")
    ),
}
STATUS: Final = "select status from ledger.process_status where process_no = $1"
KILL: Final = """
    select count(pg_terminate_backend(a.pid, 5000)) from pg_stat_activity a
    where a.datname = current_database() and a.application_name = $1
"""
COUNTED: Final = """
    select count(*) from pg_stat_activity
    where datname = current_database() and usename like 'test\\_%'
"""
NAME: Final = "worker:host:1:abcd"


async def status_of(connection: Connection, presence: Presence) -> str:
    return await connection.fetchval(STATUS, presence.process_no)


@pytest.mark.parametrize("role", OPENINGS)
async def test_each_process_is_live_while_it_runs_and_ended_after(
    connection: Connection, database: str, bootstrap_servers: str, role: str
) -> None:
    async with OPENINGS[role](SecretStr(with_login(database, role)), bootstrap_servers):
        [row] = await list_processes(connection, 10)
        locked = await connection.fetchval("select locked_on from ledger.process")
        assert 2 <= await connection.fetchval(COUNTED) <= CONNECTIONS[ProcessRole(role)]
    ended = await connection.fetch("select role, status from ledger.process_status")
    assert (row.role, row.status) == (role, "live")
    assert locked == await connection.fetchval("select pg_postmaster_start_time()")
    assert [tuple(each) for each in ended] == [(role, "ended")]
    assert await list_processes(connection, 10) == []


async def test_a_process_whose_connection_ended_is_gone_until_it_takes_its_lock_again(
    connection: Connection, database: str
) -> None:
    presence = Presence(database, NAME, ProcessRole.WORKER)
    await presence.open()
    before = await status_of(connection, presence)
    await connection.fetchval(KILL, NAME)
    lost = await status_of(connection, presence)
    with suppress(Exception):  # the first use of the lost connection may be the one that fails
        await presence.tick()
    await presence.tick()
    again = await status_of(connection, presence)
    await presence.close()
    assert (before, lost, again) == ("live", "gone", "live")


async def test_a_process_that_loses_its_connection_takes_its_lock_again_at_once(
    connection: Connection,
    database: str,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dueledger.ledger.presence.CHECK_SECONDS", 1e6)
    async with open_presence(database, NAME, ProcessRole.WORKER) as presence:
        await connection.fetchval(KILL, NAME)

        async def is_live() -> bool:
            return await status_of(connection, presence) == "live"

        await eventually(is_live)
        assert presence.losses == 0


async def test_g5_a_process_that_its_ledger_forgot_ends_and_begins_anew(
    connection: Connection, database: str
) -> None:
    async def live() -> None:
        async with open_presence(database, NAME, ProcessRole.WORKER) as presence:
            # As after a restore of a copy from before its start, which then gave its number again.
            await connection.execute("delete from ledger.process")
            await connection.execute(
                "update ledger.actor set name = 'worker:other' where actor_no = $1",
                presence.process_no,
            )
            await connection.fetchval(KILL, NAME)
            await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="earlier state"):
        await live()
    assert await connection.fetchval("select count(*) from ledger.process") == 0


async def test_a_process_that_holds_its_lock_and_renews_nothing_is_silent(
    connection: Connection, database: str
) -> None:
    presence = Presence(database, NAME, ProcessRole.WORKER)
    await presence.open()
    await connection.execute("update ledger.process set seen_at = seen_at - interval '20 seconds'")
    silent = await status_of(connection, presence)
    await presence.tick()
    renewed = await status_of(connection, presence)
    await presence.close()
    assert (silent, renewed) == ("silent", "live")


async def test_after_a_restart_of_the_server_a_missing_lock_proves_nothing(
    connection: Connection, database: str
) -> None:
    presence = Presence(database, NAME, ProcessRole.WORKER)
    await presence.open()
    await connection.execute("update ledger.process set locked_on = locked_on - interval '1 day'")
    await connection.fetchval(KILL, NAME)
    recently_seen = await status_of(connection, presence)
    await connection.execute("update ledger.process set seen_at = seen_at - interval '20 seconds'")
    assert (recently_seen, await status_of(connection, presence)) == ("live", "gone")
    await presence.close()


async def test_a_lock_that_another_session_holds_is_taken_once_it_is_free(
    connection: Connection, database: str
) -> None:
    first = Presence(database, NAME, ProcessRole.WORKER)
    await first.open()
    second = Presence(database, NAME, ProcessRole.WORKER)  # as the same process, anew
    await second.open()
    waiting = await connection.fetchval("select locked_on from ledger.process")
    await first.close()
    await second.tick()
    assert waiting is None
    assert await connection.fetchval("select locked_on from ledger.process") is not None
    assert await status_of(connection, second) == "live"
    await second.close()


KEY_DATA: Final = b"K\x00\x00\x00\x0c"
"""How the message begins in which a server of PostgreSQL 16 to 18 gives its process number."""


async def _number_anew(answer: bytes) -> bytes:
    """Give clients other process numbers than the server does, as poolers do."""
    head, found, tail = answer.partition(KEY_DATA)
    if not found or len(tail) < 8:
        return answer
    (pid,) = struct.unpack("!i", tail[:4])
    return head + found + struct.pack("!i", pid + 1) + tail[4:]


async def test_a_process_behind_a_pooler_has_no_lock_and_is_live_by_its_row(
    connection: Connection, database: str
) -> None:
    async with (
        wire_to(database, forward=_number_anew) as (_, dsn),
        open_presence(dsn, NAME, ProcessRole.WORKER) as presence,
    ):
        locks = await connection.fetchval("select count(*) from pg_locks where objsubid = 2")
        locked_on = await connection.fetchval("select locked_on from ledger.process")
        assert (locks, locked_on) == (0, None)
        assert await status_of(connection, presence) == "live"


async def test_upkeep_forgets_processes_that_were_not_renewed_for_a_week(
    connection: Connection, database: str
) -> None:
    for role in (ProcessRole.WORKER, ProcessRole.ALLOCATOR):
        async with open_presence(database, f"{role}:host:1:abcd", role):
            pass
    await connection.execute(
        "update ledger.process set seen_at = seen_at - interval '8 days' where role = 'worker'"
    )
    assert await prune_processes(connection, 10) == 1
    assert await connection.fetchval("select array_agg(role) from ledger.process") == ["allocator"]


async def test_the_doctor_names_processes_that_are_gone(
    connection: Connection, database: str
) -> None:
    presence = Presence(database, NAME, ProcessRole.WORKER)
    await presence.open()

    async def check() -> tuple[Health, str]:
        settings = Settings(dsn=SecretStr(database), bootstrap_servers="127.0.0.1:1")
        [found] = [each async for each in run_checks(settings) if each.name == "processes"]
        return found.health, found.text

    live = await check()
    await connection.fetchval(KILL, NAME)
    health, text = await check()
    await presence.close()
    assert live == (Health.OK, "live: 1 worker")
    assert health is Health.WARN
    assert f"{NAME} (gone)" in text


async def test_only_a_process_that_lives_under_the_name_is_asked_to_drain(
    connection: Connection, database: str, actor_no: int
) -> None:
    async def ask(name: str = NAME) -> DrainResult:
        return await request_drain(connection, name, reason="INC-1", actor_no=actor_no)

    stop, other_stop = Stop(), Stop()
    presence = Presence(database, NAME, ProcessRole.WORKER, stop=stop)
    other = Presence(database, f"{NAME}0", ProcessRole.WORKER, stop=other_stop)
    without = Presence(database, f"{NAME}1", ProcessRole.SERVICE)
    for each in (presence, other, without):
        await each.open()
    assert await ask(f"{NAME}2") is DrainResult.UNKNOWN
    assert await ask(f"{NAME}1") is DrainResult.UNABLE
    assert [await ask(), await ask()] == [DrainResult.DONE, DrainResult.ASKED]
    for each in (presence, other, without):
        await each.tick()
    assert (stop.is_requested, other_stop.is_requested) == (True, False)
    other_stop.request()  # as by a signal
    await connection.fetchval(KILL, NAME)
    assert await ask() is DrainResult.GONE
    for _ in range(2):  # it takes its lock again, under the same name
        for each in (presence, other):
            with suppress(Exception):
                await each.tick()
    assert await ask() is DrainResult.ASKED
    rows = {row.name: row for row in await list_processes(connection, 10)}
    assert (rows[NAME].drain_asked_by, rows[NAME].drain_reason) == ("test", "INC-1")
    draining = {name for name, row in rows.items() if row.draining_since is not None}
    assert draining == {NAME, f"{NAME}0"}
    for each in (presence, other, without):
        await each.close()
    assert await ask() is DrainResult.ENDED


async def test_the_doctor_says_why_a_process_cannot_take_work_until_it_can(
    connection: Connection, database: str
) -> None:
    settings = Settings(dsn=SecretStr(database), bootstrap_servers="127.0.0.1:1")

    async def check() -> tuple[Health, str]:
        [found] = [each async for each in run_checks(settings) if each.name == "failures"]
        return found.health, found.text

    async with open_presence(database, "allocator:host:1:abcd", ProcessRole.ALLOCATOR) as presence:
        presence.report_failure(asyncio.CancelledError())
        await presence.tick()
        assert (await check())[0] is Health.OK
        presence.report_failure(Unavailable("Kafka cannot be used: gone.", service="kafka"))
        await presence.tick()
        since = (await read_roles(connection))[ProcessRole.ALLOCATOR].failing_since
        presence.report_failure(Unavailable("Kafka cannot be used: again.", service="kafka"))
        await presence.tick()
        failing = (await read_roles(connection))[ProcessRole.ALLOCATOR]
        health, text = await check()
        presence.report_success()
        await presence.tick()
        assert (await check())[0] is Health.OK
    assert health is Health.WARN
    assert "1 of 1 allocators cannot take work since 2" in text
    assert "Unavailable: Kafka cannot be used: again." in text
    assert (failing.failing_since, failing.failed_service) == (since, "kafka")


async def test_the_doctor_names_operations_that_no_process_carries_out(
    connection: Connection, database: str, actor_no: int, make_drafts: MakeDrafts
) -> None:
    await emit_items(connection, make_drafts(), actor_no=actor_no)
    cancel = (OperationVerb.CANCEL, ItemFilter(tenant="acme"))
    await record_operation(connection, *cancel, reason="it was sold", actor_no=actor_no)
    settings = Settings(dsn=SecretStr(database), bootstrap_servers="127.0.0.1:1")

    async def check() -> tuple[Health, str]:
        [found] = [each async for each in run_checks(settings) if each.name == "operations"]
        return found.health, found.text

    health, text = await check()
    async with open_presence(database, "allocator:host:1:abcd", ProcessRole.ALLOCATOR):
        carried_out = await check()
    assert (health, text) == (
        Health.WARN,
        "1 open: 1 (cancel); no process carries operations out",
    )
    assert carried_out == (Health.OK, "1 open: 1 (cancel)")


async def test_why_says_whether_an_allocator_lives(
    connection: Connection, database: str, actor_no: int, kind: str, make_drafts: MakeDrafts
) -> None:
    [emitted] = await emit_items(connection, make_drafts(), actor_no=actor_no)
    await grant_credits(connection, actor_no, [work_topic(kind)], [1], 60)

    async def why() -> Explanation:
        shown = await show_item(connection, emitted.id)
        assert shown is not None
        return await explain(connection, shown)

    none = await why()
    async with open_presence(database, "allocator:host:1:abcd", ProcessRole.ALLOCATOR):
        one = await why()
    stopped = await why()
    assert none.code == stopped.code == "NO_ALLOCATOR"
    assert "none was seen" in none.sentence
    assert "the last one, allocator:host:1:abcd on " in stopped.sentence
    assert " was seen at 2" in stopped.sentence
    assert one.code == "NOT_CLAIMED"


async def test_the_last_pass_of_a_loop_is_recorded_as_the_row_is_renewed(
    connection: Connection, database: str
) -> None:
    presence = Presence(database, NAME, ProcessRole.RELAY)
    await presence.open()
    for outbox_items, is_capped in ((None, False), (3, False), (OUTBOX_COUNTED_MAX, True)):
        await connection.execute(UNSEEN)
        if outbox_items is not None:
            presence.report_tick(monotonic() - 2, outbox_items=outbox_items)
        await presence.tick()
        [row] = await list_processes(connection, 10)
        assert (row.outbox_items, row.outbox_capped) == (outbox_items, is_capped)
        assert (row.ticked_at is None) == (outbox_items is None)
        assert row.tick_seconds is None or row.tick_seconds >= 2
    await presence.close()


async def test_an_allocator_and_a_reconciler_record_their_last_pass(
    connection: Connection, database: str, eventually: Eventually
) -> None:
    async def has_ticked() -> bool:
        await connection.execute(UNSEEN)
        rows = await list_processes(connection, 10)
        return all(row.ticked_at is not None for row in rows)

    dsn = SecretStr(database)
    kafka = "127.0.0.1:1"
    settings = AllocatorSettings(dsn=dsn, bootstrap_servers=kafka)
    async with (
        open_allocator(settings, stop=Stop()) as allocator,
        open_reconciler(
            ReconcilerSettings(dsn=dsn, bootstrap_servers=kafka), ReconcilerSources()
        ) as reconciler,
    ):
        assert not await has_ticked()
        await allocator.serve()
        await reconciler.tick()
        assert await eventually(has_ticked)
