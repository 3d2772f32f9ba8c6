"""The errors that callers may receive: one root, a stable code, and fields.

A message says what is wrong, where, and what to do.

The command line maps `exit_code`, REST maps `code`; nothing else decides what an error means.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, cast

from dueledger.ledger.visible_text import visible

VALUE_CHARS_MAX: Final = 120

_INTEGER_BITS_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of one field. `accepted` is what to write instead, or None.

    As text it is one line, whatever the value has.
    """

    field: str
    value: str
    reason: str
    accepted: str | None = None

    def __str__(self) -> str:
        shown = f" (got {self.value})" if self.value else ""
        remedy = f" Write: {self.accepted}." if self.accepted else ""
        return visible(f"{self.field}: {self.reason.rstrip('.')}{shown}.{remedy}")


def shown_value(value: object) -> str:
    """Return `value` for an error message: its repr, cut to a readable length.

    Only what is shown is computed: a value may be deep, or name one large part many times.
    """
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > VALUE_CHARS_MAX:
            return f"{text[:VALUE_CHARS_MAX]}…"
    return text


def _pieces(value: object) -> Iterator[str]:
    """Yield the parts of a repr, as far as somebody takes them."""
    match value:
        case str() | bytes():
            yield repr(value[: VALUE_CHARS_MAX + 1])
        case dict():
            yield "{"
            for number, (name, member) in enumerate(cast("dict[object, object]", value).items()):
                yield ", " if number else ""
                yield from _pieces(name)
                yield ": "
                yield from _pieces(member)
            yield "}"
        case list():
            yield "["
            for number, member in enumerate(cast("list[object]", value)):
                yield ", " if number else ""
                yield from _pieces(member)
            yield "]"
        case int() if value.bit_length() > _INTEGER_BITS_MAX:
            yield f"a whole number of {value.bit_length():,} bits"
        case _:
            yield repr(value)


class DueledgerError(Exception):
    """The root of all errors. `fields` are for programs, `message` is for people."""

    code: ClassVar[str] = "FAILED"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class InvalidInput(DueledgerError):
    """Input from outside is invalid; `problems` names each field."""

    code = "INVALID_INPUT"
    exit_code = 2

    def __init__(self, message: str, problems: Sequence[Problem] = (), **fields: object) -> None:
        super().__init__("\n  ".join((visible(message), *map(str, problems))), **fields)
        self.problems = tuple(problems)


class UnreadableFile(InvalidInput):
    """A file is missing, too long, not UTF-8, or may not be read."""

    code = "FILE_UNREADABLE"

    def __init__(
        self, path: Path, reason: str, accepted: str = "a file in UTF-8 that can be read"
    ) -> None:
        problem = Problem(str(path), "", reason, accepted)
        super().__init__("The file cannot be read:", [problem], path=str(path))

    @property
    def reason(self) -> str:
        """Return why, with nothing of the content."""
        return self.problems[0].reason


class InvalidDefinition(InvalidInput):
    """A definition document is invalid."""

    code = "INVALID_DEFINITION"


class WitnessDisagrees(InvalidDefinition):
    """A library expands a schedule to other times than this product does."""

    code = "WITNESS_DISAGREES"


class InvalidEvent(InvalidInput):
    """A domain event cannot be applied as its rule says."""

    code = "INVALID_EVENT"


class InvalidItem(InvalidInput):
    """A due item exceeds a limit, or has a key that cannot be stored."""

    code = "INVALID_ITEM"


class BeyondCalendar(InvalidItem):
    """A day is before a calendar's first day or after its last: the calendar does not cover it."""

    code = "BEYOND_CALENDAR"


class UnknownCalendar(InvalidInput):
    """A definition names a calendar that does not exist, or cannot be read."""

    code = "UNKNOWN_CALENDAR"


class InvalidHeader(InvalidInput):
    """A Kafka record's headers do not follow the contract."""

    code = "INVALID_HEADER"


class InvalidOutcome(InvalidInput):
    """A reported outcome does not follow the contract."""

    code = "INVALID_OUTCOME"


class InvalidSetting(InvalidInput):
    """A setting or an option is outside its bounds."""

    code = "INVALID_SETTING"


class UnknownZone(InvalidInput):
    """A time zone that the pinned tz database does not have."""

    code = "UNKNOWN_ZONE"


class WindowTooLarge(InvalidInput):
    """A window has more occurrences than one pass may expand: use a shorter one."""

    code = "WINDOW_TOO_LARGE"


class NotFound(DueledgerError):
    """The named thing does not exist."""

    code = "NOT_FOUND"
    exit_code = 2


class UnsupportedServer(DueledgerError):
    """The version of Postgres is too old."""

    code = "UNSUPPORTED_SERVER"


class SchemaTooOld(DueledgerError):
    """The schema lacks migrations that this version needs."""

    code = "NOT_MIGRATED"


class SchemaTooNew(DueledgerError):
    """A migration that this version does not know made the schema unusable for it."""

    code = "SCHEMA_TOO_NEW"


class NotPermitted(DueledgerError):
    """The login lacks a role or an attribute of Postgres, or the API key a scope or tenants."""

    code = "NOT_PERMITTED"

    def __init__(self, message: str, problems: Sequence[Problem] = (), **fields: object) -> None:
        super().__init__(message, **fields)
        self.problems = tuple(problems)


class Conflict(DueledgerError):
    """The request contradicts what is recorded."""

    code = "CONFLICT"

    def __init__(self, message: str, problems: Sequence[Problem] = (), **fields: object) -> None:
        super().__init__(message, **fields)
        self.problems = tuple(problems)


class KeyConflict(Conflict):
    """An item with this identity exists with other terms; `problems` names each that differs."""

    code = "KEY_CONFLICT"


class Unbalanced(DueledgerError):
    """The accounting identity does not hold."""

    code = "UNBALANCED"


class UnseenPartition(DueledgerError):
    """A statement locked items and found fewer of them: a partition is newer than its plan.

    Nothing was changed. A new transaction sees the partition. If one does not, there are rows
    without their item, which only manual changes in the database can cause.
    """

    code = "UNSEEN_PARTITION"


class MissingExtra(DueledgerError):
    """The command needs an optional library; the message says how to install it."""

    code = "MISSING_EXTRA"


class Unavailable(DueledgerError):
    """A service that this one needs cannot be reached. Retrying later is safe."""

    code = "UNAVAILABLE"
    exit_code = 3

    def __init__(self, message: str, *, service: str, **fields: object) -> None:
        super().__init__(message, service=service, **fields)
        self.service = service


class ConnectionLost(Unavailable):
    """A connection was lost in its use: it is unknown whether its last statement took effect."""

    code = "CONNECTION_LOST"


class RequestRefused(DueledgerError):
    """A request by HTTP is refused before its route is reached: one class for each code."""


class KeyMissing(RequestRefused):
    """A request has no API key, or one that is unknown, revoked or expired."""

    code = "KEY_MISSING"


class TokenInvalid(RequestRefused):
    """A token is not valid here; the `reason` shows none of it."""

    code = "TOKEN_INVALID"

    def __init__(self, reason: str) -> None:
        remedy = "Send another token as `Authorization: Bearer TOKEN`, or an API key."
        super().__init__(f"The token is {reason}. {remedy}")
        self.reason = reason


class TooManyAttempts(RequestRefused):
    """An address sent too many wrong keys; `seconds` until it may send the next."""

    code = "TOO_MANY_ATTEMPTS"

    def __init__(self, message: str, *, seconds: int) -> None:
        super().__init__(message, seconds=seconds)
        self.seconds = seconds


class RateExceeded(RequestRefused):
    """A caller makes requests too fast; `seconds` until it may make the next."""

    code = "RATE_EXCEEDED"

    def __init__(self, message: str, *, seconds: int) -> None:
        super().__init__(message, seconds=seconds)
        self.seconds = seconds


class ServiceBusy(RequestRefused):
    """A request would wait too long for its turn; `seconds` until it is worth trying again."""

    code = "SERVICE_BUSY"

    def __init__(self, message: str, *, seconds: int) -> None:
        super().__init__(message, seconds=seconds)
        self.seconds = seconds


class RequestTimeout(RequestRefused):
    """The body of a request did not arrive in time."""

    code = "REQUEST_TIMEOUT"


class InvalidBody(RequestRefused):
    """The body of a request is not JSON, or is nested too deep."""

    code = "BODY_INVALID"


class BodyTooLarge(RequestRefused):
    """The body of a request has too many bytes."""

    code = "BODY_TOO_LARGE"


class IdempotencyKeyMissing(RequestRefused):
    """A request that would have another effect if it were repeated has no Idempotency-Key."""

    code = "IDEMPOTENCY_KEY_MISSING"


class IdempotencyKeyReused(RequestRefused):
    """An Idempotency-Key was used before, for another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


class InvalidCursor(RequestRefused):
    """A cursor of a list is not one that this list gave for these filters."""

    code = "CURSOR_INVALID"


class PreconditionMissing(RequestRefused):
    """A request that replaces something does not say which version of it."""

    code = "PRECONDITION_MISSING"


class PreconditionFailed(RequestRefused):
    """What a request would replace has changed since it was read."""

    code = "PRECONDITION_FAILED"


class UntrustedPeer(RequestRefused):
    """A request without TLS is not from a trusted proxy."""

    code = "UNTRUSTED_PEER"
