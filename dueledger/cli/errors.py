"""Errors, mapped once to what is printed and to the exit code."""

from dataclasses import dataclass
from io import StringIO
from typing import Final, cast

import typer

from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.output import print_document, say_lines
from dueledger.ledger.errors import DueledgerError, InvalidInput
from dueledger.ledger.visible_text import visible
from dueledger.stack import StackError

# No such schema, table, function: the statements are tested on the schema they were written for.
_UNMIGRATED: Final = frozenset({"3F000", "42P01", "42883"})

_NOT_PERMITTED: Final = "42501"
_OWNER: Final = "owner"
"""In a statement's header: no role may run it."""

_REFUSED: Final = {
    "25006": (
        ExitCode.UNREACHABLE,
        "READ_ONLY",
        "This server is read-only ({error}). Give DUELEDGER_DSN the address of the primary.",
    ),
    "40P01": (
        ExitCode.FAILED,
        "DEADLOCK",
        "Deadlock with another transaction: nothing was changed. Repeat the command.",
    ),
}
"""By SQLSTATE: exit code, error code, and message."""

_ANY_REFUSED: Final = (
    ExitCode.FAILED,
    "DATABASE_REFUSED",
    "Postgres refused it ({error}), and its transaction changed nothing. Remove the cause.",
)
_DEFECT_CLASS: Final = "42"
"""SQLSTATEs of a statement that is wrong, but for those above."""

_USAGE_ERROR: Final = typer.BadParameter.mro()[1]
"""The class of all usage errors. Its module differs between Typer's releases."""


@dataclass(frozen=True, slots=True)
class CommandError:
    """An error, for people and for programs."""

    exit: ExitCode
    code: str
    message: str
    details: dict[str, object]


def describe(error: Exception) -> CommandError | None:
    """Return the description of an error.

    None if it is a defect in Dueledger, or if nobody reads the output any more.
    """
    match error:
        case DueledgerError():
            # Only problems and a server's log have lines of their own, or data could forge one.
            has_lines = isinstance(error, InvalidInput | StackError)
            message = error.message if has_lines else visible(error.message)
            return CommandError(ExitCode(error.exit_code), error.code, message, _details(error))
        case _ if isinstance(error, _USAGE_ERROR):
            refused = cast("typer.BadParameter", error)
            return CommandError(ExitCode.USAGE, "USAGE", refused.format_message(), {})
        case OSError() if error.filename is not None:  # one of a connection has none
            message = visible(f"{error.filename}: {error.strerror}. Give another path.")
            details: dict[str, object] = {"path": str(error.filename)}
            return CommandError(ExitCode.USAGE, "FILE_UNREADABLE", message, details)
        case _ if getattr(error, "sqlstate", None) in _UNMIGRATED:
            message = (
                f"The schema of this database is missing or too old ({_first_line(error)}). "
                "Run `dueledger migrate`."
            )
            return CommandError(ExitCode.FAILED, "NOT_MIGRATED", message, {})
        case _ if getattr(error, "sqlstate", None) == _NOT_PERMITTED:
            return _not_permitted(error)
        case _:
            return _refused(error)


def _not_permitted(error: Exception) -> CommandError:
    """Name the roles that may run the refused statement, or what the server says is missing."""
    from dueledger.ledger.store.roles import roles_of_query

    roles = roles_of_query(getattr(error, "query", None) or "")
    said = getattr(error, "hint", None) or getattr(error, "detail", None)
    if roles and roles != [_OWNER] and not said:
        said = f"it needs ledger_{' or ledger_'.join(roles)}: `dueledger grant ROLE TO LOGIN`"
    message = "; ".join(filter(None, (_first_line(error), said))).rstrip(".")
    shown = visible(f"The login lacks a privilege: {message}.")
    return CommandError(ExitCode.FAILED, "NOT_PERMITTED", shown, {"roles": roles})


def _refused(error: Exception) -> CommandError | None:
    sqlstate: str | None = getattr(error, "sqlstate", None)
    if sqlstate is None or (sqlstate not in _REFUSED and sqlstate.startswith(_DEFECT_CLASS)):
        return None
    ending, code, sentence = _REFUSED.get(sqlstate, _ANY_REFUSED)
    return CommandError(ending, code, sentence.format(error=_first_line(error)), {})


def _first_line(error: Exception) -> str:
    """Return what Postgres refused; the lines after it are details and hints."""
    return str(error).partition("\n")[0]


def _details(error: DueledgerError) -> dict[str, object]:
    if not isinstance(error, InvalidInput):
        return error.fields
    problems = [
        {"field": p.field, "value": p.value, "reason": p.reason, "accepted": p.accepted}
        for p in error.problems
    ]
    return {**error.fields, "problems": problems}


def report_error(error: Exception, *, as_json: bool) -> ExitCode | None:
    """Print an error and return the exit code; None for a defect, of which nothing is printed."""
    if isinstance(error, _USAGE_ERROR) and not as_json:
        shown = StringIO()
        cast("typer.BadParameter", error).show(shown)
        say_lines(shown.getvalue().removesuffix("\n"))
        return ExitCode.USAGE
    failure = describe(error)
    if failure is not None:
        report(failure, as_json=as_json)
    return None if failure is None else failure.exit


def report(failure: CommandError, *, as_json: bool) -> None:
    """Print an error on stderr and, with `as_json`, as a document on stdout."""
    say_lines(f"error {failure.code}: {failure.message}")
    if as_json:
        document = {"code": failure.code, "detail": failure.message, "details": failure.details}
        print_document({"error": document})
