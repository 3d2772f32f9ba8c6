"""Reads of the rows that a reconciliation compares: items, flows, events, versions."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, date, datetime
from typing import Final, NamedTuple
from uuid import UUID

from asyncpg import Range

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

EXPEDITED_PAGE: Final = 10_000
FLOW_RULES_PAGE: Final = 10_000
HELD_KEYS_PAGE: Final = 100_000
MISSED_RANGES_PAGE: Final = 10_000
INBOX_PAGE_NUMBERS: Final = 65_536
INBOX_PAGES_A_READ: Final = 16
PLACES_PAGE: Final = 100_000
REJECTED_WRITES_PAGE: Final = 100_000
_BEFORE_ALL: Final = -(2**63)
_TRANSACTIONS: Final = 2**32
_COPY_PAUSE_SECONDS: Final = 0.001
_COPY_PIECE_BYTES: Final = 200_000
"""The loop reads 256 KiB at once: where as much had arrived, there is nothing to wait for."""
_PUT_BYTES: Final = 2**20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

PutCopied = Callable[[bytes], None]
"""Takes a copy in pieces of about a megabyte, as they arrive: rows begin and end anywhere."""


class VersionKey(NamedTuple):
    """What versions of rows are hashed with: comparable as long as it is the same.

    `key`: of this process, the server's start, and the columns. Rows that were written before the
    transaction `since` are counted, not hashed; all transactions before it had ended when it was
    read, so whatever was written later shows.
    """

    key: int
    since: int

    @property
    def arguments(self) -> tuple[int, int]:
        """Return it as statements take it: a transaction has 32 bits there."""
        return self.key, self.since % _TRANSACTIONS


NO_VERSIONS: Final = VersionKey(0, 0)
"""A key under which all rows are hashed."""


class VersionSource(NamedTuple):
    """The key for versions of rows now, and the table partitions (oids) that have the rows."""

    key: VersionKey
    partitions: frozenset[int]


async def read_version_key(connection: Connection) -> VersionSource:
    """Return the key for versions of rows that are read from now on."""
    row = await connection.fetchrow(statement("read_version_key"))
    assert row is not None  # noqa: S101 - an aggregate gives one row
    key = VersionKey(hash((row["started_at"], *row["columns"])), row["oldest_running"])
    return VersionSource(key, frozenset(row["partitions"]))


async def copy_item_columns(
    connection: Connection, from_date: date, to_date: date, key: VersionKey, put: PutCopied
) -> None:
    """Copy the items of a range of effective dates in binary form, with their rows' versions."""
    query = statement("copy_item_columns")
    await _copy(connection, query, from_date, to_date, *key.arguments, put=put)


async def copy_journal_columns(
    connection: Connection, from_date: date, to_date: date, key: VersionKey, put: PutCopied
) -> None:
    """Copy the journal of a range of effective dates in binary form, with its rows' versions."""
    query = statement("copy_journal_columns")
    await _copy(connection, query, from_date, to_date, *key.arguments, put=put)


async def list_run_items(
    connection: Connection, run_nos: Sequence[int], first_at: datetime, last_at: datetime
) -> list[Record]:
    """List runs with their items; most were started between these instants."""
    return await connection.fetch(statement("list_run_items"), run_nos, first_at, last_at)


async def copy_places(
    connection: Connection, after_item_no: int, limit: int, key: VersionKey, put: PutCopied
) -> None:
    """Copy where items are that have not ended, by ascending number, in binary form.

    Those of about `limit` numbers after one: of the last all places are given.
    """
    query = statement("copy_places")
    await _copy(connection, query, after_item_no, limit, *key.arguments, put=put)


async def copy_inbox_events(
    connection: Connection, types: Sequence[str], page: int, put: PutCopied
) -> None:
    """Copy the recorded domain events of these types in a page of numbers in binary form."""
    bounds = page * INBOX_PAGE_NUMBERS, (page + 1) * INBOX_PAGE_NUMBERS
    await _copy(connection, statement("copy_inbox_events"), types, *bounds, put=put)


async def digest_inbox(
    connection: Connection, types: Sequence[str], key: VersionKey
) -> dict[int, str]:
    """Digest the versions of recorded domain events of these types, by page of numbers.

    Some pages are read in one snapshot.
    """
    digests: dict[int, str] = {}
    from_page = 0
    while True:
        rows = await connection.fetch(
            statement("digest_inbox"), types, from_page, INBOX_PAGES_A_READ, *key.arguments
        )
        digests.update((row["page"], row["digest"]) for row in rows if row["digest"])
        if len(rows) < INBOX_PAGES_A_READ:
            return digests
        from_page = rows[-1]["page"] + 1


async def _copy(connection: Connection, query: str, *arguments: object, put: PutCopied) -> None:
    copied: list[bytes] = []
    size = 0

    async def keep(data: bytes) -> None:
        nonlocal size
        copied.append(data)
        size += len(data)
        if size >= _PUT_BYTES:
            put(b"".join(copied))
            copied.clear()
            size = 0
        if len(data) < _COPY_PIECE_BYTES:
            # What arrives meanwhile comes in one piece; 30 kB at a time take twice the CPU.
            await asyncio.sleep(_COPY_PAUSE_SECONDS)

    await connection.copy_from_query(query, *arguments, output=keep, format="binary")
    put(b"".join(copied))


async def list_outcomes_of_items(
    connection: Connection, items: Sequence[tuple[date, int]]
) -> list[Record]:
    """List these items, given by effective date and number, with what ended each."""
    return await connection.fetch(
        statement("list_outcomes_of_items"), *map(list, zip(*items, strict=True))
    )


async def count_items_by_day(
    connection: Connection, from_date: date, to_date: date
) -> dict[date, int]:
    """Count the items of each effective date of a half-open range, or its journal if longer."""
    rows = await connection.fetch(statement("count_items_by_day"), from_date, to_date)
    return {row["effective_date"]: row["item_count"] for row in rows}


async def list_item_partitions(connection: Connection) -> list[tuple[date, date, int]]:
    """List the half-open ranges of dates that have a table partition, with its bytes."""
    rows = await connection.fetch(statement("list_item_partitions"))
    return [(row["from_date"], row["to_date"], row["bytes"]) for row in rows]


async def digest_days(
    connection: Connection, from_date: date, to_date: date, key: VersionKey
) -> list[Record]:
    """Count and digest the versions of items and journal of each effective date of a range."""
    return await connection.fetch(statement("digest_days"), from_date, to_date, *key.arguments)


async def digest_dates(
    connection: Connection, from_date: date, to_date: date, key: VersionKey
) -> Record:
    """Count and digest the versions of items and journal of a range of effective dates."""
    query = statement("digest_dates")
    row = await connection.fetchrow(query, from_date, to_date, *key.arguments)
    assert row is not None  # noqa: S101 - an aggregate gives one row
    return row


async def find_effect_items(
    connection: Connection,
    tenant: str,
    kind: str,
    effects: Sequence[tuple[UUID | None, str | None, str | None, date | None]],
) -> list[Record]:
    """Return, for each effect (id, or business key, cycle and date), what the ledger has of it."""
    ids, keys, cycles, dates = map(list, zip(*effects, strict=True))
    return await connection.fetch(
        statement("find_effect_items"), tenant, kind, ids, keys, cycles, dates
    )


async def list_flow_rules(connection: Connection) -> list[Record]:
    """List every flow with tenant, kind and grace, read by page."""
    found: list[Record] = []
    after = (0, 0)
    while True:
        page = await connection.fetch(statement("list_flow_rules"), *after, FLOW_RULES_PAGE)
        found += page
        if len(page) < FLOW_RULES_PAGE:
            return found
        after = page[-1]["kind_no"], page[-1]["flow_no"] or 0


async def list_stuck_runs(
    connection: Connection, margin_seconds: float, row_max: int
) -> list[Record]:
    """List open runs whose lease lapsed more than the margin ago, the longest first."""
    return await connection.fetch(statement("list_stuck_runs"), margin_seconds, row_max)


async def list_stuck_claims(
    connection: Connection, margin_seconds: float, row_max: int
) -> list[Record]:
    """List open claims whose deadline passed more than the margin ago, the longest first."""
    return await connection.fetch(statement("list_stuck_claims"), margin_seconds, row_max)


async def list_unfit_runs(connection: Connection, run_max: int) -> list[Record]:
    """List open runs of wrong positions, without an open item, of no worker, or leased too long."""
    return await connection.fetch(statement("list_unfit_runs"), run_max)


async def list_unfit_claims(connection: Connection, claim_max: int) -> list[Record]:
    """List open claims of a wrong size, with nothing left to start, or with too late a deadline."""
    return await connection.fetch(statement("list_unfit_claims"), claim_max)


async def list_unfit_watermarks(connection: Connection, watermark_max: int) -> list[Record]:
    """List watermarks of materialisation that do not fit their version, or have none."""
    return await connection.fetch(statement("list_unfit_watermarks"), watermark_max)


async def list_broken_seals(connection: Connection, seal_max: int) -> list[Record]:
    """List kinds and calendars that were changed in place, and what was sealed and is gone."""
    return await connection.fetch(statement("list_broken_seals"), seal_max)


async def list_unfit_keys(connection: Connection) -> AsyncGenerator[list[Record]]:
    """List held keys and handed out items that do not have each other, by page.

    Each was read twice, both times in one snapshot, and was so both times.
    """
    async for rows in _unfit_pages(connection, statement("list_unfit_keys"), HELD_KEYS_PAGE):
        yield rows
    async for rows in _unfit_pages(connection, statement("list_unheld_items"), HELD_KEYS_PAGE):
        yield rows


async def describe_open_items(connection: Connection, item_nos: Sequence[int]) -> list[Record]:
    """Describe the states of items that have not ended, in input order."""
    return await connection.fetch(statement("describe_open_items"), item_nos)


async def list_inbox_events(
    connection: Connection, types: Sequence[str], after_event_no: int, page_size: int
) -> list[Record]:
    """List recorded domain events of these types by ascending number, by page."""
    return await connection.fetch(statement("list_inbox_events"), types, after_event_no, page_size)


async def list_numbered_events(connection: Connection, event_nos: Sequence[int]) -> list[Record]:
    """List recorded domain events by their numbers."""
    return await connection.fetch(statement("list_numbered_events"), event_nos)


async def list_definition_versions(connection: Connection) -> list[Record]:
    """List every version of every definition with its materialised watermark."""
    return await connection.fetch(statement("list_definition_versions"))


async def count_rejected_writes(connection: Connection) -> dict[tuple[str, str], int]:
    """Count refused writes by verb and reason, read by page."""
    counts: Counter[tuple[str, str]] = Counter()
    after: int | None = 0
    while after is not None:
        page = await connection.fetch(
            statement("count_rejected_writes"), after, REJECTED_WRITES_PAGE
        )
        counts.update({(row["verb"], row["reason"]): row["refused_count"] for row in page})
        after = page[0]["reached"] if page else None
    return dict(sorted(counts.items()))


async def list_missed_ranges(connection: Connection) -> dict[int, list[tuple[datetime, datetime]]]:
    """Return the recorded missed ranges, half-open, by definition, in time order."""
    found: dict[int, list[tuple[datetime, datetime]]] = {}
    after = (0, _EPOCH)
    while True:
        rows = await connection.fetch(statement("list_missed_ranges"), *after, MISSED_RANGES_PAGE)
        for row in rows:
            found.setdefault(row["definition_no"], []).append((row["from_at"], row["until_at"]))
        if len(rows) < MISSED_RANGES_PAGE:
            return found
        after = rows[-1]["definition_no"], rows[-1]["from_at"]


async def list_expedited(connection: Connection) -> dict[int, bool]:
    """Return the items that a person expedited: whether that person triggered it, by number."""
    found: dict[int, bool] = {}
    after = 0
    while True:
        rows = await connection.fetch(statement("list_expedited"), after, EXPEDITED_PAGE)
        found.update((row["item_no"], row["is_triggered"]) for row in rows)
        if len(rows) < EXPEDITED_PAGE:
            return found
        after = rows[-1]["item_no"]


async def list_item_terms(
    connection: Connection, places: Sequence[tuple[date, int]]
) -> dict[int, Record]:
    """Return the terms of items, by number; `places` are effective dates and numbers."""
    rows = await connection.fetch(
        statement("list_item_terms"), [day for day, _ in places], [no for _, no in places]
    )
    return {row["item_no"]: row for row in rows}


async def count_places(
    connection: Connection, places: Sequence[tuple[date, int]]
) -> dict[int, Record]:
    """Return the states that items have, by number; `places` are effective dates and numbers."""
    rows = await connection.fetch(
        statement("count_places"), [day for day, _ in places], [no for _, no in places]
    )
    return {row["item_no"]: row for row in rows}


async def list_lone_overlaps(
    connection: Connection, places: Sequence[tuple[date, int]]
) -> set[int]:
    """Return the numbers of items that ended for overlap while no other of their key was open."""
    rows = await connection.fetch(
        statement("list_lone_overlaps"), [day for day, _ in places], [no for _, no in places]
    )
    return {row["item_no"] for row in rows}


async def list_unfounded_decisions(connection: Connection, row_max: int) -> list[Record]:
    """List expedited items and pauses that no registered person decided so."""
    return await connection.fetch(statement("list_unfounded_decisions"), row_max)


async def list_unowned_endings(
    connection: Connection, from_date: date, to_date: date, row_max: int
) -> list[Record]:
    """List endings of a range of effective dates whose item does not exist."""
    return await connection.fetch(statement("list_unowned_endings"), from_date, to_date, row_max)


async def list_unfit_places(
    connection: Connection, known_dates: Sequence[tuple[date, date]] = ()
) -> AsyncGenerator[list[Record]]:
    """List places of items that no item has, or that are not as their item has them, by page.

    Each was read twice, both times in one snapshot, and was so both times. Where items of
    `known_dates`, half-open ranges of effective dates, wait or are parked is left out.
    """
    known = [Range(*dates) for dates in known_dates]
    query = statement("list_unfit_places")
    async for rows in _unfit_pages(connection, query, PLACES_PAGE, known):
        yield rows


async def _unfit_pages(
    connection: Connection, query: str, page_size: int, *more: object
) -> AsyncGenerator[list[Record]]:
    """Yield what a statement finds twice of an item, a page of its rows at a time."""
    reached: int | None = _BEFORE_ALL
    while reached is not None:
        page = await connection.fetch(query, reached, page_size, None, *more)
        if seen := [row["item_no"] for row in page if row["item_no"] is not None]:
            rows = await connection.fetch(query, reached, page_size, seen, *more)
            yield [row for row in rows if row["item_no"] is not None]
        reached = page[0]["reached"]


async def list_contradicted_endings(
    connection: Connection, from_date: date, to_date: date, item_nos: Sequence[int], row_max: int
) -> list[Record]:
    """List transitions of items of a range of dates that are not as their runs have them."""
    return await connection.fetch(
        statement("list_contradicted_endings"), from_date, to_date, item_nos, row_max
    )


async def last_row_count(connection: Connection, name: str) -> int | None:
    """Return how many rows a source had when a pass over all dates read it last, if one did."""
    return await connection.fetchval(statement("last_row_count"), name)
