"""Claims that expire unstarted in Kafka: their items wait, by partition, longer each time."""

from datetime import datetime, timedelta

from dueledger.ledger.store.claims import Claim, mark_published, reap_claims
from dueledger.ledger.store.flows import find_blockers
from dueledger.ledger.store.items import show_item
from dueledger.why import explain

from .conftest import Ledger


async def publish(ledger: Ledger) -> Claim:
    claim = await ledger.claim()
    await mark_published(ledger.connection, [claim.id], [0])
    return claim


async def reap(ledger: Ledger) -> list[float]:
    """Let the deadlines pass, and reap; return the seconds until each pending item is available."""
    await ledger.end_leases()
    await reap_claims(ledger.connection, 100, ledger.worker_no)
    rows = await ledger.connection.fetch(
        "select extract(epoch from p.available_at - ledger.now())::float as seconds"
        " from ledger.pending p order by p.available_at"
    )
    return [max(0.0, row["seconds"]) for row in rows]


async def test_g9_items_that_expire_in_one_partition_again_and_again_wait_longer_up_to_a_bound(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit(2)
    waits: list[float] = []
    for _ in range(6):
        await publish(ledger)
        seconds, same = await reap(ledger)
        assert seconds == same
        waits.append(seconds)
        noon += timedelta(seconds=seconds)
        await ledger.stand_at(noon)
    assert waits == [1, 2, 4, 8, 8, 8]


async def test_why_names_the_backoff_of_an_item_and_not_a_snooze(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    (item,) = await ledger.emit()
    await publish(ledger)
    await reap(ledger)
    shown = await show_item(ledger.connection, item)
    assert shown is not None
    explanation = explain(shown, await find_blockers(ledger.connection, shown["item_no"]))
    assert explanation.code == "EXPIRED"
    assert "no worker started it before its queue deadline" in explanation.sentence


async def test_g9_claims_that_expire_during_a_backoff_end_with_it(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit()
    await publish(ledger)
    assert await reap(ledger) == [1]
    await ledger.emit()
    await publish(ledger)
    await ledger.stand_at(noon + timedelta(seconds=0.25))
    assert await reap(ledger) == [0.75, 0.75]
    backoffs = await ledger.connection.fetch("select expirations from ledger.partition_backoff")
    assert [row["expirations"] for row in backoffs] == [1]


async def test_g9_the_first_start_out_of_a_partition_ends_its_backoff(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit(3)
    for seconds in (1, 2):
        await publish(ledger)
        assert await reap(ledger) == [seconds] * 3
        noon += timedelta(seconds=seconds)
        await ledger.stand_at(noon)
    claim = await publish(ledger)
    assert (await ledger.start(claim.fence)).run_no is not None
    assert await reap(ledger) == [1, 1]


async def test_g9_a_claim_that_never_reached_kafka_does_not_wait(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit()
    await ledger.claim()
    assert await reap(ledger) == [0]
    assert not await ledger.connection.fetch("select from ledger.partition_backoff")
