"""The only access to Postgres: one function per statement, grouped by what is stored.

Every function takes the caller's connection first and opens no transaction of its own, so callers
decide what commits together. The text of each statement is in ``sql/statements`` under the
function's name.
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
    mapped_lost_connection,
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
    "mapped_lost_connection",
    "open_pool",
]
