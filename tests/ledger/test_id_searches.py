"""The date in an item's id: a search by id reads one table partition, however many there are."""

from collections.abc import Callable
from datetime import date
from typing import Any
from uuid import UUID

import pytest

from dueledger.ledger.identity import total_of
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.partitions import make_item_months
from dueledger.ledger.store.statements import statement

MakeDrafts = Callable[..., list[ItemDraft]]

DATES = [date(1970, 1, 1), date(2026, 12, 31), date(2027, 3, 1), date(2199, 12, 31)]

SCANS = """
select p.relid::regclass::text as name,
  pg_stat_get_xact_numscans(p.relid) + (
    select sum(pg_stat_get_xact_numscans(x.indexrelid))
    from pg_index x where x.indrelid = p.relid) as scans
from pg_partition_tree('ledger.due_item') p
where p.isleaf
"""

RETIRED_KEY_SCANS = """
select pg_stat_get_xact_numscans('ledger.retired_key'::regclass)
  + pg_stat_get_xact_numscans('ledger.retired_key_pkey'::regclass)
"""

KNOWN: dict[str, Callable[[UUID, int], tuple[Any, ...]]] = {
    "find_issues": lambda item, _: ([item],),
    "find_known_ids": lambda item, _: ([item],),
}
"""What also knows items whose table partition was dropped."""

ARGUMENTS: dict[str, Callable[[UUID, int], tuple[Any, ...]]] = {
    "park_items": lambda item, actor: ([item], "test", actor),
    "redrive_items": lambda item, actor: ([item], "test", actor),
    "write_off_items": lambda item, actor: ([item], "test", actor),
    "expedite_items": lambda item, actor: ([item], "test", actor),
    "withdraw_items": lambda item, actor: (
        [item],
        TransitionEvent.CANCELLED,
        "test",
        actor,
        [None],
    ),
    "show_item": lambda item, _: (item, None),
    "item_timeline": lambda item, _: (item, None, None, None, 10),
    **KNOWN,
    "begin_chains": lambda item, _: ([item], [1], [60.0]),
}


async def test_the_date_of_an_id_is_its_items(
    connection: Connection, make_drafts: MakeDrafts, actor_no: int
) -> None:
    drafts = [make_drafts(1, effective_date=day)[0] for day in DATES]
    await emit_items(connection, drafts, actor_no=actor_no)
    rows = await connection.fetch(
        "select id, effective_date, ledger.effective_date_of(id) as named from ledger.due_item"
        " order by effective_date"
    )
    assert [row["named"] for row in rows] == [row["effective_date"] for row in rows] == DATES
    assert sorted(row["id"] for row in rows) == [row["id"] for row in rows]


def test_control_totals_add_the_hash_of_an_id_and_not_its_date(make_drafts: MakeDrafts) -> None:
    drafts = [make_drafts(1, effective_date=date(2027, 3, day))[0] for day in range(1, 31)]
    totals = {total_of(draft.id.bytes) for draft in drafts}
    assert len({total >> 48 & 0x3FFF for total in totals}) > len(drafts) // 2


@pytest.mark.parametrize("name", ARGUMENTS)
async def test_a_search_by_id_reads_one_partition(
    connection: Connection, make_drafts: MakeDrafts, actor_no: int, name: str
) -> None:
    drafts = [make_drafts(1, effective_date=day)[0] for day in DATES]
    await make_item_months(connection, DATES)
    await emit_items(connection, drafts, actor_no=actor_no)
    async with connection.transaction():
        before = await connection.fetch(SCANS)
        await connection.fetch(statement(name), *ARGUMENTS[name](drafts[1].id, actor_no))
        after = await connection.fetch(SCANS)
    assert [row["name"] for row in after if row not in before] == ["ledger.due_item_202612"]


@pytest.mark.parametrize("name", [*KNOWN, "find_effect_items"])
async def test_g10_only_a_search_for_a_date_without_a_partition_asks_for_retired_keys(
    connection: Connection, make_drafts: MakeDrafts, kind: str, name: str
) -> None:
    kept, gone = (
        make_drafts(2, effective_date=day) for day in (date(2027, 3, 1), date(2100, 1, 1))
    )
    retired = [kept[0].id, gone[0].id]
    await connection.execute(
        "insert into ledger.retired_key select id, now() from unnest($1::uuid[]) id", retired
    )

    async def known(*drafts: ItemDraft) -> list[bool]:
        ids = [draft.id for draft in drafts]
        if name == "find_effect_items":
            nothing = [None] * len(ids)
            arguments = ("acme", kind, ids, nothing, nothing, nothing)
            return [
                row["is_retired"] for row in await connection.fetch(statement(name), *arguments)
            ]
        rows = await connection.fetch(statement(name), ids)
        return [draft.id.bytes in {row["id"] for row in rows} for draft in drafts]

    async with connection.transaction():
        before = await connection.fetchval(RETIRED_KEY_SCANS)
        assert await known(*kept) == [False, False]
        assert await connection.fetchval(RETIRED_KEY_SCANS) == before
    assert await known(*kept, *gone) == [False, False, True, False]
