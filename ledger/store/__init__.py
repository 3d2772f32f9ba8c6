"""The only door to Postgres: one function a statement, grouped by what is stored.

Every function takes the caller's connection first and opens no transaction of its own, so that
callers decide what commits together. The text of each statement lies in ``sql/statements`` under
the function's name.
"""

from dueledger.ledger.store.connection import (
    CONNECTION_LOST,
    STATEMENT_REFUSED,
    Connection,
    PlanProfile,
    Pool,
    ReconnectingConnection,
    Record,
    connect,
    is_connection_lost,
    open_pool,
)
from dueledger.ledger.store.error_mapping import mapped_errors

__all__ = [
    "CONNECTION_LOST",
    "STATEMENT_REFUSED",
    "Connection",
    "PlanProfile",
    "Pool",
    "ReconnectingConnection",
    "Record",
    "connect",
    "is_connection_lost",
    "mapped_errors",
    "open_pool",
]
