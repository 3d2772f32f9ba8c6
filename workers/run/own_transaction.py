"""The settling of an item in the transaction of its own handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dueledger.ledger.store.runs import Outcome, Settlement, SettleRefusal, settle_runs

if TYPE_CHECKING:
    from dueledger.ledger.store import Connection
    from dueledger.workers.open_run import OpenRun

CONTENDED_TRIES_MAX: Final = 50


class CompletionRefused(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


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
