"""How far consumers are behind, by partition: from the claims that are open, without Kafka."""

from dueledger.ledger.store.claims import mark_published
from dueledger.ledger.store.topic_partitions import (
    StalledPartition,
    list_topic_partitions,
    record_stalled_partitions,
)

from .conftest import Ledger


async def test_the_lag_of_a_partition_is_what_was_published_and_not_started(
    ledger: Ledger,
) -> None:
    async def lags(limit: int = 10) -> list[tuple[int, int, int | None, int | None]]:
        rows = await list_topic_partitions(ledger.connection, "due.Test", limit)
        return [
            (row["partition"], row["items"], row["next_offset"], row["end_offset"]) for row in rows
        ]

    assert await lags() == []
    await ledger.emit(5)
    first = await ledger.claim(limit=3)
    assert await lags() == [(0, 3, None, None)], "it is claimed, and not published yet"
    rest = await ledger.claim()
    await mark_published(ledger.connection, [first.id, rest.id], [100, 103])
    assert await lags() == [(0, 5, 100, 105)]
    await ledger.start(first.fence, 1, 2)
    assert await lags() == [(0, 3, 102, 105)]
    await ledger.start(first.fence, 3, 3)
    await record_stalled_partitions(
        ledger.connection,
        ledger.worker_no,
        [StalledPartition("due.Test", 1, 7, waits_for_handlers=False, stalled_seconds=60)],
    )
    await ledger.connection.execute(
        "insert into ledger.partition_backoff (topic, partition, expirations, available_at)"
        " values ('due.Test', 2, 3, ledger.now() + interval '1 minute'),"
        " ('due.Test', 3, 3, ledger.now()), ('due.Other', 4, 3, ledger.now() + interval '1 day')"
    )
    found = await list_topic_partitions(ledger.connection, "due.Test", 10)
    assert [(row["partition"], row["items"]) for row in found] == [(0, 2), (1, 0), (2, 0)]
    assert [row["stalled_at"] is not None for row in found] == [False, True, False]
    assert [row["expirations"] for row in found] == [None, None, 3]
    assert await lags(1) == [(0, 2, 103, 105)]
    assert await list_topic_partitions(ledger.connection, "due.Nothing", 10) == []
