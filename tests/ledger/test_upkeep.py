"""One step of upkeep that Postgres refuses keeps no other from being done."""

from dataclasses import replace
from datetime import date
from typing import Final

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.settings import Retention
from dueledger.ledger.store import open_pool
from dueledger.ledger.store.flows import (
    FlowLimits,
    FlowScope,
    pause_flows,
    reapply_pauses,
    set_flow_limits,
)
from dueledger.ledger.store.reconciled_rows import last_row_count
from dueledger.ledger.upkeep import Upkeep
from tests.logins import with_login

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


async def test_upkeep_ends_a_pause_at_its_end_and_resumes_its_flows(
    ledger: Ledger, database: str
) -> None:
    await ledger.emit()
    await ledger.emit(lane="eu")
    scope = FlowScope("acme", ledger.kind)
    await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    async with open_pool(with_login(database, "allocator"), application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")
        for minutes, resumed in ((60, 0), (0, 2)):
            await ledger.connection.execute(
                "update ledger.pause set paused_at = now() - interval '1 day',"
                " paused_until = now() + make_interval(mins => $1)",
                minutes,
            )
            await reapply_pauses(ledger.connection)
            with capture_logs() as logged:
                assert (await upkeep.tick())["pauses"] == resumed
            ended = [line["kind"] for line in logged if line["event"] == LogEvent.PAUSE_ENDED]
            assert ended == [ledger.kind] * bool(resumed)
    assert await ledger.connection.fetchval("select every(paused_at is null) from ledger.flow")


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
    monkeypatch.setattr("dueledger.ledger.upkeep.DELETED_MAX", 2)
    async with open_pool(database, application_name="upkeep") as pool:
        upkeep = Upkeep(
            pool,
            actor_no=ledger.worker_no,
            seconds=1.0,
            role="test",
            retention=Retention(event_key_days=30),
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


RETAINED: Final = {
    "audit": (
        "audit (actor_no, operation, target, at) select $1, 'pauseFlows', n::text",
        "select string_agg(target, '') from ledger.audit",
    ),
    "rejected": (
        "rejected_write (actor_no, verb, reason, rejected_at) select $1, 'settle', n::text",
        "select string_agg(reason, '') from ledger.rejected_write",
    ),
}
"""What upkeep deletes by age: how a test makes it, all but its time, and reads it."""


@pytest.mark.parametrize("name", RETAINED)
async def test_upkeep_deletes_what_is_older_than_the_setting_in_batches(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    insert, read = RETAINED[name]
    await ledger.connection.execute(
        f"insert into ledger.{insert}, ledger.now() - make_interval(days => 30 + n)"
        " from generate_series(-1, 2) n where n <> 0",
        ledger.worker_no,
    )
    monkeypatch.setattr("dueledger.ledger.upkeep.DELETED_MAX", 1)
    kept = replace(Retention(), **{f"{name}_days": 30})
    async with open_pool(with_login(database, "allocator"), application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test", retention=kept)
        assert [(await upkeep.tick())[name] for _ in range(3)] == [1, 1, 0]
    assert await ledger.connection.fetchval(read) == "-1"


PASSES: Final = (
    # days ago, first date compared, sources read, has a report
    (36, "1970-01-01", ["bank", "closed"], False),
    (35, "1970-01-01", ["bank"], True),
    (34, "1970-01-01", ["bank", "broken"], False),
    (33, "1970-01-01", ["bank"], False),
    (32, "2027-01-01", ["bank", "broken"], False),
    (31, "1970-01-01", ["bank"], False),
    (29, "1970-01-01", ["bank", "broken"], False),
)


async def test_upkeep_deletes_old_passes_and_none_that_a_report_or_the_next_pass_needs(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days, from_date, sources, has_report in PASSES:
        number = await ledger.connection.fetchval(
            "insert into ledger.reconciliation (started_at, as_of, actor_no, scope)"
            " select a, a, $1, $3::jsonb from (values (ledger.now() - make_interval(days => $2))) a"
            " (a) returning reconciliation_no",
            ledger.worker_no,
            days,
            {"from_date": from_date, "to_date": "9999-12-31"},
        )
        await ledger.connection.execute(
            "insert into ledger.population (reconciliation_no, name, origin, extracted_at,"
            " duration_seconds, row_count, skipped_count, hash_total, failure) select $1, n, 'sql',"
            " ledger.now(), 1, $2, 0, 0, case n when 'broken' then 'gone' end"
            " from unnest($3::text[]) n",
            number,
            days,
            sources,
        )
        if has_report:
            await ledger.connection.execute(
                "insert into ledger.report (tenant, reconciliation_no, as_of, verdict, sentence,"
                " findings_open, document) select '*', reconciliation_no, as_of, 'complete', '', 0,"
                " '{}' from ledger.reconciliation where reconciliation_no = $1",
                number,
            )
    monkeypatch.setattr("dueledger.ledger.upkeep.DELETED_MAX", 3)
    kept = Retention(reconciliation_days=30)
    async with open_pool(with_login(database, "allocator"), application_name="upkeep") as pool:
        upkeep = Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test", retention=kept)
        deleted = [(await upkeep.tick())["reconciliations"]]
        while deleted[-1]:
            deleted.append((await upkeep.tick())["reconciliations"])
    assert sum(deleted) == 4 + 6
    left = await ledger.connection.fetch(
        "select max(p.row_count), count(p) from ledger.reconciliation r"
        " left join ledger.population p using (reconciliation_no) group by reconciliation_no"
        " order by reconciliation_no"
    )
    assert [tuple(row) for row in left] == [(36, 2), (35, 1), (29, 2)]
    assert await last_row_count(ledger.connection, "bank") == 29
    assert await last_row_count(ledger.connection, "closed") == 36


async def test_upkeep_deletes_old_reports_with_all_their_rows_and_none_before_them(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (29, 31, 32):
        number = await ledger.connection.fetchval(
            "insert into ledger.reconciliation (started_at, as_of, actor_no, scope)"
            " values (now(), now(), $1, '{}') returning reconciliation_no",
            ledger.worker_no,
        )
        await ledger.connection.execute(
            "insert into ledger.report (tenant, reconciliation_no, as_of, verdict, sentence,"
            " findings_open, document) select t, $1, ledger.now() - make_interval(days => $2),"
            " 'complete', $2::text, 0, '{}' from unnest(array['*', 'acme']) t",
            number,
            days,
        )
        await ledger.connection.execute(
            "insert into ledger.report_row (reconciliation_no, list, tenant, row_no, content)"
            " select $1, l, t, 1, '{}' from unnest(array['findings', 'repairs']) l,"
            " unnest(array['acme', '*']) t",
            number,
        )
    monkeypatch.setattr("dueledger.ledger.upkeep.DELETED_MAX", 3)
    async with open_pool(with_login(database, "allocator"), application_name="upkeep") as pool:
        upkeep = Upkeep(
            pool,
            actor_no=ledger.worker_no,
            seconds=1.0,
            role="test",
            retention=Retention(report_days=30),
        )
        deleted = [(await upkeep.tick())["reports"]]
        while deleted[-1]:
            deleted.append((await upkeep.tick())["reports"])
    assert sum(deleted) == 2 * (2 + 4)
    left = await ledger.connection.fetch(
        "select r.sentence, count(w) as rows from ledger.report r"
        " left join ledger.report_row w using (reconciliation_no) group by r.tenant, r.sentence"
    )
    assert [tuple(row) for row in left] == [("29", 4)] * 2
