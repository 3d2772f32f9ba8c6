"""A population is believed within the bounds that its source declares, wholly or not at all."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

import asyncpg
import pytest

from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, clock, findings
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import Reconciler, ReconcilerSources, SqlPopulation
from dueledger.reconciler.sources import PopulationBounds

from .conftest import NOON, resolutions

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]

ROWS: Final = 10
BOUNDS: Final = PopulationBounds(rows_min=5, change_max=0.3, skipped_max=0)
BREACHES: Final = (
    (
        "update policy_due set tenant = 'other' where business_key like '%3'",
        "of 'other', which its",
    ),
    (
        "update policy_due set kind = 'Other' where business_key like '%3'",
        "a row is 'Other' of 'acme'",
    ),
    ("update policy_due set business_key = null where business_key like '%3'", "key is null"),
    ("update policy_due set due_at = null where business_key like '%3'", "due_at is not"),
    ("insert into policy_due select * from policy_due limit 2", "2 of its rows repeat another"),
    ("delete from policy_due", "it has 0 rows, fewer than the 5"),
    (
        "delete from policy_due where ctid in (select ctid from policy_due limit 4)",
        "it has 6 rows and had 10, a change beyond the 30% of `change_max`",
    ),
)


@pytest.fixture
def judged(policies: SqlPopulation, kind: str) -> SqlPopulation:
    return replace(policies, tenant="acme", kinds=frozenset({kind}), bounds=BOUNDS)


async def test_g11_a_breach_of_what_a_source_declares_fails_it_and_concerns_its_kinds_alone(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    owe: Owe,
    judged: SqlPopulation,
    database: str,
    kind: str,
    actor_no: int,
) -> None:
    """Nothing follows from it: what was found before stays, and nothing of it is repaired."""
    drafts = make_drafts(ROWS, due_at=NOON)
    await owe(drafts)
    await domain.execute("create table other_due as select * from policy_due where false")
    await emit_items(frozen, drafts[1:], actor_no=actor_no)
    others = make_drafts(3, kind="Separate", prefix="other", due_at=NOON)
    await clock.set_clock(frozen, NOON - timedelta(minutes=1), 0)
    await emit_items(frozen, others[1:], actor_no=actor_no)
    await clock.set_clock(frozen, NOON, 0)
    await domain.execute(
        "insert into other_due select tenant, 'Separate', replace(business_key, $1, $2),"
        " cycle, effective_date, due_at, payload from policy_due order by business_key limit 2",
        drafts[0].business_key.rpartition("-")[0],
        "other",
    )
    separate = SqlPopulation(
        database,
        "select * from other_due",
        "separate",
        complete=True,
        tenant="acme",
        kinds=frozenset({"Separate"}),
    )
    reconciler = make_reconciler(ReconcilerSources((judged, separate)))
    before = {FindingType.MISSING: 2, FindingType.UNEXPECTED: 1}
    assert (await reconciler.run_pass()).found == before
    assert {repair.kind for repair in await reconciler.plan()} == {kind, "Separate"}

    for breach, reason in BREACHES:
        async with domain.transaction():
            await domain.execute("create temporary table kept as select * from policy_due")
            assert await domain.execute(breach) not in {"UPDATE 0", "DELETE 0"}

        found = (await reconciler.run_pass()).found

        assert found == {
            FindingType.MISSING: 1,
            FindingType.UNEXPECTED: 1,
            FindingType.SOURCE_FAILED: 1,
        }, breach
        (row,) = await findings.list_findings(frozen, type_=FindingType.SOURCE_FAILED)
        assert reason in row["sentence"]
        assert await resolutions(frozen, FindingType.MISSING) == [Resolution.OPEN] * 2
        assert {repair.kind for repair in await reconciler.plan()} == {"Separate"}
        await domain.execute(
            "truncate policy_due; insert into policy_due table kept; drop table kept"
        )
        assert (await reconciler.run_pass()).found == before
