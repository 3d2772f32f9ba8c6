"""Every error a caller may meet: one root, a stable code, and what, where and what to do.

The command line maps `exit_code`, REST maps `code`; nothing else decides what an error means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

VALUE_CHARS_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one field. `accepted` says how to write it instead, or is None."""

    field: str
    value: str
    reason: str
    accepted: str | None = None

    def __str__(self) -> str:
        shown = f" (got {self.value})" if self.value else ""
        remedy = f" Write: {self.accepted}." if self.accepted else ""
        return f"{self.field}: {self.reason.rstrip('.')}{shown}.{remedy}"


def shown_value(value: object) -> str:
    """Return `value` as an error message may quote it: its repr, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


class DueledgerError(Exception):
    """The root. `fields` are what a program needs, `message` is what a person reads."""

    code: ClassVar[str] = "FAILED"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class InvalidInput(DueledgerError):
    """Something given from outside does not say what it must; `problems` names each field."""

    code = "INVALID_INPUT"
    exit_code = 2

    def __init__(self, message: str, problems: Sequence[Problem] = (), **fields: object) -> None:
        super().__init__("\n  ".join((message, *map(str, problems))), **fields)
        self.problems = tuple(problems)


class InvalidDefinition(InvalidInput):
    """A definition document is refused at the door."""

    code = "INVALID_DEFINITION"


class InvalidEvent(InvalidInput):
    """A domain event cannot become what its rule says."""

    code = "INVALID_EVENT"


class InvalidItem(InvalidInput):
    """A due item breaks a limit or carries a key that cannot be stored."""

    code = "INVALID_ITEM"


class BeyondCalendar(InvalidItem):
    """A calendar is asked about a day before its first or after its last: it does not know."""

    code = "BEYOND_CALENDAR"


class UnknownCalendar(InvalidInput):
    """A definition names a calendar that nobody has given."""

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
    """A window holds more occurrences than one pass may expand: ask for a shorter one."""

    code = "WINDOW_TOO_LARGE"


class NotFound(DueledgerError):
    """What was named does not exist."""

    code = "NOT_FOUND"
    exit_code = 2


class Conflict(DueledgerError):
    """What was asked contradicts what is recorded."""

    code = "CONFLICT"


class Unbalanced(DueledgerError):
    """The accounting identity does not hold."""

    code = "UNBALANCED"


class UnseenPartition(DueledgerError):
    """A statement took items and found fewer: a partition is newer than its plan.

    Nothing was changed. A new transaction sees the partition; one that does not met rows without
    their item, which only a hand in the database leaves.
    """

    code = "UNSEEN_PARTITION"


class MissingExtra(DueledgerError):
    """What was asked needs an optional library; the message says how to install it."""

    code = "MISSING_EXTRA"


class Unavailable(DueledgerError):
    """A service this one depends on cannot be reached. Trying again later is safe."""

    code = "UNAVAILABLE"
    exit_code = 3

    def __init__(self, message: str, *, service: str, **fields: object) -> None:
        super().__init__(message, service=service, **fields)
        self.service = service
