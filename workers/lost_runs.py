"""The runs that the ledger started for a worker in a response that was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import ConnectionLost
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store.direct_claims import list_open_runs
from dueledger.ledger.store.runs import Outcome, Settlement, settle_runs
from dueledger.workers.verdict_outcomes import released

if TYPE_CHECKING:
    from dueledger.ledger.store import Pool
    from dueledger.ledger.store.direct_claims import OpenRunRow

RESPONSE_LOST: Final = released("the response with this run was lost")

log = get_logger("worker")


@final
class LostRuns:
    """Releases lost runs before the next start: nobody works them, and their lease is long.

    Their numbers are above all those that the worker received, because it makes one start at a
    time.
    """

    def __init__(self, pool: Pool, worker_no: int) -> None:
        self._pool = pool
        self._worker_no = worker_no
        self._run_no_max = 0
        self._may_exist = False

    def received(self, run_no: int) -> None:
        """Take note of a run that the worker works."""
        self._run_no_max = max(self._run_no_max, run_no)

    def start_failed(self, error: BaseException) -> None:
        """Take note of the error of a start, which may have been committed."""
        self._may_exist |= isinstance(error, ConnectionLost | asyncio.CancelledError)

    async def release(self) -> None:
        """Release the lost runs, if there may be any; no attempt is counted."""
        if not self._may_exist:
            return
        async with self._pool.acquire() as connection:
            open_runs = await list_open_runs(connection, self._worker_no)
            lost = [run for run in open_runs if run.id.run_no > self._run_no_max]
            if lost:
                await settle_runs(connection, [_releasing(run) for run in lost], self._worker_no)
                log.warning(LogEvent.RUN_RELEASED, runs=[run.id.run_no for run in lost])
        self._may_exist = False


def _releasing(run: OpenRunRow) -> Settlement:
    outcomes: list[Outcome | None] = [None] * run.size
    for index in run.open_indexes:
        outcomes[index] = RESPONSE_LOST
    return Settlement(run.id, outcomes)
