"""What is read by ranges, each in a snapshot of its own, is what one statement would read."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Pool, Record, reconciled_rows
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.items import read_accounting as read_at_once
from dueledger.ledger.store.partitions import make_event_months
from dueledger.ledger.store.reconciled_rows import NO_VERSIONS, VersionKey
from dueledger.reconciler.pass_result import PassScope
from dueledger.reconciler.read import accounting, day_digests, open_places
from dueledger.reconciler.read.accounting import read_accounting
from dueledger.reconciler.read.day_digests import DayMarks, read_ledger_days
from dueledger.reconciler.read.item_columns import read_window
from dueledger.reconciler.read.open_places import read_places
from dueledger.reconciler.windows import DateRange, cut_by_bytes

from .conftest import NOON

Drafts = Callable[..., list[ItemDraft]]
APRIL, MAY = date(2027, 4, 10), date(2027, 5, 10)
ITEMS_IN_A_CLAIM = 4
KEY = reconciled_rows.VersionKey(7, 0)
IN_TWO_PLACES = """
insert into ledger.review (
  item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select item_no, effective_date, flow_no, ledger.now(), 0, 0, 'edited', 1 from ledger.due_item
"""
EDITS_OF_MAY = (
    "update ledger.due_item set tzdata = tzdata where effective_date = $1",
    (
        "delete from ledger.due_item i where i.effective_date = $1 and i.item_no = ("
        "select min(item_no) from ledger.due_item where effective_date = $1)"
    ),
    (
        "insert into ledger.transition (effective_date, event, attempt, item_no, actor_no, at)"
        " select effective_date, 6, 1, item_no, actor_no, ledger.now() from ledger.due_item"
        " where effective_date = $1"
    ),
    "delete from ledger.due_item where effective_date = $1",
    "delete from ledger.transition where effective_date = $1",
)
OF_PAGES = """
insert into ledger.event (event_no, tenant, source, id, type, occurred_at, body, received_at)
select (page << 16) + n, 'acme', '/policies', page || '-' || n,
  case page when 7 then 'Other' else 'PolicyActivated' end, $2, '{}', $2
from unnest($1::bigint[]) page cross join generate_series(0, 65535, 32767) n
"""


@pytest.fixture
async def open_items(
    frozen: Connection,
    make_drafts: Drafts,
    claim_all: Callable[[], Awaitable[list[int]]],
    complete_all: Callable[[], Awaitable[None]],
    actor_no: int,
) -> None:
    """Items of three months, some completed, some claimed, and all others waiting."""
    for prefix, finish in (("done", complete_all), ("claimed", claim_all)):
        drafts = make_drafts(ITEMS_IN_A_CLAIM, due_at=NOON, prefix=prefix)
        await emit_items(frozen, drafts, actor_no=actor_no)
        await finish()
    for day in (APRIL, MAY):
        drafts = make_drafts(5, due_at=NOON + timedelta(days=60), effective_date=day)
        await emit_items(frozen, drafts, actor_no=actor_no)


@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 40), st.integers(0, 30), st.integers(0, 5)), max_size=8
    ),
    bytes_max=st.integers(1, 50),
)
def test_cut_ranges_compose_to_the_whole_and_have_few_bytes_or_one_day(
    sizes: list[tuple[int, int, int]], bytes_max: int
) -> None:
    day, parts = 1, list[tuple[DateRange, int]]()
    for days, size, gap in sizes:
        parts.append((DateRange(day, day + days), size))
        day += days + gap
    whole = DateRange(1, day + 10)

    ranges = [*cut_by_bytes(whole, parts, bytes_max)]

    assert [each.from_day for each in ranges[1:]] == [each.to_day for each in ranges[:-1]]
    assert (ranges[0].from_day, ranges[-1].to_day) == (whole.from_day, whole.to_day)
    for each in ranges:
        inside = [(part, size) for part, size in parts if each.contains(part)]
        if len(inside) > 1:
            assert sum(size for _, size in inside) <= bytes_max
    for part, size in parts:
        cut = [each for each in ranges if part.contains(each)]
        if size > bytes_max:
            assert len(cut) >= min(-(-size // bytes_max), part.to_day - part.from_day) - 1


@pytest.mark.damages
@pytest.mark.usefixtures("open_items")
async def test_g11_places_are_the_same_read_by_some_numbers_at_a_time(
    frozen: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute(IN_TWO_PLACES)
    whole = await read_places(frozen, NO_VERSIONS)
    assert len(whole.item_no) == len(set(whole.item_no.tolist())) + ITEMS_IN_A_CLAIM + 10
    assert len(whole.handed_out) == ITEMS_IN_A_CLAIM

    for numbers in (1, 3):
        monkeypatch.setattr(open_places, "PLACES_A_READ", numbers)
        parts = await read_places(frozen, NO_VERSIONS)
        assert parts.digests() == whole.digests()
        assert sorted(parts.item_no.tolist()) == sorted(whole.item_no.tolist())
        assert parts.handed_out == whole.handed_out


async def list_unfit(
    connection: Connection, known_dates: Sequence[tuple[date, date]] = ()
) -> list[tuple[str, int]]:
    return sorted(
        [
            (row["state"], row["item_no"])
            async for rows in reconciled_rows.list_unfit_places(connection, known_dates)
            for row in rows
        ]
    )


@pytest.mark.damages
@pytest.mark.usefixtures("open_items")
async def test_g11_unfit_places_are_the_same_read_by_some_numbers_at_a_time(
    frozen: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await frozen.execute("update ledger.pending set available_at = ledger.now()")
    await frozen.execute("update ledger.pending set item_no = item_no + 1000 where item_no % 2 = 0")
    whole = await list_unfit(frozen)
    assert len(whole) == 10

    monkeypatch.setattr(reconciled_rows, "PLACES_PAGE", 3)
    assert await list_unfit(frozen) == whole
    days = [(day, day + timedelta(days=1)) for day in (APRIL, MAY)]
    april, may = [await list_unfit(frozen, [known]) for known in days]
    assert sorted(april + may) == whole
    assert len(april) == len(may) == 5
    assert await list_unfit(frozen, days) == []
    await frozen.execute("delete from ledger.due_item")
    handed_out = [
        (state, item_no) for state, item_no in await list_unfit(frozen) if state == "handed_out"
    ]
    assert len(handed_out) == ITEMS_IN_A_CLAIM
    assert await list_unfit(frozen, [(date.min, date.max)]) == handed_out


@pytest.mark.usefixtures("open_items")
async def test_g11_the_accounting_is_the_same_counted_by_ranges_of_dates(
    frozen: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await read_at_once(frozen)
    assert [(row.items, row.difference) for row in whole] == [(18, 0)]

    monkeypatch.setattr(accounting, "SNAPSHOT_BYTES_MAX", 8192)
    assert await read_accounting(frozen, PassScope().window) == whole


@pytest.mark.usefixtures("open_items")
async def test_g11_days_are_the_same_read_by_ranges_and_as_the_windows_that_are_compared_have_them(
    frozen: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = PassScope().window
    whole = await read_ledger_days(frozen, scope, KEY, known={})
    counts = whole.counts.within(scope)
    assert sorted(counts.values()) == [5, 5, 8]
    assert sum(digest.journal.rows for digest in whole.rows.values()) == ITEMS_IN_A_CLAIM
    columns = await read_window(frozen, scope, key=KEY, says_payloads=False)
    assert whole.marks({}).of(scope) == (DayMarks.joined(columns.day_rows, {}).of(scope))

    monkeypatch.setattr(day_digests, "DIGEST_BYTES_MAX", 8192)
    assert (await read_ledger_days(frozen, scope, KEY, known={})).rows == whole.rows
    counted = await read_ledger_days(frozen, scope, KEY, known=None)
    assert (counted.counts.within(scope), counted.rows) == (counts, {})


@pytest.mark.damages
@pytest.mark.usefixtures("open_items")
async def test_g11_days_that_have_the_rows_that_are_known_are_digested_together(
    frozen: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    digested: list[date] = []
    of_days = reconciled_rows.digest_days

    async def digest_days(
        connection: Connection, from_date: date, to_date: date, key: VersionKey
    ) -> list[Record]:
        rows = await of_days(connection, from_date, to_date, key)
        digested.extend(row["effective_date"] for row in rows)
        return rows

    monkeypatch.setattr(reconciled_rows, "digest_days", digest_days)
    monkeypatch.setattr(day_digests, "DIGEST_BYTES_MAX", 8192)
    scope = PassScope().window
    key = (await reconciled_rows.read_version_key(frozen)).key
    known = (await read_ledger_days(frozen, scope, key, known={})).rows
    assert {each.items.total for each in known.values()} == {0}  # written before the key was read
    assert len(digested) == 3
    for edit in EDITS_OF_MAY:
        digested.clear()
        assert (await read_ledger_days(frozen, scope, key, known=known)).rows == known
        assert digested == []

        await frozen.execute(edit, MAY)
        changed = (await read_ledger_days(frozen, scope, key, known=known)).rows
        assert digested == [MAY] * (MAY.toordinal() in changed)
        assert {day for day in known if changed.get(day) != known[day]} == {MAY.toordinal()}
        known = changed


@pytest.mark.damages
@pytest.mark.usefixtures("open_items")
async def test_g11_a_change_by_a_transaction_that_ran_when_the_key_was_read_shows(
    frozen: Connection, pool: Pool
) -> None:
    scope = PassScope().window
    async with pool.acquire() as writer, pool.acquire() as later:
        async with writer.transaction():
            await writer.execute(EDITS_OF_MAY[0], APRIL)  # it has a number from here on
            await later.execute("create table ledger.made_later ()")  # and this one is over
            key = (await reconciled_rows.read_version_key(frozen)).key
            known = (await read_ledger_days(frozen, scope, key, known={})).rows
            async with writer.transaction():
                await writer.execute(EDITS_OF_MAY[0], MAY)  # a part of it, with its own number
            assert (await read_ledger_days(frozen, scope, key, known=known)).rows == known
        changed = (await read_ledger_days(frozen, scope, key, known=known)).rows
    assert {day for day in known if changed[day] != known[day]} == {
        APRIL.toordinal(),
        MAY.toordinal(),
    }
    assert {day: each.items.rows for day, each in changed.items()} == {
        day: each.items.rows for day, each in known.items()
    }


async def test_g11_a_column_that_changes_what_all_rows_say_makes_their_versions_others(
    frozen: Connection,
) -> None:
    key = (await reconciled_rows.read_version_key(frozen)).key.key
    assert (await reconciled_rows.read_version_key(frozen)).key.key == key
    await frozen.execute("alter table ledger.due_item add column edited text default 'all rows'")
    assert (await reconciled_rows.read_version_key(frozen)).key.key != key


async def test_g11_digests_of_the_inbox_are_the_same_read_by_some_pages_at_a_time(
    frozen: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_event_months(frozen, [NOON.date()])
    pages = [0, 1, 2, 7, 9, 2**40]
    await frozen.execute(OF_PAGES, pages, NOON)
    whole = await reconciled_rows.digest_inbox(frozen, ["PolicyActivated"], KEY)
    assert [*whole] == [page for page in pages if page != 7]
    assert {digest.split("/")[0] for digest in whole.values()} == {"3"}

    for pages_a_read in (1, 2):
        monkeypatch.setattr(reconciled_rows, "INBOX_PAGES_A_READ", pages_a_read)
        assert await reconciled_rows.digest_inbox(frozen, ["PolicyActivated"], KEY) == whole
