"""What an error means, for people and for programs: one catalogue for commands and for REST.

An error has a code, a message that says what, where and what to do, and details. A command adds the
exit code, an answer by HTTP the status and the title of the code.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

from dueledger.ledger.errors import DueledgerError, InvalidInput
from dueledger.ledger.visible_text import visible
from dueledger.stack import StackError


class FailureKind(NamedTuple):
    """What all errors of a code have: the status of HTTP, and a title that never changes."""

    status: HTTPStatus
    title: str


KINDS: Final = {
    "BEYOND_CALENDAR": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Day outside a calendar"),
    "BLAST_RADIUS_EXCEEDED": FailureKind(HTTPStatus.CONFLICT, "Too many repairs"),
    "BODY_INVALID": FailureKind(HTTPStatus.BAD_REQUEST, "Body that is not JSON"),
    "BODY_TOO_LARGE": FailureKind(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Body too large"),
    "CLOCK_REFUSED": FailureKind(HTTPStatus.FORBIDDEN, "Simulated clock refused"),
    "CONFLICT": FailureKind(HTTPStatus.CONFLICT, "Contradicts what is recorded"),
    "CONNECTION_LOST": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Connection lost"),
    "CURSOR_INVALID": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Cursor not of this list"),
    "DATABASE_REFUSED": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Refused by Postgres"),
    "DEADLOCK": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Deadlock"),
    "FAILED": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Failed"),
    "FILE_UNREADABLE": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Unreadable file"),
    "IDEMPOTENCY_KEY_MISSING": FailureKind(HTTPStatus.BAD_REQUEST, "Idempotency-Key missing"),
    "IDEMPOTENCY_KEY_REUSED": FailureKind(
        HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key of another request"
    ),
    "INTERNAL": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Defect in Dueledger"),
    "INVALID_DEFINITION": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid definition"),
    "INVALID_EVENT": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid event"),
    "INVALID_HEADER": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid header"),
    "INVALID_INPUT": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid input"),
    "INVALID_ITEM": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid item"),
    "INVALID_OUTCOME": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid outcome"),
    "INVALID_SETTING": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid setting"),
    "KEY_CONFLICT": FailureKind(HTTPStatus.CONFLICT, "Exists with other terms"),
    "KEY_MISSING": FailureKind(HTTPStatus.UNAUTHORIZED, "No valid API key"),
    "METHOD_NOT_ALLOWED": FailureKind(HTTPStatus.METHOD_NOT_ALLOWED, "Method not allowed"),
    "MISSING_EXTRA": FailureKind(HTTPStatus.NOT_IMPLEMENTED, "Optional library missing"),
    "NOT_FOUND": FailureKind(HTTPStatus.NOT_FOUND, "Not found"),
    "NOT_MIGRATED": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Schema missing or too old"),
    "NOT_PERMITTED": FailureKind(HTTPStatus.FORBIDDEN, "Not permitted"),
    "PRECONDITION_FAILED": FailureKind(HTTPStatus.PRECONDITION_FAILED, "Changed since it was read"),
    "PRECONDITION_MISSING": FailureKind(
        HTTPStatus.PRECONDITION_REQUIRED, "Version to replace not named"
    ),
    "RATE_EXCEEDED": FailureKind(HTTPStatus.TOO_MANY_REQUESTS, "Requests too fast"),
    "READ_ONLY": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Read-only server"),
    "REQUEST_INVALID": FailureKind(HTTPStatus.BAD_REQUEST, "Invalid request"),
    "REQUEST_TIMEOUT": FailureKind(HTTPStatus.REQUEST_TIMEOUT, "Request too slow"),
    "ROLE_MISSING": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Service without a right"),
    "SERVICE_BUSY": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Service busy"),
    "SOURCE_FAILED": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Source cannot be read"),
    "STACK_UNAVAILABLE": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Server did not start"),
    "STATEMENT_TIMEOUT": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Statement took too long"),
    "TOKEN_INVALID": FailureKind(HTTPStatus.UNAUTHORIZED, "No valid token"),
    "TOO_MANY_ATTEMPTS": FailureKind(HTTPStatus.TOO_MANY_REQUESTS, "Too many failed attempts"),
    "UNAVAILABLE": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Server unreachable"),
    "UNBALANCED": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Accounting does not balance"),
    "UNKNOWN_CALENDAR": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Unknown calendar"),
    "UNKNOWN_ZONE": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Unknown time zone"),
    "UNSEEN_PARTITION": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Partition not seen yet"),
    "SCHEMA_TOO_NEW": FailureKind(HTTPStatus.SERVICE_UNAVAILABLE, "Schema too new"),
    "UNSUPPORTED_SERVER": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Unsupported Postgres"),
    "UNTRUSTED_PEER": FailureKind(HTTPStatus.FORBIDDEN, "Not from a trusted proxy"),
    "WINDOW_TOO_LARGE": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Window too large"),
    "WITNESS_DISAGREES": FailureKind(HTTPStatus.UNPROCESSABLE_ENTITY, "Libraries disagree"),
    "WORKER_STUCK": FailureKind(HTTPStatus.INTERNAL_SERVER_ERROR, "Worker stuck"),
}
"""By code."""

EXIT_FAILED: Final = 1
EXIT_UNREACHABLE: Final = 3

# No such schema, table, function: the statements are tested on the schema they were written for.
_UNMIGRATED: Final = frozenset({"3F000", "42P01", "42883"})

_NOT_PERMITTED: Final = "42501"
_OWNER: Final = "owner"
"""In a statement's header: no role may run it."""

_REFUSED: Final = {
    "25006": (
        EXIT_UNREACHABLE,
        "READ_ONLY",
        "This server is read-only ({error}). Give DUELEDGER_DSN the address of the primary.",
    ),
    "57014": (
        EXIT_FAILED,
        "STATEMENT_TIMEOUT",
        "Postgres took too long ({error}): nothing was changed. Ask for less, or try again.",
    ),
    "40P01": (
        EXIT_FAILED,
        "DEADLOCK",
        "Deadlock with another transaction: nothing was changed. Repeat the command.",
    ),
}
"""By SQLSTATE: exit code, error code, and message."""

_ANY_REFUSED: Final = (
    EXIT_FAILED,
    "DATABASE_REFUSED",
    "Postgres refused it ({error}), and its transaction changed nothing. Remove the cause.",
)
_DEFECT_CLASS: Final = "42"
"""SQLSTATEs of a statement that is wrong, but for those above."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, for people and for programs."""

    exit_code: int
    code: str
    message: str
    details: dict[str, object]


def describe(error: Exception) -> Failure | None:
    """Return the description of an error; None if it is a defect in Dueledger."""
    match error:
        case DueledgerError():
            # Only problems and a server's log have lines of their own, or data could forge one.
            has_lines = isinstance(error, InvalidInput | StackError)
            message = error.message if has_lines else visible(error.message)
            return Failure(error.exit_code, error.code, message, _details(error))
        case _ if getattr(error, "sqlstate", None) in _UNMIGRATED:
            message = (
                f"The schema of this database is missing or too old ({_first_line(error)}). "
                "Run `dueledger migrate`."
            )
            return Failure(EXIT_FAILED, "NOT_MIGRATED", message, {})
        case _ if getattr(error, "sqlstate", None) == _NOT_PERMITTED:
            return _not_permitted(error)
        case _:
            return _refused(error)


def _not_permitted(error: Exception) -> Failure:
    """Name the roles that may run the refused statement, or what the server says is missing."""
    from dueledger.ledger.store.roles import roles_of_query  # noqa: PLC0415 - loads Postgres' client

    roles = roles_of_query(getattr(error, "query", None) or "")
    said = getattr(error, "hint", None) or getattr(error, "detail", None)
    if roles and roles != [_OWNER] and not said:
        said = f"it needs ledger_{' or ledger_'.join(roles)}: `dueledger grant ROLE TO LOGIN`"
    message = "; ".join(filter(None, (_first_line(error), said))).rstrip(".")
    shown = visible(f"The login lacks a privilege: {message}.")
    return Failure(EXIT_FAILED, "NOT_PERMITTED", shown, {"roles": roles})


def _refused(error: Exception) -> Failure | None:
    sqlstate: str | None = getattr(error, "sqlstate", None)
    if sqlstate is None or (sqlstate not in _REFUSED and sqlstate.startswith(_DEFECT_CLASS)):
        return None
    exit_code, code, sentence = _REFUSED.get(sqlstate, _ANY_REFUSED)
    return Failure(exit_code, code, sentence.format(error=_first_line(error)), {})


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
