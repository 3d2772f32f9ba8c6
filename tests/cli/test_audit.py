"""What people change by commands is in the audit, by the operations of the OpenAPI document."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dueledger.ledger.store import Connection
from tests.logins import with_login
from tests.service.conftest import CALENDAR, SCHEDULE
from tests.sql.statement_callers import statements_of_commands

Command = Callable[..., Any]

IN_OTHER_ROWS = {
    "items.emit": "due_item has the person",
    "processes.materialise": "tz_change has the person who applies one",
    "tz_changes.apply_change": "as above",
    "tz_changes.show_change": "as above",
    "repairs.run_repairs": "repair has the person who proposes and executes it",
    "reconciliation.reconcile": "it is a process",
    **{f"processes.{name}": "it is one" for name in ("alert", "allocate", "intake", "relay")},
    "processes.work": "it is one",
    "setup.dev": "it runs processes",
}
"""Commands that write as an actor and leave no entry, and why."""
REASON = ("--reason", "INC-1")
OWED = ("--tenant", "acme", "--kind", "Renewal")
FLOW = "flows/acme/Renewal"
DEFINITION = "definitions/acme/statements"


def test_a_command_that_writes_as_an_actor_leaves_an_entry_or_rows_that_name_the_actor() -> None:
    unaudited = {
        command
        for command, statements in statements_of_commands().items()
        if "register_actor" in statements and "record_audit" not in statements
    }
    assert unaudited == IN_OTHER_ROWS.keys()


async def test_the_audit_has_what_a_person_changed_by_commands_and_under_which_login(
    dueledger_on: Command, database: str, tmp_path: Path, connection: Connection
) -> None:
    owner: str = await connection.fetchval("select session_user")

    def run(*arguments: str, login: str | None = "operator") -> Any:  # noqa: ANN401 - the document
        dsn = database if login is None else with_login(database, login)
        ran = dueledger_on(*arguments, "--json", DUELEDGER_ACTOR="jane", DUELEDGER_DSN=dsn)
        assert ran.code == 0, ran.err
        return ran.lines[0] if ran.lines else None

    document = {"tenant": "acme", "definition": "statements", **SCHEDULE}
    (tmp_path / "statements.json").write_text(json.dumps(document))
    (tmp_path / "days.json").write_text(json.dumps(CALENDAR))
    due = ("--effective-date", "2027-03-01", "--due-at", "2199-01-01")
    ids = [run("emit", *OWED, *due, "--key", key)["id"] for key in ("P-1", "P-2")]
    run("define", "statements.json")
    run("calendar", "import", "days", "days.json", "--tenant", "acme")
    for _ in range(2):  # the second time, nothing changes
        run("pause", "acme", "Renewal", *REASON)
    run("resume", "acme", "Renewal")
    run("flow", "set", "acme", "Renewal", "--weight", "2")
    run("trigger", "statements", "--tenant", "acme", *REASON, "--cycle", "rerun")
    run("cancel", ids[0], *REASON)
    number = run("cancel", *OWED, *REASON, "--execute")["operation_no"]
    for verb in ("pause", "resume", "abort"):
        run("operation", verb, str(number), *REASON)
    made = run("key", "create", "billing", "--scope", "read", "--tenant", "acme", login=None)
    run("key", "rotate", made["prefix"], login=None)
    run("key", "revoke", made["prefix"], login=None)
    run("grant", "auditor", "TO", "test_auditor", login=None)

    listed = dueledger_on("audit", "--json", DUELEDGER_DSN=with_login(database, "auditor")).lines
    key = f"keys/{made['prefix']}"
    assert [(each["operation"], each["target"]) for each in reversed(listed)] == [
        ("putDefinition", DEFINITION),
        ("putCalendar", "calendars/acme/days"),
        ("pauseFlows", FLOW),
        ("resumeFlows", FLOW),
        ("setFlowLimits", f"{FLOW}/"),
        ("triggerDefinition", DEFINITION),
        ("decideItems", "items"),
        ("createOperation", f"operations/{number}"),
        *((f"{verb}Operation", f"operations/{number}") for verb in ("pause", "resume", "abort")),
        ("createKey", key),
        ("rotateKey", key),
        ("revokeKey", key),
        ("grantRoles", "logins/test_auditor"),
    ]
    assert {each["actor"] for each in listed} == {"person:jane"}
    assert [each["role"] for each in listed] == [each["login"] for each in listed]
    assert [each["login"] for each in listed] == [owner] * 4 + ["test_operator"] * 11
    changed = {
        each["operation"]: (each["before"], each["after"]) for each in listed if each["before"]
    }
    assert changed["setFlowLimits"] == ({"weight": 1}, {"weight": 2})
    had, has = changed["grantRoles"]
    assert {*had["all_roles"], "auditor"} == {*has["all_roles"]}
    assert changed.keys() == {each["operation"] for each in listed} - {
        *("pauseFlows", "triggerDefinition", "createOperation", "createKey"),
    }
    reasons = {each["operation"]: each["reason"] for each in listed}
    assert {name for name, reason in reasons.items() if reason == "INC-1"} == {
        *("pauseFlows", "triggerDefinition", "decideItems", "createOperation", "abortOperation"),
        *("pauseOperation", "resumeOperation"),
    }
    assert made["key"] not in json.dumps(listed)
    filtered = dueledger_on("audit", "--target", key, "--operation", "revokeKey", "--json").lines
    assert filtered == listed[1:2]
    oldest = dueledger_on("audit", "--oldest-first", "--limit", "2", "--json").lines
    assert oldest == listed[:-3:-1]
