"""A chunk: items of a run whose calls share one transaction, one after another.

Each call has a savepoint, so that one that fails takes no other's writes with it. Those that
complete commit together. If Postgres refuses that, nothing of the chunk counts, and each of its
items is called again in a transaction of its own: the cause fails alone. If the ledger refuses it,
as where the run is another worker's by now, nothing is called again, and the items are released.
A chunk of one item is the usual transaction, without a savepoint.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import STATEMENT_REFUSED, is_lost
from dueledger.ledger.store.runs import Outcome
from dueledger.ledger.store.settled_commits import (
    MOVE_SAVEPOINT,
    ROLL_BACK_TO_SAVEPOINT,
    SET_SAVEPOINT,
    CompletionRefused,
    Completions,
    commit_completed,
)
from dueledger.workers.open_run import CallState
from dueledger.workers.run.own_transaction import connection_lost_outcome
from dueledger.workers.verdict_outcomes import outcome_of_error, outcome_of_verdict, released

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dueledger.ledger.store import Connection, LentConnection
    from dueledger.workers.handlers import HandlerOptions
    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.own_transaction import Losses
    from dueledger.workers.run.thread_call import CallResult
    from dueledger.workers.verdict_outcomes import ItemOutcome

    ItemAtIndex = tuple[int, DueItem]

OPEN_SECONDS_MAX: Final = 0.25
"""A transaction calls no further item after this time: others may wait for its locks."""
REFUSED: Final = released("the ledger refused the completions of its transaction")
HELD_UP: Final = released("the call of another item of its transaction did not end")


class _GivenUp(Exception):
    """The items of the chunk have ended without it."""


@final
class Chunk:
    """Items of a run in one transaction. `completed`: those that committed, after `end`."""

    def __init__(
        self,
        run: OpenRun,
        work: Sequence[ItemAtIndex],
        options: HandlerOptions,
        losses: Losses,
        worker_no: int,
    ) -> None:
        self.run = run
        self.work = work
        self.is_given_up = False
        self._options = options
        self._losses = losses
        self._worker_no = worker_no
        self._is_shared = len(work) > 1
        self._begin_nos: dict[int, int] = {}
        self._completed: dict[int, str | None] = {}
        self._others: dict[int, ItemOutcome] = {}

    @property
    def completed(self) -> Sequence[int]:
        """The indexes of the items that completed."""
        return list(self._completed)

    async def call_all(
        self,
        lent: LentConnection,
        call: Callable[[ItemAtIndex, Connection], Awaitable[CallResult]],
    ) -> None:
        """Call the handler for each item, and commit those that complete."""
        async with lent as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                await self._call_each(connection, call)
            except BaseException:
                await transaction.rollback()
                raise
            if not self._completed:
                await transaction.rollback()
                return
            await commit_completed(
                connection,
                transaction,
                self._completions(),
                self._worker_no,
                has_savepoint=self._is_shared,
            )

    def _completions(self) -> Completions:
        """Return what completed by its index in the run, of which these items may be a part."""
        size, indexes = self.run.part
        details = {indexes[index]: detail for index, detail in self._completed.items()}
        return Completions(self.run.id, size, details)

    async def _call_each(
        self,
        connection: Connection,
        call: Callable[[ItemAtIndex, Connection], Awaitable[CallResult]],
    ) -> None:
        now = monotonic()
        takes_until = now + min(OPEN_SECONDS_MAX, (self.run.stop_at - now) / 2)
        if self._is_shared:
            await connection.execute(SET_SAVEPOINT)
        last, _ = self.work[-1]
        for index, item in self.work:
            if self._begin_nos and monotonic() >= takes_until:
                return
            outcome = await self._call_one(connection, call, (index, item))
            if self.is_given_up:
                raise _GivenUp
            if isinstance(outcome, Outcome) and outcome.event is TransitionEvent.COMPLETED:
                self._completed[index] = outcome.detail
                if index != last:
                    await self._move_savepoint(connection, index, item)
            else:
                self._others[index] = outcome
                if self._is_shared:
                    await connection.execute(ROLL_BACK_TO_SAVEPOINT)
            if self._is_shared:
                self.run.mark_calls([index], CallState.WAITS)

    async def _call_one(
        self,
        connection: Connection,
        call: Callable[[ItemAtIndex, Connection], Awaitable[CallResult]],
        at: ItemAtIndex,
    ) -> ItemOutcome:
        index, item = at
        try:
            self._begin_nos[index] = self._losses.begin(item.id)
        except InvalidHeader as error:
            return outcome_of_error(error, item, self._options)
        result = await call(at, connection)
        if result.error is None:
            return outcome_of_verdict(result.value, item, self._options)
        if not self._is_shared or is_lost(connection):
            raise result.error
        return outcome_of_error(result.error, item, self._options)

    async def _move_savepoint(self, connection: Connection, index: int, item: DueItem) -> None:
        """Keep an item's writes. They are refused if its handler ignored a refused statement."""
        try:
            await connection.execute(MOVE_SAVEPOINT)
        except STATEMENT_REFUSED as error:
            if is_lost(connection):
                raise
            await connection.execute(ROLL_BACK_TO_SAVEPOINT)
            del self._completed[index]
            self._others[index] = outcome_of_error(error, item, self._options)

    def end(self, lent: LentConnection, error: BaseException | None) -> list[list[ItemAtIndex]]:
        """Record how the items ended; return those to call again, or still to call, by chunk."""
        run = self.run
        if lent.is_lost:
            # Also after a lost COMMIT: if it happened, the ledger refuses this outcome as settled.
            self._completed.clear()
            run.end_many(
                (index, self._lost_outcome(lent, (index, item), error)) for index, item in self.work
            )
            return []
        if error is None:
            for index in self._completed:
                run.mark_ended_in_ledger(index)
            run.end_many(self._others.items())
            left = run.without_ended(self.work)
            return [left] if left else []
        self._completed.clear()
        if not self._is_shared:
            ((index, item),) = self.work
            run.end(index, outcome_of_error(error, item, self._options))
            return []
        if isinstance(error, CompletionRefused):
            # The run is another's, or one of the items has an outcome: the settlement shows which.
            run.end_many((index, REFUSED) for index, _ in self.work)
            return []
        again = run.without_ended(self.work)
        run.mark_calls([index for index, _ in again if index in self._begin_nos], CallState.WAITS)
        return [[each] for each in again]

    def _lost_outcome(
        self, lent: LentConnection, at: ItemAtIndex, error: BaseException | None
    ) -> Outcome:
        index, item = at
        if not lent.was_acquired or index not in self._begin_nos:
            return connection_lost_outcome()
        excused = self._losses.add(item.id, self._begin_nos[index])
        if excused is not None or error is None:
            return excused or connection_lost_outcome()
        return outcome_of_error(error, item, self._options)

    def give_up(self) -> None:
        """Release the other items: a call ignores its cancellation, and nothing will commit."""
        self.is_given_up = True
        self.run.end_many((index, HELD_UP) for index, _ in self.work)
