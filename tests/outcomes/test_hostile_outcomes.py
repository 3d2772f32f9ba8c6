"""Reported outcomes that mean harm are settled, refused or rejected; nothing is half-written."""

from typing import Final

import pytest

from tests.fuzz.test_doors import COUNTS, OUTCOME, find_faults, inputs_of

from .conftest import HEADERS, Handed, WorkTopic, record

ROWS: Final = """
select array[
  (select sum(bit_count(ended)) from ledger.run), (select count(*) from ledger.transition),
  (select count(*) from ledger.pending), (select count(*) from ledger.review),
  (select count(*) from ledger.run), (select count(*) from ledger.withdrawal),
  (select count(*) from ledger.rejected_write)]::bigint[]
"""
COMPLETED: Final = [1, 1, 0, 0, 0, 0, 0]
RETRIED: Final = [1, 1, 1, 0, 0, 0, 0]
"""The rows that an outcome adds: its bit, its transition, and where an item of a retry waits."""


@pytest.mark.parametrize("count", COUNTS)
async def test_a_hostile_outcome_is_settled_or_moves_no_item_and_the_one_beside_it_is_settled(
    topic: WorkTopic, count: int
) -> None:
    left: list[Handed] = []
    before: list[int] = []

    async def report(number: int) -> None:
        nonlocal before
        if len(left) < 2:
            left.extend(await topic.emit_and_claim(41))
            await topic.take(left.pop().outcome())  # opens the run
            before = await topic.connection.fetchval(ROWS)
        target, good = left.pop(), left.pop()
        inputs = inputs_of("outcome", number)
        named = {"item": str(target.item), "fence": target.fence, "token": target.token}
        document = OUTCOME | named | {"position": target.position}
        ce_type = b"\xff" if inputs.random.randrange(10) == 0 else HEADERS["ce_type"]
        hostile = record(inputs.document([document]), ce_type=ce_type)
        result = await topic.take(hostile, good.outcome())
        after = await topic.connection.fetchval(ROWS)
        added = [new - old for new, old in zip(after, before, strict=True)]
        before = after
        assert result.settled + len(result.rejected) == 2
        assert all(one.record is hostile for one in result.rejected)
        expected = [sum(pair) for pair in zip(COMPLETED, RETRIED, strict=True)]
        if result.rejected:
            expected = [*COMPLETED[:-1], result.refused]
        assert added == expected

    assert await find_faults(report, count) == {}
    await topic.check_balance()
