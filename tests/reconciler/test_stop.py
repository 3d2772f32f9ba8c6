"""A long pass ends when a stop is requested, and records nothing untrue."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources
from dueledger.reconciler.sources import PopulationBounds, PopulationRow, SourceTotals

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


class EndlessPopulation:
    """A domain whose list of owed items never ends."""

    name = "endless"
    complete = True
    origin = "sql"
    digest = "0" * 64
    named_kinds = None
    bounds = PopulationBounds()

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def read(self, extract: SourceTotals) -> AsyncIterator[Sequence[PopulationRow]]:
        del extract
        yield []
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_pass_that_is_asked_to_stop_ends_and_concludes_nothing(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    actor_no: int,
) -> None:
    await emit_items(frozen, make_drafts(3, due_at=NOON), actor_no=actor_no)
    endless = EndlessPopulation()
    reconciler = make_reconciler(ReconcilerSources((endless,)))
    ticking = asyncio.create_task(reconciler.tick())
    await endless.asked.wait()

    reconciler.stop.request()

    assert await ticking == {}
    assert reconciler.last is None
    assert await findings.list_findings(frozen, open_only=False) == []
    assert (await make_reconciler().run_pass()).found == {}
