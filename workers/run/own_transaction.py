"""Transactions of handlers in which their items complete: the connections and the settling."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.store import open_pool
from dueledger.ledger.store.runs import Outcome, Settlement, SettleRefusal, settle_runs
from dueledger.workers.handlers import HandlerForm
from dueledger.workers.verdict_outcomes import released

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from dueledger.ledger.store import Connection, LentConnection, Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import OpenRun

CONTENDED_TRIES_MAX: Final = 50
TRANSACTIONS_MAX: Final = 32
IDLE_TRANSACTION_SECONDS: Final = 5.0
LOSSES_MAX: Final = 10
LOSSES_KEPT_MAX: Final = 10_000
CONNECTION_LOST: Final = released("the connection of its transaction was lost", after_seconds=0.25)


class CompletionRefused(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


@final
class Losses:
    """How often the transaction of each item lost its connection in this worker.

    A loss is no failure of the item, but one that crashes Postgres each time must park at last:
    from LOSSES_MAX losses on, each is a failed attempt.
    """

    def __init__(self) -> None:
        self._by_item: dict[UUID, int] = {}

    def excuse(self, lent: LentConnection, item: DueItem) -> bool:
        """Count a loss and return whether no attempt counts."""
        if not lent.was_acquired:
            return True
        if len(self._by_item) >= LOSSES_KEPT_MAX:
            self._by_item.clear()
        losses = self._by_item.get(item.id, 0) + 1
        self._by_item[item.id] = losses
        return losses < LOSSES_MAX


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
    longest_seconds = max(each.timeout_seconds for each in transactional) + IDLE_TRANSACTION_SECONDS
    async with open_pool(
        dsn,
        application_name=worker_name,
        size_max=min(TRANSACTIONS_MAX, sum(each.concurrency for each in transactional)),
        # Longer than a handler may be silent in its transaction, or one of its statements take.
        idle_transaction_seconds=longest_seconds,
        command_seconds=longest_seconds,
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
