"""The ledger's items and journal of a window as columns."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from dueledger.ledger.states import TERMINAL_EVENTS
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.columns.fixed_width import (
    Column,
    Columns,
    RowLayout,
    array_elements,
    repeated,
)
from dueledger.reconciler.columns.terms import all_mixed, payload_digest, payload_of_terms
from dueledger.reconciler.compared_items import NOT_SAID
from dueledger.reconciler.expect.item_terms import instant_at, postgres_microseconds
from dueledger.reconciler.read.day_digests import NO_ROWS, DayRows, digests_by_day
from dueledger.reconciler.read_ahead import run_beside
from dueledger.reconciler.windows import DateRange

_ITEM: Final = RowLayout(
    day="date",
    item_no="bigint",
    id="uuid",
    flow="integer",
    due="instant",
    start_by="instant",
    complete_by="instant",
    emitted="instant",
    definition="bigint",
    event="bigint",
    key="bigint",
    smear="double",
    version="bigint",
    is_named="bool",
    terms="text",
)
_NONE: Final = np.empty(0, dtype=np.int64)
_ENDING_EVENTS: Final = sorted(TERMINAL_EVENTS)
_JOURNAL: Final = RowLayout(
    day="date",
    item_no="bigint",
    event="smallint",
    attempt="smallint",
    run="bigint",
    actor="bigint",
    ended_at="instant",
    version="bigint",
)
_NEVER: Final = 2**63 - 1
_BEFORE_RUNS: Final = timedelta(days=1)
_YEARS_MICROSECONDS: Final = 100 * 366 * 86_400 * 10**6


class WindowColumns(NamedTuple):
    """Items, endings, journal and what runs held, and the digests of their days."""

    items: Columns
    endings: Columns
    journal: Columns
    held: Columns
    day_rows: dict[int, DayRows]


async def read_window(
    connection: Connection,
    window: DateRange,
    *,
    key: reconciled_rows.VersionKey,
    says_payloads: bool,
) -> WindowColumns:
    """Read items, journal and runs of a window, each in a snapshot of its own.

    An item that ends in between seems to have no state: it is read again. `says_payloads`: a source
    says payloads alone, so they are digested alone, too.
    """
    dates = (window.from_date, window.to_date)
    payloads: list[int] = []

    def digest(terms: bytes) -> int:
        payloads.append(payload_digest(payload_of_terms(terms)))
        return hash(terms)

    rows, transitions = _ITEM.reader(digest if says_payloads else hash), _JOURNAL.reader(hash)
    await reconciled_rows.copy_item_columns(connection, *dates, key, rows.put)
    await reconciled_rows.copy_journal_columns(connection, *dates, key, transitions.put)
    (items, hashes), (journal, _) = rows.finish(), transitions.finish()
    runs = await _list_runs(connection, journal)
    return await run_beside(partial(_columns_of, items, hashes, payloads, journal, runs))


async def _list_runs(connection: Connection, journal: Columns) -> list[Record]:
    """List the runs that the journal names."""
    has_run = journal["run"] >= 0
    if not has_run.any():
        return []
    ended = np.clip(journal["ended_at"][has_run], -_YEARS_MICROSECONDS, _YEARS_MICROSECONDS)
    first, last = instant_at(int(ended.min())), instant_at(int(ended.max()))
    run_nos = np.unique(journal["run"][has_run]).tolist()
    return await reconciled_rows.list_run_items(connection, run_nos, first - _BEFORE_RUNS, last)


def _bits(text: str) -> Column:
    return (np.frombuffer(text.encode(), dtype=np.uint8) - ord("0")).astype(np.int64)


def held_columns(runs: Sequence[Record]) -> Columns:
    """Return what runs held: a row for each item, none of a run whose items cannot be read."""
    rows: list[tuple[int, int, int, int]] = []
    items, attempts, ended = [_NONE], [_NONE], [_NONE]
    for run in runs:
        numbers = array_elements(run["item_nos"], "bigint")
        counted = array_elements(run["attempts"], "smallint")
        if len(numbers) == len(counted) == len(run["ended_bits"] or numbers) and len(numbers):
            items.append(numbers)
            attempts.append(counted)
            closed, bits = run["closed_at"], run["ended_bits"]
            ended.append(np.ones(len(numbers), dtype=np.int64) if bits is None else _bits(bits))
            until = _NEVER if closed is None else postgres_microseconds(closed)
            started = postgres_microseconds(run["started_at"])
            rows.append((run["run_no"], run["worker_no"], started, until))
    sizes = [len(each) for each in items[1:]]
    shared = np.array(rows, dtype=np.int64).reshape(-1, 4).repeat(sizes, axis=0)
    names = ("run", "worker", "started", "closed")
    return {
        **{name: np.ascontiguousarray(shared[:, place]) for place, name in enumerate(names)},
        "item_no": np.concatenate(items),
        "attempt": np.concatenate(attempts),
        "is_ended": np.concatenate(ended),
    }


def _columns_of(
    items: Columns,
    hashes: Sequence[int],
    payloads: Sequence[int],
    journal: Columns,
    runs: Sequence[Record],
) -> WindowColumns:
    digests = np.array(hashes, dtype=np.int64)
    items["terms"] = all_mixed(digests, items["start_by"], items["complete_by"], items.pop("smear"))
    items["payload"] = np.array(payloads or np.full(len(hashes), NOT_SAID), dtype=np.int64)
    days = [digests_by_day(each["day"], each.pop("version")) for each in (items, journal)]
    day_rows = {
        day: DayRows(*(each.get(day, NO_ROWS) for each in days)) for day in set().union(*days)
    }
    journal["is_repeated"] = repeated(journal["item_no"])
    is_ending = np.isin(journal["event"], _ENDING_EVENTS)
    endings = {name: column[is_ending] for name, column in journal.items()}
    return WindowColumns(items, endings, journal, held_columns(runs), day_rows)
