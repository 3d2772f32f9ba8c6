"""The only access to Postgres: one function per statement, grouped by what is stored.

Every function takes the caller's connection first and opens no transaction of its own, so callers
decide what commits together. The text of each statement is in ``sql/statements`` under the
function's name.
"""

from dueledger.ledger.store.connection import (
    Connection,
    LentConnection,
    OwnConnection,
    PlanProfile,
    Pool,
    ReconnectingConnection,
    Record,
    connect,
    has_role,
    long_transaction,
    open_connection,
    open_pool,
)
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.lost_connections import (
    ANSWER_SECONDS,
    CONNECTION_ERRORS,
    STATEMENT_REFUSED,
    answered_in_time,
    is_lost,
    mapped_loss,
)

__all__ = [
    "ANSWER_SECONDS",
    "CONNECTION_ERRORS",
    "STATEMENT_REFUSED",
    "Connection",
    "LentConnection",
    "OwnConnection",
    "PlanProfile",
    "Pool",
    "ReconnectingConnection",
    "Record",
    "answered_in_time",
    "connect",
    "has_role",
    "is_lost",
    "long_transaction",
    "mapped_errors",
    "mapped_loss",
    "open_connection",
    "open_pool",
]
