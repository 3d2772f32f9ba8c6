"""One step of upkeep that Postgres refuses keeps no other from being done."""

from datetime import date

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits
from dueledger.ledger.upkeep import Upkeep

from .conftest import Ledger


async def test_a_broken_step_is_named_and_the_others_go_on(ledger: Ledger, database: str) -> None:
    await ledger.emit(2)
    circuit = FlowLimits(circuit_failure_ratio=0.5)
    await set_flow_limits(
        ledger.connection, FlowScope("acme", ledger.kind), circuit, actor_no=ledger.worker_no
    )
    await ledger.connection.execute(
        "alter table ledger.flow drop constraint flow_circuit_window_seconds_range"
    )
    await ledger.connection.execute("update ledger.flow set circuit_window_seconds = 1e300")
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")
        with capture_logs() as logged:
            for _ in range(2):
                await ledger.connection.execute(
                    "insert into ledger.pause (tenant, paused_at, actor_no, reason)"
                    " values ('acme', now(), $1, 'unseen')",
                    ledger.worker_no,
                )
                assert (await upkeep.tick())["pauses"] == 1  # a step after the broken one
                await ledger.connection.execute(
                    "update ledger.pause set resumed_at = now(), resumed_by = actor_no"
                )
                assert (await upkeep.tick())["pauses"] == 1
        assert {(line["event"], line["step"], line["log_level"]) for line in logged} == {
            (LogEvent.UPKEEP_STEP_FAILED, "update_circuits", "error")
        }
        assert [line["failures"] for line in logged] == [1, 2, 4]
        await ledger.connection.execute("update ledger.flow set circuit_window_seconds = 60")
        with capture_logs() as logged:
            await upkeep.tick()
        assert logged == []


async def test_upkeep_moves_items_of_a_new_month_and_tries_less_often_while_it_cannot(
    ledger: Ledger, database: str
) -> None:
    await ledger.emit(effective_date=date(2040, 5, 1))
    left = "select count(*) from ledger.due_item_default"
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=3600, role="test")
        async with ledger.connection.transaction():
            await ledger.emit(effective_date=date(2040, 5, 1))
            assert not (await upkeep.tick())["months_split"]
        assert not (await upkeep.tick())["months_split"]  # not yet again
        assert await ledger.connection.fetchval(left) == 2

        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=3600, role="test")
        assert (await upkeep.tick())["months_split"] == 1
    assert await ledger.connection.fetchval(left) == 0


async def test_upkeep_forgets_keys_of_events_that_were_received_long_ago_in_bounded_batches(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ledger.connection.execute(
        "insert into ledger.event_key (tenant, source, id, occurred_at, received_at)"
        " select 'acme', '/policies', n::text, now(), ledger.now() - make_interval(days => 30 + n)"
        " from generate_series(-2, 2) n"
    )
    monkeypatch.setattr("dueledger.ledger.upkeep.EVENT_KEYS_MAX", 2)
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(
            pool, actor_no=ledger.worker_no, seconds=1.0, role="test", event_key_days=30
        )
        forgotten = [(await upkeep.tick())["event_keys"] for _ in range(3)]
    assert forgotten == [2, 1, 0]
    left = await ledger.connection.fetch("select id from ledger.event_key order by 1")
    assert [row["id"] for row in left] == ["-1", "-2"]


async def test_upkeep_forgets_answers_to_requests_of_the_day_before(
    ledger: Ledger, database: str
) -> None:
    await ledger.connection.execute(
        "insert into ledger.api_answer (actor_no, idempotency_key, request_digest, answered_at)"
        " select $1, n::text, '', ledger.machine_now() - make_interval(hours => n)"
        " from unnest(array[23, 25, 26]) n",
        ledger.worker_no,
    )
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")
        assert (await upkeep.tick())["answers"] == 2
    left = await ledger.connection.fetchval("select idempotency_key from ledger.api_answer")
    assert left == "23"


async def test_upkeep_deletes_entries_of_the_audit_that_are_older_than_the_setting_in_batches(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ledger.connection.execute(
        "insert into ledger.audit (actor_no, operation, target, at)"
        " select $1, 'pauseFlows', n::text, ledger.now() - make_interval(days => 30 + n)"
        " from generate_series(-1, 2) n where n <> 0",
        ledger.worker_no,
    )
    monkeypatch.setattr("dueledger.ledger.upkeep.AUDIT_MAX", 1)
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test", audit_days=30)
        assert [(await upkeep.tick())["audit"] for _ in range(3)] == [1, 1, 0]
    assert (
        await ledger.connection.fetchval("select string_agg(target, '') from ledger.audit") == "-1"
    )
