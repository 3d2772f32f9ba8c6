"""What is written while a pass reads."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources
from dueledger.reconciler.sources import EvidenceQuery, ListedEffect, PopulationBounds

from .conftest import NOON

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Complete = Callable[[], Awaitable[None]]

APRIL = date(2027, 4, 10)
HOUR = timedelta(hours=1)
WAIT_FOR_LESS = """
update ledger.pending set available_at = ledger.now()
where item_no = (select max(item_no) from ledger.due_item)
"""
COMPLETE_WITHOUT_RUN = """
with taken as (
  delete from ledger.pending where item_no = (select max(item_no) from ledger.due_item)
  returning item_no, effective_date)
insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)
select effective_date, item_no, 5, 1, 1, ledger.now() from taken
"""


@dataclass
class Meanwhile:
    """Evidence of every item. It writes when it is asked, after the first window's rows were read.

    If it is `complete`, it writes when it is listed, before any row of an item is read.
    """

    kind: str
    write: Callable[[], Awaitable[object]]
    name: str = "meanwhile"
    digest: str | None = None
    after_seconds: float = 0.0
    tenant: str = "acme"
    complete: bool = False
    bounds: PopulationBounds = PopulationBounds()  # noqa: RUF009 - it is frozen

    async def find_lacking(
        self, wanted: Sequence[EvidenceQuery], extract: object
    ) -> list[EvidenceQuery]:
        del wanted, extract
        if not self.complete:
            await self.write()
        return []

    async def list_effects(
        self, extract: object, from_date: date, to_date: date
    ) -> AsyncGenerator[Sequence[ListedEffect]]:
        del extract, from_date, to_date
        await self.write()
        yield ()


@pytest.fixture
def write_during_pass(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Complete,
    kind: str,
    actor_no: int,
) -> Callable[..., Awaitable[list[tuple[str, str]]]]:
    """Make a pass over a month with one item and another, and write in its midst."""

    async def write(
        change: Callable[[], Awaitable[object]], *, is_early: bool = False
    ) -> list[tuple[str, str]]:
        done = make_drafts(1, due_at=NOON - HOUR)
        later = make_drafts(1, due_at=NOON + HOUR, effective_date=APRIL)
        await emit_items(frozen, [*done, *later], actor_no=actor_no)
        await complete_all()
        meanwhile = Meanwhile(kind, change, complete=is_early)
        reconciler = make_reconciler(ReconcilerSources((), (meanwhile,)))
        await reconciler.tick()
        return [(row["type"], row["kind"]) for row in await findings.list_findings(frozen)]

    return write


@pytest.mark.parametrize(
    ("due_at", "edit", "is_early", "found"),
    [
        (NOON + HOUR, WAIT_FOR_LESS, False, FindingType.WRONG_DATE),
        (NOON - HOUR, COMPLETE_WITHOUT_RUN, True, FindingType.OUTCOME_CONFLICT),
    ],
)
async def test_g11_what_is_wrong_with_an_item_of_a_kind_made_during_the_pass_is_found(
    frozen: Connection,
    make_drafts: Drafts,
    write_during_pass: Callable[..., Awaitable[list[tuple[str, str]]]],
    actor_no: int,
    *,
    due_at: datetime,
    edit: str,
    is_early: bool,
    found: FindingType,
) -> None:
    async def write() -> None:
        drafts = make_drafts(1, due_at=due_at, effective_date=APRIL, kind="New", prefix="new")
        await emit_items(frozen, drafts, actor_no=actor_no)
        await frozen.execute(edit)

    assert await write_during_pass(write, is_early=is_early) == [(found, "New")]
