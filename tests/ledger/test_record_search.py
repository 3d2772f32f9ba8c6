"""A Kafka record is found by topic, partition and offset, however many claims were made since."""

import pytest

from dueledger.ledger.store.search import find_record

from .conftest import Ledger

CLAIMS = 3_000
RARE = 500
"""One claim in so many is of a topic of its own."""


@pytest.fixture
async def claims(ledger: Ledger) -> None:
    """Claims of ten records, of four partitions in turn; two of seven were published inverted."""
    await ledger.emit()
    claim = await ledger.claim()
    await ledger.connection.execute(
        "insert into ledger.claim (fence, claimed_at, allocator_no, topic, partition, size,"
        " item_no, effective_date, attempt, starts, base_offset, deadline, closed_at, token)"
        " select c.fence + n, c.claimed_at, c.allocator_no,"
        "  case when n % $2 = 0 then 'due.Rare' else 'due.Often' end, n % 4, 10,"
        "  array_fill(c.item_no[1], array[10]), array_fill(c.effective_date[1], array[10]),"
        "  array_fill(1::smallint, array[10]), array_fill(1::smallint, array[10]),"
        "  10 * (n / 4 + case n / 4 % 7 when 3 then 1 when 4 then -1 else 0 end), c.deadline,"
        "  c.claimed_at, c.token"
        " from ledger.claim c cross join generate_series(1, $1) n where c.fence = $3",
        CLAIMS,
        RARE,
        claim.fence,
    )


@pytest.mark.usefixtures("claims")
async def test_a_record_is_found_among_few_claims_of_many(ledger: Ledger) -> None:
    async def fence_of(topic: str, partition: int, offset: int, claims_max: int = 20) -> int | None:
        found = await find_record(
            ledger.connection, topic, partition, offset, tenants=None, claims_max=claims_max
        )
        return None if found is None else found["fence"]

    stored = await ledger.connection.fetch(
        "select fence, topic, partition, base_offset from ledger.claim"
        " where base_offset is not null and topic = 'due.Often' order by fence"
    )
    for row in (*stored[:40], *stored[1_500:1_530], *stored[-40:]):
        place = row["topic"], row["partition"]
        for offset in (row["base_offset"], row["base_offset"] + 9):
            assert await fence_of(*place, offset) == row["fence"], (place, offset)
    assert await fence_of("due.Often", 1, 10 * CLAIMS) is None
    assert await fence_of("due.Often", 4, 50) is None
    assert await fence_of("due.Other", 1, 50) is None
    first = await ledger.connection.fetchval(
        "select min(fence) from ledger.claim where topic = 'due.Rare'"
    )
    assert await fence_of("due.Rare", 0, 10 * (RARE // 4) + 3, RARE) == first
    foreign = await find_record(
        ledger.connection, "due.Often", 1, 10, tenants=["umbra"], claims_max=20
    )
    assert foreign is None
    # The topic was made again: its offsets begin anew.
    await ledger.connection.execute(
        "update ledger.claim set base_offset = base_offset - $1 where fence > $2",
        10 * (CLAIMS // 4 - 3),
        stored[-1]["fence"] - 13,
    )
    latest = stored[-1]
    again = latest["base_offset"] - 10 * (CLAIMS // 4 - 3)
    assert await fence_of("due.Often", latest["partition"], again) == latest["fence"]
    # A newer record at this place is another tenant's: it hides nothing.
    [foreign_item] = await ledger.emit(tenant="umbra")
    await ledger.connection.execute(
        "update ledger.claim c set item_no = array_fill(i.item_no, array[10]),"
        " effective_date = array_fill(i.effective_date, array[10])"
        " from ledger.due_item i where i.id = $1 and c.fence = $2",
        foreign_item,
        latest["fence"],
    )
    place = "due.Often", latest["partition"], again
    for tenant in ("acme", "umbra"):
        found = await find_record(ledger.connection, *place, tenants=[tenant], claims_max=1_000)
        assert found is not None
        assert found["tenant"] == tenant
        assert (found["fence"] == latest["fence"]) == (tenant == "umbra")
