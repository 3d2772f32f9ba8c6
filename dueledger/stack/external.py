"""Servers that somebody else runs, named by environment variables."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from dueledger.stack.endpoints import (
    BOOTSTRAP_SERVERS_VARIABLE,
    DSN_VARIABLE,
    Endpoints,
    StackError,
)


@contextmanager
def open_external() -> Generator[Endpoints]:
    """Yield the endpoints named in the environment; nothing is started or stopped."""
    dsn = os.environ.get(DSN_VARIABLE, "")
    bootstrap_servers = os.environ.get(BOOTSTRAP_SERVERS_VARIABLE, "")
    missing = [
        name
        for name, text in ((DSN_VARIABLE, dsn), (BOOTSTRAP_SERVERS_VARIABLE, bootstrap_servers))
        if not text
    ]
    if missing:
        raise StackError(
            "external_unnamed",
            f"The external servers are unknown: {' and '.join(missing)} not set.",
            f"Set {DSN_VARIABLE}=postgresql://user:password@host:5432/postgres and "
            f"{BOOTSTRAP_SERVERS_VARIABLE}=host:9092.",
        )
    yield Endpoints(dsn, bootstrap_servers)
