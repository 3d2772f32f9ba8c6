"""Transactions of handlers: their connections, and how often these are lost."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.store import open_pool
from dueledger.workers.handlers import HandlerForm
from dueledger.workers.verdict_outcomes import released

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from dueledger.ledger.store import Pool
    from dueledger.ledger.store.runs import Outcome
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.item import DueItem

TRANSACTIONS_MAX: Final = 32
IDLE_TRANSACTION_SECONDS: Final = 5.0
LOSSES_MAX: Final = 10
LOSSES_TOTAL_MAX: Final = 100
LOSSES_KEPT_MAX: Final = 10_000
AGAIN_SECONDS: Final = 0.25
AGAIN_SECONDS_MAX: Final = 0.5


@dataclass(slots=True)
class _ItemLosses:
    in_a_row: int = 0
    total: int = 0
    last_no: int = 0


@final
class Losses:
    """How often the transaction of each item lost its connection in this worker.

    A loss is no failure of the item, but one that crashes Postgres each time must park at last:
    from LOSSES_MAX losses in a row on, each is a failed attempt. If another transaction began and
    lost its connection while the item waited, something else ends connections, and the row begins
    anew; so two such items excuse each other, until LOSSES_TOTAL_MAX.

    Numbers order the events: each begin and each loss has the next one.
    """

    def __init__(self) -> None:
        self._by_item: dict[UUID, _ItemLosses] = {}
        self._numbers = count(1)
        self._lost_begin_no = 0  # the last begin of a transaction that lost its connection

    @property
    def has_any(self) -> bool:
        """Whether any item lost its connection."""
        return bool(self._by_item)

    def has(self, item: DueItem) -> bool:
        """Return whether the transaction of an item lost its connection."""
        try:
            return item.id in self._by_item
        except InvalidHeader:
            return False

    def begin(self, item_id: UUID) -> int:
        """Take note that the transaction of an item begins; return the number of this begin."""
        losses = self._by_item.get(item_id)
        if losses is not None and self._lost_begin_no > losses.last_no:
            losses.in_a_row = 0
        return next(self._numbers)

    def add(self, item_id: UUID, begin_no: int) -> Outcome | None:
        """Add a loss; return the outcome by which no attempt counts, or None if one does."""
        if len(self._by_item) >= LOSSES_KEPT_MAX:
            self._by_item.clear()
        losses = self._by_item.setdefault(item_id, _ItemLosses())
        losses.in_a_row += 1
        losses.total += 1
        losses.last_no = next(self._numbers)
        self._lost_begin_no = max(self._lost_begin_no, begin_no)
        if losses.in_a_row >= LOSSES_MAX or losses.total >= LOSSES_TOTAL_MAX:
            return None
        return connection_lost_outcome(losses.in_a_row)


def connection_lost_outcome(losses: int = 1) -> Outcome:
    """Return the outcome that releases an item whose transaction lost its connection."""
    seconds = min(AGAIN_SECONDS_MAX, AGAIN_SECONDS * losses)
    return released("the connection of its transaction was lost", after_seconds=seconds)


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
        # Longer than a handler may be silent in its transaction, or one of its statements take. A
        # transaction may take twice that: calls begin in its first moment (OPEN_SECONDS_MAX) and
        # end by their timeout; what completes their items takes a statement's time.
        idle_transaction_seconds=longest_seconds,
        command_seconds=longest_seconds,
        lent_to_handlers=True,
    ) as pool:
        yield pool
