"""Chains begin with open items of their version (begin_chains) and go on (emit_follower)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.definitions import begin_chains
from dueledger.ledger.store.items import emit_items, withdraw_items

from .conftest import Ledger
from .versions import define_versions

TERMINAL: Final = (5, 11, 12, 13, 14)
WRITE: Final = """
insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at)
select effective_date, item_no, $2, 0, actor_no, now() from ledger.due_item where id = $1
"""


async def test_a_chain_begins_only_with_an_open_item_of_its_version(undone_ledger: Ledger) -> None:
    ledger = undone_ledger
    versions = await define_versions(ledger)
    first, second = versions["first"], versions["second"]
    events = {"open": None, "revised": 15, **{f"ended-{event}": event for event in TERMINAL}}
    owners = {**dict.fromkeys(events, first), "of-another-version": second}
    drafts = {name: ledger.make_drafts(prefix=name)[0] for name in owners}
    for name, owner in owners.items():
        await emit_items(
            ledger.connection, [drafts[name]], actor_no=ledger.worker_no, definition_no=owner
        )
        if event := events.get(name):
            await ledger.connection.execute(WRITE, drafts[name].id, event)

    async def chains() -> dict[str, tuple[int, float]]:
        rows = await ledger.connection.fetch(
            "select business_key, f.definition_no, f.delay_seconds from ledger.following f"
            " join ledger.due_item i using (effective_date, item_no)"
        )
        return {row["business_key"].rpartition("-")[0]: tuple(row)[1:] for row in rows}

    ids = [draft.id for draft in drafts.values()]
    delays = [60.0 + place for place, _ in enumerate(ids)]
    await begin_chains(ledger.connection, ids, [first] * len(ids), delays)
    assert await chains() == {"open": (first, 60.0), "revised": (first, 61.0)}

    # A newer version has taken the item over.
    await ledger.connection.execute(
        "update ledger.due_item set definition_no = $2 where id = $1", drafts["open"].id, second
    )
    await begin_chains(ledger.connection, ids, [second] * len(ids), [600.0] * len(ids))
    assert await chains() == {
        "open": (second, 600.0),
        "revised": (first, 61.0),
        "of-another-version": (second, 600.0),
    }


MATERIALISED: Final = """
insert into ledger.materialised (definition_no, materialised_until, ends_at)
values ($1, ledger.now(), $2)
"""
NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
NEVER: Final = NOON + timedelta(days=30_000)


async def _begin(ledger: Ledger, drafts: dict[str, ItemDraft], definition_no: int) -> None:
    for name, draft in drafts.items():
        await emit_items(
            ledger.connection, [draft], actor_no=ledger.worker_no, definition_no=definition_no
        )
        await begin_chains(ledger.connection, [draft.id], [definition_no], [60.0 + len(name)])


async def _cancel(ledger: Ledger, *drafts: ItemDraft) -> None:
    await withdraw_items(
        ledger.connection,
        [draft.id for draft in drafts],
        event=TransitionEvent.CANCELLED,
        reason="test",
        actor_no=ledger.other_worker_no,
    )


async def test_the_next_item_of_a_chain_has_the_terms_and_the_chain_of_the_one_before(
    ledger: Ledger,
) -> None:
    await ledger.stand_at(NOON)
    versions = await define_versions(ledger)
    for name, number in versions.items():  # the end of another version ends no chain
        await ledger.connection.execute(
            MATERIALISED, number, NEVER if name == "second" else NOON - timedelta(days=1)
        )
    other = {"kind": f"{ledger.kind}Other"}
    drafts = {
        "plain": ledger.make_drafts(prefix="plain", lane="eu")[0],
        "serial": replace(
            ledger.make_drafts(prefix="serial")[0], overlap=Overlap.SKIP, overlap_key="rule"
        ),
        "other": ledger.make_drafts(prefix="other", **other)[0],
        "open": ledger.make_drafts(prefix="open", **other)[0],
    }
    await _begin(ledger, drafts, versions["second"])
    terms = (
        "select i.business_key, i.flow_no, i.definition_no, i.serial, i.overlap, f.delay_seconds"
        " from ledger.due_item i join ledger.following f using (effective_date, item_no)"
        " join ledger.pending p using (item_no) order by 1"
    )
    before = await ledger.connection.fetch(terms)

    await _cancel(ledger, *(draft for name, draft in drafts.items() if name != "open"))

    assert await ledger.connection.fetch(terms) == before
    assert len(before) == len(drafts)
    due = await ledger.connection.fetch(
        "select i.due_at from ledger.pending p join ledger.due_item i using (item_no)"
        " where i.due_at >= $1 order by i.due_at",
        NOON,
    )
    seconds = [(row["due_at"] - NOON).total_seconds() for row in due]
    assert seconds == [65, 65, 66]


async def test_g13_the_end_of_an_item_waits_for_a_version_that_takes_over(
    ledger: Ledger, database: str, eventually: Callable[..., Awaitable[bool]]
) -> None:
    await ledger.stand_at(NOON)
    versions = await define_versions(ledger)
    await ledger.connection.execute(MATERIALISED, versions["second"], NEVER)
    (draft,) = ledger.make_drafts()
    await _begin(ledger, {"one": draft}, versions["second"])
    rival = await connect(database, application_name="rival")
    taking_over = rival.transaction()
    await taking_over.start()
    await rival.execute("update ledger.materialised set ends_at = $1", NOON)
    ending = asyncio.create_task(_cancel(ledger, draft))
    pid = ledger.connection.get_server_pid()

    async def waits() -> bool:
        return await rival.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)

    await eventually(waits)
    await taking_over.commit()
    await ending
    assert await rival.fetchval("select count(*) from ledger.due_item") == 1
    await rival.close()
