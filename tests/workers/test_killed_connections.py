"""Connections of a worker of Kafka's that Postgres ends."""

from collections.abc import Callable

from dueledger.ledger.rules.drafts import ItemDraft

from .conftest import Site
from .killed_connections import ITEMS, KilledConnections

MakeDrafts = Callable[..., list[ItemDraft]]


async def test_g5_transactions_that_die_with_their_connections_count_no_attempt(
    site: Site, make_drafts: MakeDrafts
) -> None:
    killed = KilledConnections(site.kind, site.connection, site.eventually)
    await site.emit(make_drafts(ITEMS))
    await site.work(killed.handlers())

    await killed.until_completed(site.allocate)
