"""The commit of a handler's transaction together with the completion of its item: one message."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

import asyncpg

from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.lost_connections import CONNECTION_ERRORS
from dueledger.ledger.store.statements import statement

if TYPE_CHECKING:
    from asyncpg.transaction import Transaction

    from dueledger.ledger.store.connection import Connection
    from dueledger.ledger.store.connection_classes import HandlerConnection
    from dueledger.ledger.store.runs import RunId

_NAME: Final = "settle_completed_run"
_REFUSED: Final = "DL006"


class CompletionRefused(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


async def commit_completed(
    connection: Connection, transaction: Transaction, run: RunId, detail: str | None, worker_no: int
) -> None:
    """Record that the one item of a run completed, and commit the handler's transaction.

    Raises CompletionRefused if the run has ended or is another worker's, InvalidItem for evidence
    that jsonb cannot store; the transaction is rolled back then. Whether it committed is unknown
    where the connection is lost.
    """
    # The pool's proxy passes on what asyncpg's own class does not have.
    ours = cast("HandlerConnection", connection)
    try:
        with mapped_errors():
            arguments = _arguments(run, detail, worker_no)
            await ours.execute_with_commit(_NAME, statement(_NAME), arguments)
            await transaction.commit()
    except BaseException as error:
        with suppress(*CONNECTION_ERRORS):  # a lost connection has no transaction
            await connection.execute("ROLLBACK;")
        if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _REFUSED:
            message = f"the ledger refused the completion ({error.message}); nothing was written"
            raise CompletionRefused(message) from error
        raise


def _arguments(run: RunId, detail: str | None, worker_no: int) -> str:
    """Return the arguments as SQL. Of the evidence only hexadecimal digits are in it."""
    evidence = "null"
    if detail is not None:
        digits = detail.encode().hex()
        evidence = f"pg_catalog.convert_from(pg_catalog.decode('{digits}', 'hex'), 'UTF8')"
    times = f"'{run.started_at.isoformat()}', '{run.claimed_at.isoformat()}'"
    return f"{run.run_no:d}, {times}, {evidence}, {worker_no:d}, {worker_no:d}, true"
