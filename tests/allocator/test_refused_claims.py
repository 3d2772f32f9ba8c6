"""Changes between two statements of a claim: fences still grow, and nothing is lost."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from dueledger.allocator import Allocator
from dueledger.allocator.claim import item_claimer
from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claimed_rows import ClaimedRows
from dueledger.ledger.store.claims import claim_items, release_claims
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy

from .test_failures import claim_all_due

if TYPE_CHECKING:
    from dueledger.ledger.claim_id import ClaimId

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
NEW_MONTH = date(2031, 5, 17)


@dataclass
class Between:
    """Actions, once each, between the claim of serial items and that of the others."""

    steps: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    refused: int = 0

    async def claim(self, *args: Any, **options: Any) -> ClaimedRows:  # noqa: ANN401 - of claim_items
        while self.steps:
            await self.steps.pop()()
        try:
            return await claim_items(*args, **options)
        except UnseenPartition:
            self.refused += 1
            raise


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    between = Between()
    monkeypatch.setattr(item_claimer, "claim_items", between.claim)
    return between


async def _emit_both_sorts(
    emit: Emit, make_drafts: Drafts, connection: Connection, kind: str, suffix: str = ""
) -> None:
    """Emit an item with a key and one without, both of one partition; more have none."""
    await put_kind_policy(connection, KindPolicy("acme", kind, ordering="key"))
    await emit(make_drafts(prefix=f"serial{suffix}", partition_key=f"one{suffix}"))
    await put_kind_policy(connection, KindPolicy("acme", kind, ordering="none"))
    await emit(make_drafts(prefix=f"plain{suffix}", partition_key=f"one{suffix}"))


async def test_g4_a_fence_that_was_drawn_before_an_item_was_locked_is_not_given_to_it(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    actor_no: int,
    kind: str,
    database: str,
    between: Between,
) -> None:
    await _emit_both_sorts(emit, make_drafts, connection, kind)
    other = await connect(database, application_name="other")
    given: list[ClaimId] = []

    async def claim_and_release() -> None:
        given.append(await claim_all_due(other, actor_no))
        assert await release_claims(other, given, actor_no) == 1

    between.steps.append(claim_and_release)
    allocator = await start_allocator()

    assert (await allocator.tick())["claimed"] == 2

    fences = await connection.fetch(
        "select c.fence from ledger.claim c join ledger.due_item i on i.item_no = any (c.item_no)"
        " where i.business_key like 'plain%' order by c.claimed_at, c.fence"
    )
    assert [row["fence"] for row in fences] == sorted({row["fence"] for row in fences})
    assert fences[0]["fence"] == given[0].fence < fences[-1]["fence"]
    await other.close()


async def test_g1_an_item_of_a_month_without_a_partition_is_claimed_at_once(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    connection: Connection,
    kind: str,
    between: Between,
) -> None:
    allocator = await start_allocator()
    await _emit_both_sorts(emit, make_drafts, connection, kind)
    drafts = make_drafts(prefix="new", effective_date=NEW_MONTH)
    between.steps.append(lambda: emit(drafts))

    assert (await allocator.tick())["claimed"] == 3

    assert between.refused == 0


@pytest.mark.damages
async def test_g12_a_flow_with_a_row_that_has_no_item_holds_up_no_other(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit(make_drafts(prefix="broken", lane="broken"))
    await emit(make_drafts(3, prefix="whole", lane="whole"))
    await connection.execute("delete from ledger.due_item where business_key like 'broken%'")
    allocator = await start_allocator()

    with capture_logs() as logged:
        claimed = (await allocator.tick())["claimed"]

    assert claimed == 3
    assert {line["message"] for line in logged if line["event"] == LogEvent.CLAIM_REFUSED} == {
        "1 items were taken and 0 of them found: nothing is claimed"
    }
    assert await connection.fetchval("select count(*) from ledger.pending") == 1
