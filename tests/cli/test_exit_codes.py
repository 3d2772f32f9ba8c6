"""Scripts branch on exit codes, and a program reads an error where a person reads a sentence."""

import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dueledger.cli.exit_codes import ExitCode
from tests.document_blocks import ROOT
from tests.logins import with_login

Command = Callable[..., Any]

SECRET = "geheim"  # noqa: S105 - it must not come back
UNREACHABLE = f"postgresql://someone:{SECRET}@127.0.0.1:1/nowhere"


FINDINGS = {
    "health": ("health",),
    "imports": ("import",),
    "reconciliation": ("reconcile --once", "repair"),
    "setup": ("doctor",),
    "tz_changes": ("materialise --check-tz",),
}
"""The modules of commands that end with findings, and what the documents call them."""


def test_the_documents_name_each_command_that_ends_with_findings() -> None:
    modules = (ROOT / "dueledger" / "cli").glob("*.py")
    ending = {each.stem for each in modules if "ExitCode.FINDINGS" in each.read_text("utf-8")}
    assert ending == FINDINGS.keys()
    [row] = re.findall(
        rf"^\| {ExitCode.FINDINGS:d} \|.*$",
        (ROOT / "docs" / "operations.md").read_text("utf-8"),
        re.MULTILINE,
    )
    named = [command for commands in FINDINGS.values() for command in commands]
    assert [each for each in named if f"`{each}`" not in row] == []


def test_help_names_every_command(dueledger: Command) -> None:
    ran = dueledger("--help")
    assert ran.code == 0
    commands = (
        "demo dev doctor migrate define preview plan import emit items show why park redrive "
        "write-off materialise allocate work intake reconcile findings repair bench"
    )
    assert [name for name in commands.split() if f" {name} " not in ran.out] == []


def test_an_unknown_command_is_a_usage_error(dueledger: Command) -> None:
    assert dueledger("nonsense").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense", "--json"),
        ("items", "--json", "--nonsense"),
        ("items", "--limit", "0", "--json"),
        ("show", "--json"),
    ],
)
def test_options_that_are_refused_are_a_document_where_json_is_asked_for(
    dueledger: Command, arguments: tuple[str, ...]
) -> None:
    ran = dueledger(*arguments)
    assert ran.code == 2
    assert ran.document["error"]["code"] == "USAGE"
    assert ran.document["error"]["detail"] in ran.err


@pytest.mark.parametrize(
    ("arguments", "option", "subcommand"),
    [
        (("--tenant", "acme", "list"), "--tenant", "list"),
        (("--json", "--limit", "3", "approve"), "--limit", "approve"),
    ],
)
def test_an_option_that_stands_before_a_subcommand_is_refused_and_not_ignored(
    dueledger: Command, arguments: tuple[str, ...], option: str, subcommand: str
) -> None:
    ran = dueledger("repair", *arguments)
    assert ran.code == 2
    assert f"Invalid value for {option}: {subcommand} does not read options" in ran.err


@pytest.mark.parametrize("command", ["allocate", "intake", "materialise", "work"])
def test_every_process_takes_json(dueledger: Command, command: str) -> None:
    handlers = ["dueledger.examples.insurer.handlers:handlers"] if command == "work" else []
    ran = dueledger(command, *handlers, "--json")
    assert ran.code == 2
    assert ran.document["error"]["details"]["problems"][0]["field"] == "DUELEDGER_DSN"


@pytest.mark.parametrize(
    "arguments", [("--direct",), ("--direct", "--outcomes"), ("--http", "--outcomes")]
)
def test_a_worker_without_handlers_or_with_two_modes_is_a_usage_error(
    dueledger: Command, arguments: tuple[str, ...]
) -> None:
    ran = dueledger("work", *arguments, "--json")
    assert ran.code == 2
    assert ran.document["error"]["code"] == "USAGE"


def test_one_pass_of_sending_without_kafka_ends_where_there_is_nothing_to_send(
    dueledger_on: Command,
) -> None:
    environment = {
        "DUELEDGER_HTTP_ALLOWED_ORIGINS": "hooks.example.com",
        "DUELEDGER_BOOTSTRAP_SERVERS": "nowhere:1",
    }
    ran = dueledger_on("work", "--direct", "--http", "--once", "--json", **environment)
    assert ran.code == 0
    assert ran.document["settled"] == 0


def test_help_and_version_end_well_with_json(dueledger: Command) -> None:
    assert dueledger("items", "--json", "--help").code == 0
    version = dueledger("version", "--json").document["version"]
    assert dueledger("--version").out == f"dueledger {version}\n"


def test_a_missing_setting_is_named_by_its_variable(dueledger: Command) -> None:
    ran = dueledger("items", "--json")
    assert ran.code == 2
    error = ran.document["error"]
    assert error["code"] == "INVALID_SETTING"
    assert error["details"]["problems"][0]["field"] == "DUELEDGER_DSN"


def test_an_unreachable_server_has_a_code_of_its_own_and_keeps_the_secret(
    dueledger: Command,
) -> None:
    ran = dueledger("items", "--json", DUELEDGER_DSN=UNREACHABLE)
    assert ran.code == 3
    assert ran.document["error"]["code"] == "UNAVAILABLE"
    assert SECRET not in ran.out + ran.err


@pytest.mark.parametrize(
    "dsn",
    [
        SECRET,
        f"http://someone:{SECRET}@127.0.0.1/x",
        f"closed://someone:{SECRET}@127.0.0.1/x",
        f"postgresql://someone:{SECRET}/{SECRET}@127.0.0.1:5432/x",
        f"postgresql://someone:{SECRET}@127.0.0.1:5432/x?sslmode={SECRET}",
    ],
)
def test_an_address_that_cannot_be_read_is_named_and_never_quoted(
    dueledger: Command, dsn: str
) -> None:
    ran = dueledger("items", "--json", "--dsn", dsn)
    assert ran.code == 2
    assert ran.document["error"]["details"]["problems"][0]["field"] == "DUELEDGER_DSN"
    doctor = dueledger("doctor", "--json", "--bootstrap-servers", "127.0.0.1:1", "--dsn", dsn)
    assert doctor.code == 4
    [postgres] = [one for one in doctor.document["checks"] if one["name"] == "postgres"]
    assert postgres["health"] == "fail"
    assert "Traceback" not in ran.err + doctor.err
    assert SECRET not in ran.out + ran.err + doctor.out + doctor.err


@pytest.mark.parametrize("command", [("allocate",), ("intake",), ("doctor",), ("materialise",)])
def test_a_login_to_kafka_without_its_protocol_is_refused_before_anything_starts(
    dueledger: Command, command: tuple[str, ...]
) -> None:
    ran = dueledger(
        *command,
        "--json",
        DUELEDGER_DSN=UNREACHABLE,
        DUELEDGER_KAFKA_SASL_USERNAME="alice",
        DUELEDGER_KAFKA_SASL_PASSWORD=SECRET,
    )
    assert ran.code == 2
    (problem,) = ran.document["error"]["details"]["problems"]
    assert problem["field"] == "DUELEDGER_KAFKA_SECURITY_PROTOCOL"
    assert problem["accepted"] == "SASL_SSL"
    assert SECRET not in ran.out + ran.err


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("postgresql://someone@127.0.0.1:1/x", "connection was refused"),
        ("postgresql://someone@no-such-host.invalid/x", "host is unknown"),
    ],
)
def test_an_unreachable_server_has_an_exit_code_of_its_own(
    dueledger: Command, address: str, cause: str
) -> None:
    ran = dueledger("items", "--dsn", address)
    assert ran.code == 3
    assert cause in ran.err


@pytest.mark.parametrize(
    "command",
    [("materialise",), ("work", "--direct", "dueledger.examples.insurer.handlers:handlers")],
)
def test_one_pass_does_not_wait_for_an_unreachable_server(
    dueledger: Command, command: tuple[str, ...]
) -> None:
    assert dueledger(*command, "--once", DUELEDGER_DSN=UNREACHABLE).code == 3


def test_a_missing_database_has_an_exit_code_of_its_own(dueledger: Command, database: str) -> None:
    ran = dueledger("items", "--dsn", f"{database}_not")
    assert ran.code == 3
    assert "database does not exist" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ("items",),
        ("allocate",),
        ("allocate", "--once"),
        ("materialise",),
        ("materialise", "--once"),
        ("intake",),
        ("intake", "--once"),
        ("reconcile",),
        ("reconcile", "--once"),
        ("work", "dueledger.examples.insurer.handlers:handlers"),
    ],
)
def test_a_database_never_migrated_is_said_to_want_it(
    dueledger_unmigrated: Command, command: tuple[str, ...]
) -> None:
    ran = dueledger_unmigrated(*command)
    assert ran.code == 1
    assert "dueledger migrate" in ran.err
    assert "Traceback" not in ran.err


def test_an_option_stands_above_the_environment(dueledger_on: Command) -> None:
    assert dueledger_on("items").code == 0
    assert dueledger_on("items", "--dsn", UNREACHABLE).code == 3


def test_a_file_that_is_not_there_is_named(dueledger: Command) -> None:
    ran = dueledger("preview", "nowhere.yaml")
    assert ran.code == 2
    assert "nowhere.yaml" in ran.err


def test_a_type_of_finding_that_there_is_not_is_no_all_clear(dueledger: Command) -> None:
    ran = dueledger("findings", "--type", "NOPE", "--json", DUELEDGER_DSN=UNREACHABLE)
    assert ran.code == 2
    assert "NOPE" in ran.err


@pytest.mark.parametrize("handlers", ["nothing", "no.such.module:handlers", "json:loads"])
def test_handlers_that_cannot_be_loaded_are_refused_before_anything_starts(
    dueledger: Command, handlers: str
) -> None:
    ran = dueledger("work", handlers, DUELEDGER_DSN=UNREACHABLE)
    assert ran.code == 2
    assert handlers in ran.err


def test_the_doctor_names_what_is_wrong_and_the_remedy(dueledger_on: Command) -> None:
    assert dueledger_on("migrate").code == 0  # the databases of tests have fewer months
    healthy = dueledger_on("doctor", "--json")
    assert healthy.code == 0
    assert {check["health"] for check in healthy.document["checks"]} == {"ok"}
    sick = dueledger_on("doctor", "--json", DUELEDGER_BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert sick.code == 4
    [failed] = [check for check in sick.document["checks"] if check["health"] == "fail"]
    assert failed["name"] == "kafka"
    assert failed["remedy"]


def test_the_doctor_asks_for_kafka_only_where_its_address_is_set(
    dueledger: Command, database: str
) -> None:
    ran = dueledger("doctor", "--json", DUELEDGER_DSN=database)
    [kafka] = [check for check in ran.document["checks"] if check["name"] == "kafka"]
    assert (kafka["health"], kafka["text"]) == (
        "ok",
        "not set: DUELEDGER_BOOTSTRAP_SERVERS names none",
    )


def test_findings_end_a_reconciliation_with_their_own_exit_code(
    dueledger_on: Command, database: str
) -> None:
    assert dueledger_on("reconcile", "--once", "--json").code == 0
    dates = ("--effective-from", "2027-01-01", "--effective-to", "2027-02-01", "--json")
    assert dueledger_on("reconcile", "--once", *dates).code == 0
    assert dueledger_on("reconcile", *dates).code == 2
    swapped = ("--effective-from", "2027-02-01", "--effective-to", "2027-01-01")
    assert dueledger_on("reconcile", "--once", *swapped).code == 2
    long_ago = ("--effective-date", "2026-01-01", "--due-at", "2026-01-01")
    # Of a topic of its own: in one that another ledger uses, records are orphans.
    kind = f"Reminder{secrets.token_hex(4)}"
    owed = ("--tenant", "acme", "--kind", kind, "--key", "INV-1")
    assert dueledger_on("emit", *owed, *long_ago).code == 0
    ran = dueledger_on("reconcile", "--once", "--json")
    assert ran.code == 4
    found = dueledger_on("findings", "--json").lines
    assert [(each["type"], each["business_key"]) for each in found] == [("OVERDUE", "INV-1")], found
    assert ran.document["findings_open"] == 1
    dsn = with_login(database, "auditor")
    read = dueledger_on("reconcile", "--once", "--read-only", "--json", DUELEDGER_DSN=dsn)
    now = {"complete_before": read.document["complete_before"]}
    assert (read.code, read.document) == (4, ran.document | now)


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("--read-only", ("--once", "--repairs", "execute")),
        ("--read-only", ()),
        ("--from", ("--from", "2027-03-01")),
        ("--to", ("--once", "--from", "2027-03-01", "--to", "2027-03-01")),
    ],
)
def test_what_a_reconciliation_cannot_do_is_a_wrong_use_of_the_option(
    dueledger: Command, option: str, arguments: tuple[str, ...]
) -> None:
    given = ("--read-only", *arguments) if option == "--read-only" else arguments
    ran = dueledger("reconcile", *given, "--dsn", UNREACHABLE)
    assert ran.code == 2
    assert option in ran.err


@pytest.mark.parametrize("servers", ["foo:bar", "", "foo", ":", "host:999999", "host:1,other"])
def test_addresses_of_kafka_that_cannot_be_are_refused_by_name(
    dueledger: Command, servers: str
) -> None:
    ran = dueledger("intake", "--bootstrap-servers", servers, "--json", "--dsn", UNREACHABLE)
    assert ran.code == 2
    [problem] = ran.document["error"]["details"]["problems"]
    assert problem["field"] == "DUELEDGER_BOOTSTRAP_SERVERS"


def test_a_list_that_is_not_json_is_refused_by_name(dueledger: Command) -> None:
    environment = {"DUELEDGER_WORKER_TOPICS": "foo", "DUELEDGER_DSN": UNREACHABLE}
    ran = dueledger("work", "dueledger.examples.insurer.handlers:handlers", "--json", **environment)
    assert ran.code == 2
    [problem] = ran.document["error"]["details"]["problems"]
    assert problem["field"] == "DUELEDGER_WORKER_TOPICS"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nraise RuntimeError('not today')", "RuntimeError: not today, at"),
        ("def broken(:", "SyntaxError"),
        ("import no_such_package", "no_such_package"),
        ("from json import no_such_name", "no_such_name"),
    ],
)
def test_a_module_of_handlers_that_fails_is_named_with_its_line(
    dueledger: Command, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "mine.py").write_text(text)
    ran = dueledger("work", "mine:handlers", DUELEDGER_DSN=UNREACHABLE)
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert said in ran.err
    assert "mine.py:" in ran.err


def test_an_argument_that_is_not_utf8_is_refused(dueledger: Command) -> None:
    ran = dueledger("show", "caf\udce9", "--json")
    assert ran.code == 2
    assert "Argument 2 is not UTF-8" in ran.document["error"]["detail"]


@pytest.mark.parametrize(
    ("parameter", "code", "said"),
    [
        ("target_session_attrs=standby", 3, "target_session_attrs"),
        ("nonsense=1", 2, "unknown to Postgres or refused"),
        ("datestyle=nonsense", 2, "unknown to Postgres or refused"),
    ],
)
def test_an_impossible_parameter_of_the_address_is_reported(
    dueledger_on: Command, database: str, parameter: str, code: int, said: str
) -> None:
    ran = dueledger_on("items", "--dsn", f"{database}?{parameter}")
    assert (ran.code, said in ran.err, "Traceback" in ran.err) == (code, True, False)
