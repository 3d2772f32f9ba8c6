"""Every statement prepares, its header is true, and its plan uses the index named."""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import (
    Claim,
    claim_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs, start_runs
from dueledger.ledger.store.statements import (
    SQL_ROOT,
    SqlStatement,
    parse_statement,
    statement_paths,
)

pytestmark = pytest.mark.long

ITEMS = 60_000
BENCH = SQL_ROOT.parent / "bench"
STORE = SQL_ROOT.parent / "ledger" / "store"
STATEMENTS = [*statement_paths(), *sorted(BENCH.rglob("*.sql"))]
BATCH = 1_200
HOT_TABLES = {
    "due_item",
    "pending",
    "claim",
    "run",
    "transition",
    "review",
    "withdrawal",
    "event",
    "event_key",
}
READS_ALL = {
    "copy_journal_columns": "the reconciler, of a window of dates",
    "copy_item_columns": "the reconciler, of a window of dates",
    "count_claims": "benchmarks",
    "count_ended": "benchmarks",
    "count_items_by_day": "the reconciler, of dates without a partition, or without a cache",
    "count_lost": "upkeep, each month once an hour",
    "count_open_items": "the reconciler, once a pass",
    "count_items_on_days": "a person who imports a calendar; limited",
    "count_pending_load": "a person who plans; all of `pending`, limited",
    "list_contradicted_endings": "the reconciler, of items in a window of dates",
    "list_unrecorded_endings": "the reconciler, of items in a window of dates",
    "list_run_items": "the reconciler, of the runs of a window of dates",
    "list_handed_out_orphans": "a repair of missing items: a page of claims, however old",
    "list_worked_orphans": "a repair of missing items: the journal of dates of a month",
    "digest_dates": "the reconciler, of a range of dates",
    "digest_days": "the reconciler, of a range of dates",
    "list_work_topics": "the reconciler, once a pass: the topics of the last weeks' claims",
    "load_endings": "benchmarks",
    "mark_materialised": "benchmarks",
    "measure_lags": "benchmarks",
    "measure_steps": "benchmarks",
    "read_accounting": "the identity: the reconciler, of a range of dates",
    "read_progress": "the demo's view and `status`",
}
"""The statements that may read a hot table without naming an index, and who runs them."""
TYPE_NAMES = {
    "integer": "int4",
    "bigint": "int8",
    "smallint": "int2",
    "double precision": "float8",
    "boolean": "bool",
    "bit varying": "varbit",
}

POPULATE = """
select $1 - count(*) from ledger.emit_items(
  array['acme', 'umbra'], array['PolicyRenewalDue', 'StatementDue'], array['', 'eu'],
  (select array_agg(1 + n % 2 order by n) from generate_series(1, $1) n),
  (select array_agg('key-' || n / 2 order by n) from generate_series(1, $1) n),
  (select array_agg((n % 2)::text order by n) from generate_series(1, $1) n),
  (select array_agg(date '2026-11-01' + n % 365 order by n) from generate_series(1, $1) n),
  (select array_agg(timestamptz '2026-01-01' + make_interval(secs => n) order by n)
   from generate_series(1, $1) n),
  (select array_agg('{"premium":"123.45"}'::text) from generate_series(1, $1) n),
  $2)
"""


PLANNED_BY_OTHERS = {
    "completed_since",  # inlined
    "record_outcomes",  # these are called by statements that have locked it
    "find_items",
    "find_item_columns",
    "fit_bytes",
    "match_items",
    "emit",  # finds nothing; it locks what it inserts into
    "emit_items",  # as `emit`
}


@pytest.fixture(scope="module")
async def populated(populated_database: str) -> AsyncGenerator[Connection]:
    """A ledger of 60,000 items: half completed or parked, some in flight; the rest wait."""
    connection = await connect(populated_database, application_name="test")
    actor_no = await register_actor(connection, "test", ActorKind.WORKER)
    assert await connection.fetchval(POPULATE, ITEMS, actor_no, timeout=300) == ITEMS
    await connection.execute("analyze")
    for number in range(ITEMS // BATCH // 2):
        outcome = TransitionEvent.PARKED if number % 10 == 0 else TransitionEvent.COMPLETED
        await _work_a_batch(connection, actor_no, None if number == 1 else outcome)
    await connection.execute(
        "insert into ledger.withdrawal"
        " select item_no, effective_date, 11, 'test', null, $1, now()"
        " from ledger.open_item limit 100",
        actor_no,
    )
    await connection.execute(
        "with key as ("
        "  insert into ledger.event_key (tenant, source, id, occurred_at, received_at)"
        "  select 'acme', '/policies', n::text, now(), now() from generate_series(1, 20000) n"
        "  returning *)"
        " insert into ledger.event (event_no, tenant, source, id, type, occurred_at, business_key,"
        " body, received_at) select event_no, tenant, source, id, 'PolicyActivated', occurred_at,"
        " 'key-' || id, '{}', received_at from key"
    )
    await connection.execute(
        "insert into ledger.pending"
        " (item_no, effective_date, flow_no, state, available_at, serial, serial_due_at, overlap)"
        " select 100000000 + n, '2027-03-01', 1, case when n % 8 = 0 then 4 else 1 end,"
        " case when n % 4 > 0 then 'infinity' else now() end,"
        " n / 4, now(), 1 from generate_series(1, 20000) n"
    )
    await connection.execute(
        "insert into ledger.past_load"
        " select 'acme', 'Kind' || k, '2027-03-01'::timestamptz + q * interval '15 minutes',"
        " '2027-03-01', 1, 1, 0, 0, 0, 0, 0"
        " from generate_series(0, 99) k, generate_series(0, 199) q"
    )
    await connection.execute("analyze ledger.past_load, ledger.past_sum")
    await connection.execute(
        "insert into ledger.definition"
        " (tenant, name, version, kind, document, effective_from, created_at, actor_no)"
        " select 'acme', 'schedule-' || n / 4, n % 4 + 1, 'Kind' || n % 100, '{}', now(), now(), $1"
        " from generate_series(1, 4000) n",
        actor_no,
    )
    await connection.execute(
        "insert into ledger.api_key (prefix, secret_digest, actor_no, scopes, created_by)"
        " select n::text, sha256('1'), $1, array['read'], $1 from generate_series(1, 4000) n",
        actor_no,
    )
    await connection.execute(
        "insert into ledger.api_answer (actor_no, idempotency_key, request_digest)"
        " select $1, n::text, sha256('1') from generate_series(1, 4000) n",
        actor_no,
    )
    await connection.execute(
        "insert into ledger.audit (actor_no, operation, target, tenants)"
        " select $1, 'test', n::text, array['tenant-' || n % 100] from generate_series(1, 4000) n",
        actor_no,
    )
    await connection.execute(
        "insert into ledger.operation (verb, tenant, in_flight, as_of, item_no_max, matched,"
        " matched_capped, needs_approval, actor_no, reason, ended_at)"
        " select 'cancel', 'tenant-' || n % 100,"
        " false, now(), 1, 1, false, n % 2 = 0, $1, 'test',"
        " case when n > 100 then now() end"
        " from generate_series(1, 4000) n",
        actor_no,
    )
    await connection.execute(
        "with made as ("
        "  insert into ledger.reconciliation (started_at, as_of, actor_no, scope)"
        "  select now(), now(), $1, '{}' from generate_series(1, 4000) returning *)"
        " insert into ledger.report (tenant, reconciliation_no, as_of, verdict, sentence,"
        " findings_open, document)"
        " select 'acme', reconciliation_no, as_of, 'complete', '', 0, '{}' from made",
        actor_no,
    )
    await connection.execute(
        "insert into ledger.held_key"
        " select n, 200000000 + n, '2027-03-01', 1, now() from generate_series(1, 4000) n"
    )
    await connection.execute("analyze")
    yield connection
    await connection.close()


async def _work_a_batch(
    connection: Connection, actor_no: int, event: TransitionEvent | None
) -> None:
    """Claim, start and end a batch; without an event leave half of it running, half handed out."""
    flows = await list_due_flows(connection, 100)
    async with connection.transaction():
        rows = await claim_items(
            connection, [flow.flow_no for flow in flows], [BATCH // len(flows)] * len(flows)
        )
        items = rows.items()
        (fence,) = await next_fences(connection, 1)
        claim = Claim(
            new_claim_id(fence, rows.claimed_at),
            actor_no,
            "due.Test",
            0,
            [row.item_no for row in items],
            [row.effective_date for row in items],
            [row.attempt + 1 for row in items],
            [row.starts + 1 for row in items],
            120,
            30,
        )
        await record_claims(connection, [claim])
    upto = len(rows) if event else len(rows) // 2
    (start,) = await start_runs(
        connection, [claim.id], [1], [upto], worker_no=actor_no, lease_seconds=60
    )
    if event and start.run:
        settlement = Settlement(start.run, [Outcome(event, '{"reason":"test"}')] * upto)
        assert await settle_runs(connection, [settlement], actor_no) == []


def test_header_is_complete_and_the_function_carries_the_statements_name() -> None:
    stores = {
        folder: "\n".join(module.read_text() for module in folder.glob("*.py"))
        for folder in (BENCH, STORE)
    }
    faults: dict[str, str] = {}
    for path in STATEMENTS:
        parsed = parse_statement(path)
        folder = BENCH if BENCH in path.parents else STORE
        runs = rf"(?:statement\(|fetch_counted\(\s*connection,)\s*\"{path.stem}\""
        if not parsed.sentence.endswith("."):
            faults[path.stem] = f"no sentence: {parsed.sentence}"
        elif ";" in re.sub(r"--.*", "", parsed.text):
            faults[path.stem] = "more than one statement"
        elif not re.search(runs, stores[folder]):
            faults[path.stem] = f"no function of {folder} runs it"
    assert faults == {}


DATED = re.compile(r"(?:from|join|into|update) ledger\.(?:due_item|transition)\b")
LOCKED_DEFAULT = "locked_default as (select from ledger.due_item_default)"


def test_what_finds_items_names_the_default_partition_so_that_it_is_locked_before_the_plan() -> (
    None
):
    """docs/adr/0011: the plan would not have a partition that is being made."""
    finding = {
        path: code
        for path in (*statement_paths(), *(SQL_ROOT / "schema").rglob("*.sql"))
        if path.stem not in PLANNED_BY_OTHERS
        and DATED.search(code := re.sub(r"--.*", "", path.read_text()))
    }
    assert finding
    assert [path.stem for path, code in finding.items() if LOCKED_DEFAULT not in code] == []


def test_what_makes_an_item_pending_wakes_the_processes_that_sleep() -> None:
    making = {
        path: code
        for path in SQL_ROOT.rglob("*.sql")
        if "insert into ledger.pending" in (code := path.read_text())
    }
    assert making
    assert [path for path, code in making.items() if "ledger.wake_sleepers(" not in code] == []


def test_each_statement_has_a_name_of_its_own() -> None:
    names = [path.stem for path in STATEMENTS]
    assert len(names) == len(set(names))


async def test_header_matches_what_the_server_says(populated: Connection) -> None:
    faults: dict[str, str] = {}
    for path in STATEMENTS:
        parsed = parse_statement(path)
        prepared = await populated.prepare(parsed.text)
        types = [_type_name(kind.name, kind.kind) for kind in prepared.get_parameters()]
        named = [_normal(parameter.type_name) for parameter in parsed.parameters]
        if named != types:
            faults[path.stem] = f"its parameters are {types}, not {named}"
        elif bool(prepared.get_attributes()) == (parsed.returns == "zero"):
            faults[path.stem] = f"it does not return {parsed.returns}"
    assert faults == {}


def _type_name(name: str, kind: str) -> str:
    return f"{name.removesuffix('[]').removeprefix('_')}[]" if kind == "array" else name


def _normal(name: str) -> str:
    element = name.removesuffix("[]")
    return TYPE_NAMES.get(element, element) + ("[]" if name.endswith("[]") else "")


async def test_plan_uses_the_indexes_named_and_scans_no_hot_table(populated: Connection) -> None:
    inherited = await populated.fetch(
        "select c.relname as child, p.relname as parent from pg_inherits i"
        " join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent"
    )
    parents = {str(row["child"]): str(row["parent"]) for row in inherited}
    faults: dict[str, str] = {}
    for path in STATEMENTS:
        parsed = parse_statement(path)
        plan = json.loads(await _explain(populated, parsed.text))[0]["Plan"]
        if fault := _fault_of_plan(parsed, list(_nodes(plan)), parents):
            faults[path.stem] = fault
    assert faults == {}


def _fault_of_plan(
    parsed: SqlStatement, nodes: list[dict[str, Any]], parents: Mapping[str, str]
) -> str:
    named = [str(node["Index Name"]) for node in nodes if "Index Name" in node]
    arbiters = [index for node in nodes for index in node.get("Conflict Arbiter Indexes", ())]
    used = {parents.get(index, index) for index in named + arbiters}
    if missing := set(parsed.indexes) - used:
        return f"the plan uses {sorted(used)} but not {sorted(missing)}"
    read = {
        parents.get(node["Relation Name"], node["Relation Name"])
        for node in nodes
        if "Relation Name" in node
        and node["Node Type"] != "ModifyTable"
        and (node["Node Type"] == "Seq Scan" or not parsed.indexes)
    }
    allowed = set[str]() if parsed.name not in READS_ALL else HOT_TABLES
    if excess := read & HOT_TABLES - allowed:
        return f"it reads {sorted(excess)} and names no index"
    return ""


async def _explain(connection: Connection, text: str) -> str:
    """Explain the generic plan: the one that force_generic_plan runs, whatever the arguments."""
    rows = await connection.fetch("select line from ledger_test.explain($1) line", text)
    return "\n".join(row["line"] for row in rows)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def test_the_identity_of_a_ledger_without_statistics_takes_no_loop_in_a_loop(
    connection: Connection,
) -> None:
    row = await connection.fetchrow(
        "select prosrc, proconfig from pg_proc"
        " where oid = 'ledger.accounting(date, date)'::regprocedure"
    )
    assert row is not None
    body = re.sub(r"\b(from|to)_date\b", "current_date", row["prosrc"])
    async with connection.transaction():
        for setting in row["proconfig"]:
            await connection.execute(
                "select set_config(split_part($1, '=', 1), split_part($1, '=', 2), true)", setting
            )
        explained = await connection.fetchval(f"explain (format json) {body}")
    loops = [node for node in _nodes(explained[0]["Plan"]) if node["Node Type"] == "Nested Loop"]
    assert {node["Plans"][1]["Node Type"] for node in loops} == {"Function Scan"}


LITERAL = re.compile(r"\b(\d+) /\* (\w+) \*/")
NAKED = re.compile(r"\b(?:state|event)\b[^\n;]{0,12}?(?:=|<>|in \()\s*\d+\b(?! /\*)")


def test_every_state_and_event_in_sql_is_a_number_with_its_own_name() -> None:
    names = {event.label: event.value for event in TransitionEvent} | {
        state.label: state.value for state in State
    }
    texts = {path: path.read_text() for path in (*SQL_ROOT.rglob("*.sql"), *BENCH.rglob("*.sql"))}
    literals = {path: LITERAL.findall(text) for path, text in texts.items()}
    assert any(literals.values())
    faults = {
        path: wrong
        for path, found in literals.items()
        if (wrong := [each for each in found if names.get(each[1]) != int(each[0])])
    }
    assert faults == {}
    naked = {
        path: NAKED.findall(text) for path, text in texts.items() if "statements" in path.parts
    }
    assert {path: found for path, found in naked.items() if found} == {}


async def test_the_clock_of_a_test_ledger_is_the_servers(connection: Connection) -> None:
    now = await connection.fetchval("select ledger.now() = statement_timestamp()")
    assert now
    assert (await connection.fetchval("select ledger.now()")) > datetime(2026, 1, 1, tzinfo=UTC)
