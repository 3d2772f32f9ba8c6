"""The engine of the comparison: DuckDB inside this process, which nothing else imports.

What differs is said by the statements of `sql/comparison`. `differences` is plain SQL that other
engines run as well; the others divide its rows into those that are judged one by one, and those
that are only counted.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final, final

import duckdb

from dueledger.ledger.store.statements import SQL_ROOT
from dueledger.reconciler.columns.fixed_width import Column, Columns

MEMORY_MAX: Final = "768MB"
NO_RUN: Final = -1


@cache
def comparison_statement(name: str) -> str:
    """Return the text of a statement of the comparison."""
    return (SQL_ROOT / "comparison" / f"{name}.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class FlowTally:
    """Counts of the items of a flow that are right: completed in time, or open and not due.

    `owed` of them a source names, and of `termed` a source says the terms, too. `hash_total`: the
    sum of the ids' last 8 bytes, unsigned. `next_due`: when the first open one is due, in
    microseconds since 2000. `lateness`: items, and the greatest microseconds, by step of the
    histogram.
    """

    items: int
    owed: int
    termed: int
    open: int
    hash_total: int
    next_due: int | None
    lateness: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Compared:
    """What one window's comparison leaves: the tallies by flow, and the candidates' columns.

    Candidates have high, low, day, item_no (-1: there is no item), is_owed and differences.
    `unproven` are the numbers of items with a transition that is not simply as its run has it;
    `unrecorded` runs that are over, with an item of which no transition says how it ended there, or
    two do. `past` are the counts of the past load.
    """

    tallies: dict[int, FlowTally]
    candidates: Columns
    unproven: list[int]
    unrecorded: list[tuple[int, int]]
    past: Columns


@final
class ComparisonEngine:
    """Compares windows of columns, one at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def put(self, table: str, columns: Columns) -> None:
        """Give a table of the comparison its rows, in place of those that it had."""
        self._connection.register(table, columns)

    def compare(self) -> Compared:
        """Compare the tables that were put."""
        run = self._connection.execute
        run(f"create or replace temp table compared as {comparison_statement('differences')}")
        run(comparison_statement("candidates"))
        lateness: dict[int, dict[int, tuple[int, int]]] = {}
        for flow, step, items, greatest in run(comparison_statement("lateness")).fetchall():
            lateness.setdefault(flow, {})[step] = (items, greatest)
        tallies = {
            flow: FlowTally(
                items, owed, termed, open_, int(hash_total), next_due, lateness.get(flow, {})
            )
            for flow, items, owed, termed, open_, hash_total, next_due in run(
                comparison_statement("tallies")
            ).fetchall()
        }
        found: dict[str, Column] = run(
            "select high, low, day, item_no, is_owed, differences from candidate"
        ).fetchnumpy()
        pairs = run(comparison_statement("unproven")).fetchall()
        unproven = [item_no for item_no, run_no in pairs if run_no == NO_RUN]
        unrecorded = [(run_no, item_no) for item_no, run_no in pairs if run_no != NO_RUN]
        past: dict[str, Column] = run(comparison_statement("past_load")).fetchnumpy()
        return Compared(tallies, found, unproven, unrecorded, past)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's empty database. Opening one takes as long as a small comparison."""
    return duckdb.connect(":memory:", config={"memory_limit": MEMORY_MAX})


@contextmanager
def open_engine() -> Generator[ComparisonEngine]:
    """Open an engine in memory for the length of the block; its tables are gone after it."""
    with _database().cursor() as connection:
        yield ComparisonEngine(connection)
