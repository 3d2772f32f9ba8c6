"""Connections reset exactly where something is made durable: before it happens, and after."""

import asyncio

import pytest

from .checker import violations
from .programs import EVENTUALLY_SECONDS
from .site import Site

pytestmark = pytest.mark.faults
BEFORE_AND_AFTER = pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])


@pytest.mark.parametrize(
    ("label", "handler"),
    [
        ("commit record_claims", "batch"),
        ("mark_published", "batch"),
        ("start_plain_runs", "batch"),
        ("settle_completed_runs", "batch"),
        ("commit settle_completed_run", "transaction"),
        ("commit settle_completed_runs", "chunk"),
    ],
    ids=["claim", "mark", "start", "settle", "transaction", "chunk"],
)
@BEFORE_AND_AFTER
async def test_g5_g6_g7_a_commit_that_is_cut_off_is_neither_lost_nor_done_twice(
    site: Site, label: str, handler: str, *, answered: bool
) -> None:
    kind = await site.add_kind(handler)
    cut = site.servers.postgres.hold(label, answered=answered)
    programs = [await site.start_allocator(), await site.start_worker()]
    await site.emit(site.drafts(kind, 200))
    await asyncio.wait_for(cut.reached, EVENTUALLY_SECONDS)
    cut.decide(passes=False)
    await site.emit(site.drafts(kind, 50))

    await site.finished()

    assert all(program.running for program in programs)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 250


@BEFORE_AND_AFTER
async def test_g5_g7_a_publication_that_is_cut_off_is_neither_lost_nor_doubled(
    site: Site, *, answered: bool
) -> None:
    kind = await site.add_kind("batch")
    cut = site.servers.kafka.hold("produce", answered=answered)
    programs = [await site.start_allocator(), await site.start_worker()]
    await site.emit(site.drafts(kind, 200))
    await asyncio.wait_for(cut.reached, EVENTUALLY_SECONDS)
    cut.decide(passes=False)
    await site.emit(site.drafts(kind, 50))

    await site.finished()

    assert all(program.running for program in programs)
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 250


@pytest.mark.parametrize(
    ("label", "handler"),
    [
        ("claim_and_start_items", "batch"),
        ("claim_and_start_items", "transaction"),
        ("settle_completed_runs", "batch"),
    ],
    ids=["take", "take-transaction", "settle"],
)
@BEFORE_AND_AFTER
async def test_g5_g6_g7_without_kafka_a_commit_that_is_cut_off_is_neither_lost_nor_done_twice(
    site: Site, label: str, handler: str, *, answered: bool
) -> None:
    kind = await site.add_kind(handler, dispatch="direct")
    cut = site.servers.postgres.hold(label, answered=answered)
    worker = await site.start_direct_worker()
    await site.emit(site.drafts(kind, 200))
    await asyncio.wait_for(cut.reached, EVENTUALLY_SECONDS)
    cut.decide(passes=False)
    await site.emit(site.drafts(kind, 50))

    await site.finished()

    assert worker.running
    assert await site.end_all() == {}
    assert await violations(site) == []
    assert await site.count_completed() == 250
