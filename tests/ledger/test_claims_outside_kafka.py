"""A direct claim never is in Kafka: what looks there passes it over."""

from datetime import timedelta

from dueledger.ledger.store.claims import mark_published
from dueledger.ledger.store.prior_work import list_handed_out_orphans
from dueledger.ledger.store.published_claims import (
    find_published_claims,
    list_published_claims,
    list_work_topics,
)

from .conftest import Ledger


async def test_a_direct_claim_has_no_topic_and_no_records(undone_ledger: Ledger) -> None:
    ledger, connection = undone_ledger, undone_ledger.connection
    await ledger.emit()
    published = await ledger.claim()
    await mark_published(connection, [published.id], [7])
    await ledger.emit()
    direct = await ledger.claim()
    await connection.execute(
        "update ledger.claim set topic = 'direct', partition = -1 where fence = $1", direct.fence
    )
    claims, since = (published, direct), published.id.claimed_at - timedelta(days=1)

    topics = await list_work_topics(connection, since)
    assert "direct" not in {row["topic"] for row in topics}
    until = since + timedelta(days=2)
    listed = await list_published_claims(connection, 0, since, until, 10)
    assert [claim.fence for claim in listed] == [published.fence]
    named = [(each.fence, each.id.claimed_at) for each in claims]
    assert (await find_published_claims(connection, named)).keys() == {published.fence}

    await connection.execute("delete from ledger.due_item")
    [date] = {day for each in claims for day in each.effective_dates}
    assert await list_handed_out_orphans(connection, [date]) == {
        (date, published.topic): True,
        (date, None): True,
    }
