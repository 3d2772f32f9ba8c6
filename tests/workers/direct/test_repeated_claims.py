"""A take that is refused, because a partition is newer than its plan, is repeated."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.direct_claims import DirectClaimResult, claim_and_start_items
from dueledger.workers.direct import claims

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]


def completing(kind: str) -> Handlers:
    handlers = Handlers()

    @handlers.on_batch(kind)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        return [Completed() for _ in items]

    return handlers


async def test_g1_what_a_take_did_not_see_is_taken_at_once_by_the_next(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await estate.emit(make_drafts(2, lane="a") + make_drafts(2, lane="b", prefix="b"))
    takes: list[int] = []

    async def refuse_once(
        connection: Connection,
        flow_nos: Sequence[int],
        *rest: Any,  # noqa: ANN401 - of take_items
        **more: Any,  # noqa: ANN401
    ) -> DirectClaimResult:
        takes.append(len(flow_nos))
        if len(takes) == 1:
            await connection.execute("insert into ledger.pending select 0, now()::date, 1, now()")
            try:
                return await claim_and_start_items(connection, flow_nos, *rest, **more)
            finally:
                await connection.execute("delete from ledger.pending where item_no = 0")
        return await claim_and_start_items(connection, flow_nos, *rest, **more)

    monkeypatch.setattr(claims, "claim_and_start_items", refuse_once)
    worker = await estate.employ(completing(estate.kind))
    with capture_logs() as logged:
        assert await worker.claim() == {"taken": 4}
    assert takes == [2, 1, 1]
    while await estate.completed() < 4:
        await worker.settle()
    assert not [line for line in logged if line["event"] == LogEvent.CLAIM_REFUSED]


@pytest.mark.damages
async def test_g12_a_flow_with_a_row_that_has_no_item_holds_up_no_other(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(
        make_drafts(prefix="broken", lane="broken") + make_drafts(3, prefix="whole", lane="whole")
    )
    await estate.connection.execute("delete from ledger.due_item where business_key like 'broken%'")
    worker = await estate.employ(completing(estate.kind))
    with capture_logs() as logged:
        assert await worker.claim() == {"taken": 3}
    await worker.settle()
    assert {line["message"] for line in logged if line["event"] == LogEvent.CLAIM_REFUSED} == {
        "1 items were taken and 0 of them found in due_item"
    }
    assert await estate.count("ledger.pending") == 1


@pytest.mark.damages
async def test_g12_a_suspect_that_has_no_item_holds_up_no_other(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(
        make_drafts(prefix="broken", lane="broken") + make_drafts(3, prefix="whole", lane="whole")
    )
    await estate.connection.execute(
        "update ledger.pending p set batch_max = 1 from ledger.due_item i"
        " where i.item_no = p.item_no and i.business_key like 'broken%'"
    )
    await estate.connection.execute("delete from ledger.due_item where business_key like 'broken%'")
    worker = await estate.employ(completing(estate.kind))
    while await estate.count("ledger.transition where event = 5") < 3:
        await worker.claim()
        await worker.settle()
    await estate.emit(make_drafts(2, prefix="later", lane="whole"))
    while await estate.count("ledger.transition where event = 5") < 5:
        await worker.claim()
        await worker.settle()
