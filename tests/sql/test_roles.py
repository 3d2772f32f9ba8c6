"""Each role has the rights that its statements need, and no others."""

import re
from collections.abc import AsyncGenerator, Iterable

import asyncpg
import pytest

from dueledger.ledger.store import Connection
from dueledger.ledger.store.roles import ROLES
from dueledger.ledger.store.statements import parse_statement, statement_paths
from tests.databases import MakeDatabase
from tests.sql.required_privileges import ANY_COLUMN, CALLER_FUNCTIONS, Privilege, PrivilegeReader
from tests.sql.statement_callers import statements_by_role

STATEMENTS = {path.stem: parse_statement(path) for path in statement_paths()}
PATHS = {path.stem: path for path in statement_paths()}
WITHOUT_STATEMENTS = {
    "monitor": {
        Privilege("execute", "measure_depth"),
        Privilege("execute", "measure_gauges"),
        Privilege("select", "ledger.depth"),
        Privilege("select", "ledger.watermark"),
    },
    "emitter": {Privilege("execute", name) for name in ("emit", "emit_arrays")},
    "simulator": set[Privilege](),
}
"""Roles of programs that are not Dueledger's: what they call and read is public."""
BY_COLUMN = {("select", "ledger.claim"), ("insert", "ledger.audit")}
"""A claim's token is a secret; the server alone names the time and the login of an audit entry."""

GRANTED = """
select a.grantee::regrole::text as role, lower(a.privilege_type) as verb,
  c.oid::regclass::text as object, '' as column
from pg_class c cross join lateral aclexplode(c.relacl) a
where c.relnamespace in ('ledger'::regnamespace, 'ledger_migration'::regnamespace)
union all
select a.grantee::regrole::text, lower(a.privilege_type), c.oid::regclass::text, t.attname
from pg_class c join pg_attribute t on t.attrelid = c.oid cross join lateral aclexplode(t.attacl) a
where c.relnamespace in ('ledger'::regnamespace, 'ledger_migration'::regnamespace)
union all
select a.grantee::regrole::text, lower(a.privilege_type), p.proname, ''
from pg_proc p cross join lateral aclexplode(p.proacl) a
where p.pronamespace = 'ledger'::regnamespace
"""


@pytest.fixture(scope="module")
async def owner(make_database: MakeDatabase) -> AsyncGenerator[Connection]:
    async with make_database() as dsn:
        connection = await asyncpg.connect(dsn)
        yield connection
        await connection.close()


@pytest.fixture(scope="module")
async def required(owner: Connection) -> dict[str, set[Privilege]]:
    """What each role's statements need."""
    reader = PrivilegeReader(owner)
    await reader.open()
    needed: dict[str, set[Privilege]] = {role: set() for role in ROLES}
    open_to_all = {
        row["proname"]
        for row in await owner.fetch(
            "select proname from pg_proc p where p.pronamespace = 'ledger'::regnamespace"
            " and has_function_privilege('public', p.oid, 'execute')"
        )
    }
    for name, path in PATHS.items():
        privileges = {each for each in await reader.read(path) if each.object not in open_to_all}
        for role in set(STATEMENTS[name].roles) - {"owner"}:
            needed[role] |= privileges
    for role, privileges in WITHOUT_STATEMENTS.items():
        needed[role] |= privileges
    return {role: _as_granted(privileges) for role, privileges in needed.items()}


def _as_granted(privileges: Iterable[Privilege]) -> set[Privilege]:
    """Return the grants that give these: updates by column, and the columns of secrets."""
    by_column = {
        each
        for each in privileges
        if each.verb == "update" or (each.verb, each.object) in BY_COLUMN
    }
    named = {(each.verb, each.object) for each in by_column if each.column != ANY_COLUMN}
    return {
        each
        for each in by_column
        if each.column != ANY_COLUMN or (each.verb, each.object) not in named
    } | {Privilege(each.verb, each.object) for each in privileges if each not in by_column}


OF_THE_OWNER = {"assign_cell", "fits_one_move", "grant_role", "revoke_role"}
"""Functions with their caller's rights that no role's statement calls."""
TABLE_NAMED = re.compile(r"\b(?:from|join|into|update)\s+\(*ledger\.\w+\b(?!\()", re.IGNORECASE)


async def test_what_each_function_with_its_callers_rights_needs_is_counted(
    owner: Connection,
) -> None:
    rows = await owner.fetch(
        "select p.proname, pg_get_functiondef(p.oid) as source from pg_proc p"
        " where p.pronamespace = 'ledger'::regnamespace and not p.prosecdef"
    )
    named = {row["proname"] for row in rows if TABLE_NAMED.search(row["source"])}
    assert named == CALLER_FUNCTIONS.keys() | OF_THE_OWNER


def test_each_statement_names_the_roles_whose_code_runs_it() -> None:
    runs = statements_by_role()
    named = {
        name: sorted(role for role, statements in runs.items() if name in statements)
        for name in STATEMENTS
    }
    assert {name: list(each.roles) for name, each in STATEMENTS.items()} == named


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_has_exactly_the_grants_that_its_statements_need(
    owner: Connection, required: dict[str, set[Privilege]], role: str
) -> None:
    granted = {
        Privilege(row["verb"], row["object"], row["column"])
        for row in await owner.fetch(GRANTED)
        if row["role"] == f"ledger_{role}"
    }
    needed = required[role]
    for each in [each for each in needed if each.column == ANY_COLUMN]:
        columns = sorted(grant for grant in granted if grant[:2] == each[:2])
        assert len(columns) == 1, f"{each.object} is locked: grant {each.verb} of one column"
        needed = needed - {each} | set(columns)
    assert granted == needed


async def test_each_statement_runs_under_each_role_that_it_names(
    owner: Connection,
) -> None:
    refused: list[str] = []
    for statement in STATEMENTS.values():
        for role in set(statement.roles) - {"owner"}:
            await owner.execute(f"set role ledger_{role}")
            try:
                await owner.execute(f"explain (generic_plan) {statement.text}")
            except asyncpg.InsufficientPrivilegeError as error:
                refused.append(f"{statement.name} as {role}: {error}")
            await owner.execute("reset role")
    assert not refused


# By intent: what each table is for decides who writes it. Nobody else does, and nobody truncates.
ENDS = {"outcome_intake", "pull_worker", "reconciler", "upkeep", "worker"}
"""Who records that a run's item ended without being done."""
CLAIMS = {"allocator", "pull_worker"}
"""Who hands out items."""
WITHDRAWS = {"intake", "reconciler"}
PROCESSES = {
    "alerter",
    "allocator",
    "intake",
    "materialiser",
    "outcome_intake",
    "reconciler",
    "relay",
    "service",
    "worker",
}
WRITERS: dict[str, dict[str, set[str]]] = {
    "alert": {"insert": {"alerter"}, "update": {"alerter"}, "delete": {"alerter"}},
    # The journal, and what is append-only beside it.
    "calendar": {"insert": {"operator"}},
    "calendar_use": {"insert": {"materialiser"}},
    "definition": {"insert": {"operator"}},
    "event": {"insert": {"intake"}},
    "event_other_key": {"insert": {"intake"}},
    "event_key": {"insert": {"intake"}, "update": {"upkeep"}, "delete": {"upkeep"}},
    "expedited": {"insert": {"operator", "upkeep"}},
    "flow_change": {"insert": {"operator"}},
    "population": {"insert": {"reconciler"}, "delete": {"upkeep"}},
    "rejected_write": {"insert": {"operator", *ENDS}, "delete": {"upkeep"}},
    "transition": {"insert": {"allocator", "materialiser", "operator", *ENDS, *WITHDRAWS}},
    "triggered": {"insert": {"operator"}},
    "tz_change": {"insert": {"operator"}},
    # Evidence by ledger.record_findings; here only how a finding was resolved.
    "finding": {"update": {"approver", "reconciler"}},
    # Work that is handed out.
    "claim": {"insert": CLAIMS, "update": {"allocator", "operator", *ENDS}},
    "run": {"insert": {*CLAIMS, "outcome_intake", "worker"}, "update": {"operator", *ENDS}},
    "credit": {"insert": {"worker"}, "update": {"worker"}, "delete": {"upkeep", "worker"}},
    "held_key": {"insert": CLAIMS, "delete": {"reconciler", "upkeep"}},
    # Who may use the REST interface.
    "actor": {"insert": {"key_manager"}, "update": {"key_manager"}},
    "api_key": {"insert": {"key_manager"}, "update": {"key_manager", "service"}},
    "api_answer": {"insert": {"service"}, "update": {"service", "upkeep"}, "delete": {"upkeep"}},
    # Append only: who changed what.
    "audit": {"insert": {"approver", "key_manager", "operator"}, "delete": {"upkeep"}},
    "console_session": {
        "insert": {"service"},
        "update": {"service", "upkeep"},
        "delete": {"upkeep"},
    },
    # Who lives, and whom a person asks to drain.
    "process": {
        "insert": PROCESSES,
        "update": PROCESSES | {"operator", "upkeep"},
        "delete": {"upkeep"},
    },
    "pending": {
        "insert": {"allocator", "operator", *ENDS},
        "update": {*CLAIMS, "materialiser", "operator", "upkeep", *WITHDRAWS},
        "delete": {*CLAIMS, "materialiser", "operator", "upkeep", *WITHDRAWS},
    },
    "review": {
        "insert": {"operator", *ENDS},
        "update": {"operator", "upkeep", *WITHDRAWS},
        "delete": {"operator", "upkeep", *WITHDRAWS},
    },
    "partition_backoff": {
        "insert": {"reconciler", "upkeep"},
        "update": {"pull_worker", "reconciler", "upkeep", "worker"},
        "delete": {"pull_worker", "upkeep", "worker"},
    },
    "stalled_partition": {"insert": {"worker"}, "delete": {"upkeep", "worker"}},
    "silent_topic": {
        "insert": {"reconciler", "upkeep"},
        "update": {"outcome_intake", "pull_worker"},
        "delete": {"outcome_intake", "pull_worker"},
    },
    # A person asks, and upkeep carries it out.
    "operation": {"insert": {"operator"}, "update": {"approver", "operator", "upkeep"}},
    "withdrawal": {
        "insert": {*CLAIMS, "operator", "upkeep", *WITHDRAWS},
        "update": {"upkeep"},
        "delete": {*CLAIMS, "materialiser", "operator", "upkeep", "worker", *WITHDRAWS},
    },
    # Limits, and what is counted for them.
    "failure_streak": {"insert": ENDS, "update": ENDS},
    "flood_pace": {"update": {"allocator"}},
    "flow": {"update": {*CLAIMS, "operator", "upkeep"}},
    "flow_outcome": {"insert": ENDS, "delete": {"upkeep"}},
    "kind": {"insert": {"operator"}, "update": {"operator"}},
    "past_load_count": {"insert": {"reconciler"}, "update": {"reconciler"}},
    "pause": {"insert": {"operator"}, "update": {"operator", "upkeep"}},
    # Schedules.
    "following": {"insert": {"materialiser"}, "update": {"materialiser"}},
    "materialised": {"insert": {"operator"}, "update": {"materialiser", "operator"}},
    "missed_range": {"insert": {"materialiser"}, "update": {"materialiser"}},
    "tz_change_version": {"insert": {"operator"}, "update": {"operator"}},
    # Passes.
    "partition_span": {"update": {"upkeep"}},
    "reconciliation": {"insert": {"reconciler"}, "update": {"reconciler"}, "delete": {"upkeep"}},
    "repair": {"insert": {"approver", "reconciler"}, "update": {"approver", "reconciler"}},
    "report": {"insert": {"reconciler"}, "delete": {"upkeep"}},
    "report_row": {"insert": {"reconciler"}, "delete": {"upkeep"}},
    "watermark": {"insert": {"reconciler"}, "update": {"reconciler"}},
    "witnessed": {"insert": {"operator", "reconciler"}, "update": {"operator", "reconciler"}},
}
NEVER_CHANGED = ("due_item", "event", "transition")
VERBS = ("select", "insert", "update", "delete", "truncate", "references", "trigger")

MATRIX = """
select c.relname as name, c.relispartition as is_partition, r.role, v.verb
from pg_class c
cross join unnest($1::text[]) r (role)
cross join unnest($2::text[]) v (verb)
where c.relnamespace = 'ledger'::regnamespace and c.relkind in ('r', 'p', 'v')
  and case
    when v.verb in ('delete', 'truncate', 'trigger')
    then has_table_privilege('ledger_' || r.role, c.oid, v.verb)
    else has_any_column_privilege('ledger_' || r.role, c.oid, v.verb) end
"""


async def test_each_role_writes_the_tables_that_are_its_work_and_no_others(
    owner: Connection, required: dict[str, set[Privilege]]
) -> None:
    allowed = await owner.fetch(MATRIX, ROLES, VERBS)
    assert len({row["name"] for row in allowed}) > len(WRITERS)
    written = {
        (row["name"], row["verb"], row["role"]) for row in allowed if row["verb"] != "select"
    }
    assert written == {
        (table, verb, role)
        for table, verbs in WRITERS.items()
        for verb, roles in verbs.items()
        for role in roles
    }
    read = {(f"ledger.{row['name']}", row["role"]) for row in allowed if row["verb"] == "select"}
    assert read == {
        (each.object, role)
        for role, privileges in required.items()
        for each in privileges
        if each.verb == "select" and each.object.startswith("ledger.")
    }
    assert {row["name"] for row in allowed if row["is_partition"]} == {"due_item_default"}


@pytest.mark.parametrize("table", NEVER_CHANGED)
def test_items_events_and_the_journal_are_never_changed(table: str) -> None:
    assert not WRITERS.get(table, {}).keys() & {"update", "delete"}


CALLERS = {
    "accept_disagreements": {"operator"},
    "add_overview_flows": {"service"},
    "add_overview_runs": set[str](),
    "count_overview_in_flight": {"service"},
    "count_overview_minutes": {"service"},
    "count_overview_waiting": {"service"},
    "measure_overview_rates": {"service"},
    "emit": {"emitter"},
    "emit_arrays": {"emitter", "relay"},
    "emit_follower": set[str](),
    "emitting_actor": set[str](),
    "emit_items": {"intake", "materialiser", "operator", "reconciler"},
    "ensure_flows": {"operator"},
    "find_other_terms": {"emitter"},
    "finish_items": set[str](),
    "finish_month": {"upkeep"},
    "has_token": {"auditor", "reconciler"},
    "lift_sequence": {"allocator", "outcome_intake", "service", "worker"},
    "list_sequences": {"auditor", "operator"},
    "lock_partitions": {"allocator", *ENDS},
    "lock_name": {"operator"},
    "forget_past_load": {"reconciler"},
    "lock_rows": {"intake"},
    "try_lock_rows": {"allocator", "pull_worker", "reconciler", "upkeep"},
    "make_partition": {"intake", "materialiser", "upkeep"},
    "measure_depth": {"auditor", "monitor", "operator"},
    "measure_gauges": {"alerter", "monitor", "upkeep"},
    "move_items": {"operator"},
    "add_past_load": set[str](),  # a trigger
    "name_repair_tenant": set[str](),  # a trigger
    "seal_row": set[str](),  # a trigger
    "read_overview_runs": {"service"},
    "record_findings": {"reconciler"},
    "record_past_load": {"reconciler"},
    "register_actor": set(ROLES)
    - {"auditor", "emitter", "key_manager", "monitor", "pull_worker", "simulator"}
    - {"upkeep"},
    "revise_items": {"intake", "materialiser"},
    "schema_version": set(ROLES),  # two numbers, which each process asks for
    "take_lead": {"alerter", "service", "upkeep"},
    "announce_sleep": PROCESSES,
    "wake_for_updates": set[str](),  # a trigger
    "wake_sleepers": {"allocator", "operator", *ENDS},
}

DEFINERS = """
select p.proname as name, r.role, p.proconfig
from pg_proc p left join unnest($1::text[]) r (role)
  on has_function_privilege('ledger_' || r.role, p.oid, 'execute')
where p.pronamespace = 'ledger'::regnamespace and p.prosecdef
"""


async def test_functions_with_their_owners_rights_are_called_by_roles_that_need_them(
    owner: Connection,
) -> None:
    rows = await owner.fetch(DEFINERS, ROLES)
    callers: dict[str, set[str]] = {row["name"]: set() for row in rows}
    for row in rows:
        if row["role"] is not None:
            callers[row["name"]].add(row["role"])
        assert "search_path=pg_catalog, pg_temp" in row["proconfig"], row["name"]
    assert callers == CALLERS
