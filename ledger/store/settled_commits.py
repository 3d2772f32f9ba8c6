"""The commit of a handler's transaction together with the completion of its items: one message."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import asyncpg

from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.lost_connections import CONNECTION_ERRORS
from dueledger.ledger.store.runs import RunId, join_details
from dueledger.ledger.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from asyncpg.transaction import Transaction

    from dueledger.ledger.store.connection import Connection
    from dueledger.ledger.store.connection_classes import HandlerConnection

_REFUSED: Final = "DL006"
_SAVEPOINT: Final = "dueledger_item"
SET_SAVEPOINT: Final = f"savepoint {_SAVEPOINT}"
MOVE_SAVEPOINT: Final = f"release savepoint {_SAVEPOINT}; savepoint {_SAVEPOINT}"
ROLL_BACK_TO_SAVEPOINT: Final = f"rollback to savepoint {_SAVEPOINT}"


class CompletionRefused(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


class Completions(NamedTuple):
    """Items of a run of `size` that completed: the evidence of each as JSON text, by its index."""

    run: RunId
    size: int
    details: Mapping[int, str | None]


async def commit_completed(
    connection: Connection,
    transaction: Transaction,
    completions: Completions,
    worker_no: int,
    *,
    has_savepoint: bool = False,
) -> None:
    """Record that items completed, and commit the transaction of their handler.

    With `has_savepoint`, the transaction must still have the savepoint of its last item.
    Raises CompletionRefused if the run has ended or is another worker's, or one of the items has an
    outcome, InvalidItem for evidence that jsonb cannot store; the transaction is rolled back then.
    Whether it committed is unknown where the connection is lost.
    """
    # The pool's proxy passes on what asyncpg's own class does not have.
    ours = cast("HandlerConnection", connection)
    before = f"release savepoint {_SAVEPOINT};" if has_savepoint else ""
    try:
        if completions.size == 1:
            name, arguments = "settle_completed_run", _of_one(completions, worker_no)
        else:
            name, arguments = "settle_completed_runs", _of_several(completions, worker_no)
        with mapped_errors():
            await ours.execute_with_commit(statement(name), arguments, before=before)
            await transaction.commit()
    except BaseException as error:
        with suppress(*CONNECTION_ERRORS):  # a lost connection has no transaction
            await connection.execute("ROLLBACK;")
        if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _REFUSED:
            message = f"the ledger refused the completion ({error.message}); nothing was written"
            raise CompletionRefused(message) from error
        raise


def _of_one(completions: Completions, worker_no: int) -> str:
    """Return the arguments for a run of one item as SQL."""
    run, detail = completions.run, completions.details[0]
    times = f"'{run.started_at.isoformat()}', '{run.claimed_at.isoformat()}'"
    return f"{run.run_no:d}, {times}, {_literal(detail)}, {worker_no:d}, {worker_no:d}, true"


def _of_several(completions: Completions, worker_no: int) -> str:
    """Return the arguments for items of a larger run as SQL."""
    run, size, details = completions
    started_at, claimed_at = run.started_at.isoformat(), run.claimed_at.isoformat()
    mask = "".join("1" if index in details else "0" for index in range(size))
    evidence = _literal(join_details([details.get(index) for index in range(size)]))
    times = f"'{started_at}', '{started_at}', '{claimed_at}', '{claimed_at}'"
    return (
        f"'{{{run.run_no:d}}}', '{{{started_at}}}', '{{{mask}}}', '{{1}}', {evidence}, "
        f"{worker_no:d}, {times}, {worker_no:d}, true"
    )


def _literal(detail: str | None) -> str:
    """Return evidence as SQL. Of its text only hexadecimal digits are in it."""
    if detail is None:
        return "null"
    digits = detail.encode().hex()
    return f"pg_catalog.convert_from(pg_catalog.decode('{digits}', 'hex'), 'UTF8')"
