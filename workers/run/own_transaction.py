"""Transactions of handlers in which their items complete: the connections and the settling."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from dueledger.ledger.store import open_pool
from dueledger.ledger.store.runs import Outcome, Settlement, SettleRefusal, settle_runs
from dueledger.workers.handlers import HandlerForm

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from dueledger.ledger.store import Connection, Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.open_run import OpenRun

CONTENDED_TRIES_MAX: Final = 50
TRANSACTIONS_MAX: Final = 32
IDLE_TRANSACTION_SECONDS: Final = 5.0


class CompletionRefused(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


@asynccontextmanager
async def open_transactions(
    dsn: str, handlers: Handlers, worker_name: str
) -> AsyncGenerator[Pool | None]:
    """Open the connections of transactional handlers, if there are any. Raises Unavailable."""
    transactional = [
        handler.options for handler in handlers if handler.form is HandlerForm.TRANSACTION
    ]
    if not transactional:
        yield None
        return
    async with open_pool(
        dsn,
        application_name=worker_name,
        size_max=min(TRANSACTIONS_MAX, sum(each.concurrency for each in transactional)),
        # Longer than a handler may be silent in its transaction.
        idle_transaction_seconds=max(each.timeout_seconds for each in transactional)
        + IDLE_TRANSACTION_SECONDS,
        lent_to_handlers=True,
    ) as pool:
        yield pool


async def settle_inside(
    connection: Connection, run: OpenRun, index: int, outcome: Outcome, *, worker_no: int
) -> None:
    """Settle one item of a run in the open transaction. Raises CompletionRefused."""
    outcomes: list[Outcome | None] = [None] * len(run.items)
    outcomes[index] = outcome
    settlement = Settlement(run.id, outcomes)
    reason = SettleRefusal.CONTENDED
    for _ in range(CONTENDED_TRIES_MAX):
        refused = await settle_runs(connection, [settlement], worker_no)
        if not refused:
            return
        reason = refused[0].reason
        if reason is not SettleRefusal.CONTENDED:
            break
    raise CompletionRefused(
        f"the ledger refused the completion ({reason}); the writes were rolled back"
    )
