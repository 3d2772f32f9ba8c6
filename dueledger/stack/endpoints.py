"""The addresses of a stack, its provider, and its error."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, final
from urllib.parse import urlsplit, urlunsplit

from dueledger.ledger.errors import DueledgerError

DSN_VARIABLE: Final = "DUELEDGER_DSN"
BOOTSTRAP_SERVERS_VARIABLE: Final = "DUELEDGER_BOOTSTRAP_SERVERS"
TEST_STACK_VARIABLE: Final = "DUELEDGER_TEST_STACK"


class Provider(StrEnum):
    """Who runs PostgreSQL and Kafka."""

    EMBEDDED = "embedded"
    CONTAINERS = "containers"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of PostgreSQL and Kafka. `dsn` names a maintenance database."""

    dsn: str = field(repr=False)
    bootstrap_servers: str

    @property
    def dsn_masked(self) -> str:
        """The DSN with its password hidden, for a terminal or a log."""
        parts = urlsplit(self.dsn)
        if parts.password is None:
            return self.dsn
        user, _, address = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{address}"))


@final
class StackError(DueledgerError):
    """A stack cannot be started. The message ends with what to do next, which is also `remedy`.

    `reason` is stable, for programs: `directory_in_use`, `jar_unavailable`, ...
    """

    code = "STACK_UNAVAILABLE"
    exit_code = 3

    def __init__(self, reason: str, message: str, remedy: str) -> None:
        super().__init__(f"{message}\n{remedy}", reason=reason, remedy=remedy)
        self.reason = reason
        self.remedy = remedy
