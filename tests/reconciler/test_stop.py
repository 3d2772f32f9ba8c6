"""A long pass ends when a stop is requested, and records nothing untrue."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources, read_ahead
from dueledger.reconciler.expect import build_expectation
from dueledger.reconciler.read import day_digests
from dueledger.reconciler.sources import PopulationBounds, PopulationRow, SourceTotals

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
SCHEDULE = """
definition: rested
tenant: acme
kind: {kind}
business_key: rested
when: {{cron: "0 9 * * *", timezone: UTC}}
"""


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


async def test_a_pass_of_the_loop_rests_between_the_parts_of_all_that_it_reads(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    actor_no: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (definition,) = load_definitions(SCHEDULE.format(kind="Rested"), source="test")
    await define(
        frozen,
        definition.normalised(),
        tenant="acme",
        name=definition.definition,
        kind=definition.kind,
        event_type=None,
        effective_from=NOON - timedelta(days=9),
        actor_no=actor_no,
    )
    await emit_items(frozen, make_drafts(3, due_at=NOON), actor_no=actor_no)
    shares: defaultdict[str, set[float]] = defaultdict(set)
    for module in (read_ahead, build_expectation, day_digests):

        async def paced(
            parts: Iterable[object], share: float, name: str = module.__name__
        ) -> AsyncGenerator[object]:
            for part in parts:
                shares[name].add(share)
                yield part

        monkeypatch.setattr(module, "paced", paced)
    reconciler = make_reconciler()
    reconciler.limits = replace(reconciler.limits, share=0.25)
    await reconciler.run_pass()
    assert [each.rpartition(".")[2] for each in sorted(shares)] == [
        "build_expectation",
        "day_digests",
        "read_ahead",
    ]
    assert set().union(*shares.values()) == {0.25}
