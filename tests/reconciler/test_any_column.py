"""An edit of any column of any journal table is found, or the column is without meaning by name."""

import random
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection, PlanProfile, clock, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.stack import Endpoints
from tests.conftest import open_database_pool
from tests.databases import DatabasePool, named_database
from tests.logins import with_login

from .damage.clean_ledger import connected
from .damage.column_editor import COLUMNS, Edited, Editor
from .damage.columns_without_meaning import (
    IN_SOME_ROWS,
    WITHOUT_MEANING,
    is_removed_without_meaning,
    is_without_meaning,
)
from .damage.documents import ACME, NOW
from .damage.small_ledger import KIND, build_small_ledger

pytestmark = pytest.mark.long

TABLES: Final = (
    "actor",
    "calendar",
    "claim",
    "definition",
    "due_item",
    "event",
    "event_key",
    "event_other_key",
    "expedited",
    "flow",
    "held_key",
    "kind",
    "materialised",
    "missed_range",
    "pause",
    "pending",
    "retired_key",
    "review",
    "run",
    "transition",
    "triggered",
    "withdrawal",
)
FOUND_AS: Final = {
    "kind.grace_seconds": {FindingType.TAMPERED},
    "materialised.definition_no": {FindingType.TAMPERED},
    "materialised.ends_at": {FindingType.TAMPERED},
    "run.lease_until": {FindingType.STUCK},
    "run.worker_no": {FindingType.STUCK, FindingType.OUTCOME_CONFLICT},
    "transition.attempt": {FindingType.OUTCOME_CONFLICT},
}
"""Under which codes edits of some columns are found; those of items have theirs in test_terms."""
ROWS_TRIED: Final = 3
ROWS_REMOVED: Final = 8
SAMPLE: Final = frozenset(
    {
        "calendar.document",
        "claim.deadline",
        "kind.grace_seconds",
        "review.attempt",
        "run.worker_no",
        "transition.attempt",
        "triggered.cycle",
    }
)
"""Columns of which one row is edited in each run."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An edit, and the types of what a pass found of it."""

    edited: Edited
    found: frozenset[FindingType]


@pytest.fixture(scope="module")
async def copies(stack: Endpoints, migrated: str) -> AsyncGenerator[DatabasePool]:
    async def prepare(connection: Connection) -> None:
        name = await connection.fetchval("select current_database()")
        await build_small_ledger(connection, named_database(stack.dsn, name))

    async with open_database_pool(stack, prepare, migrated=migrated) as pool:
        yield pool


@asynccontextmanager
async def _opened(copies: DatabasePool) -> AsyncGenerator[tuple[Connection, Reconciler]]:
    """Open a reconciler on a copy of the small ledger, in which it finds nothing."""
    async with copies.lease(damaged=True) as dsn, connected(dsn) as connection:
        await clock.set_clock(connection, NOW, 0, database=True)
        number = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
        policies = SqlPopulation(dsn, "select * from policy_due", "policies", complete=True)
        bookings = SqlEvidence(
            dsn, "select item_id, reference from booking", ACME, KIND, "bookings", complete=True
        )
        async with open_pool(
            with_login(dsn, "reconciler"), application_name="test", profile=PlanProfile.ANALYTIC
        ) as pool:
            reconciler = Reconciler(
                pool, ReconcilerSources((policies,), (bookings,)), number, limits=PassLimits()
            )
            assert (await reconciler.run_pass()).found == {}
            await connection.execute("set session_replication_role = replica")
            yield connection, reconciler


async def _judged(
    copies: DatabasePool, seed: str, sample: Collection[str] | None = None
) -> dict[str, list[Judged]]:
    """Edit columns, one after another; return what was found of each edit."""
    judged: dict[str, list[Judged]] = {}
    async with _opened(copies) as (connection, reconciler):
        for column in await connection.fetch(COLUMNS, TABLES):
            name = column["name"]
            if sample is not None and name not in sample:
                continue
            is_short = sample is not None or name in WITHOUT_MEANING
            editor = Editor(connection, seed, 1 if is_short else ROWS_TRIED)
            of_column = judged.setdefault(name, [])
            async with aclosing(editor.edits(column)) as edits:
                async for edited in edits:
                    found = (await reconciler.run_pass()).found
                    of_column.append(Judged(edited, frozenset(found)))
        assert (await reconciler.run_pass()).found == {}
    return judged


def _check(judged: Mapping[str, Sequence[Judged]], seed: str) -> None:
    """Check that each edit was found, under its code, or is listed with a reason."""
    assert {column for column, edits in judged.items() if not edits} == set(), "never edited"
    silent = [
        f"{column}: {each.edited.value!r} in {each.edited.was}"
        for column, edits in judged.items()
        for each in edits
        if not each.found and not is_without_meaning(column, each.edited)
    ]
    assert silent == [], f"not found, and not listed with a reason (seed {seed})"
    wrong = {
        column: each.found
        for column, edits in judged.items()
        for each in edits
        if each.found and not each.found & FOUND_AS.get(column, each.found)
    }
    assert wrong == {}, f"found under another code (seed {seed})"


async def test_g11_each_edit_of_some_columns_is_found_or_without_meaning(
    copies: DatabasePool,
) -> None:
    judged = await _judged(copies, "sample", SAMPLE)
    _check(judged, "sample")
    assert judged.keys() == SAMPLE


@pytest.mark.full
async def test_g11_each_edit_of_any_column_is_found_or_without_meaning(
    copies: DatabasePool,
) -> None:
    seed = f"{random.getrandbits(32)}"  # of the run's seed, which is printed
    judged = await _judged(copies, seed)
    _check(judged, seed)
    listed = WITHOUT_MEANING.keys() | IN_SOME_ROWS.keys() | FOUND_AS.keys()
    assert listed - judged.keys() == set(), "no such column"
    found = {column for column, edits in judged.items() if all(each.found for each in edits)}
    assert found & WITHOUT_MEANING.keys() == set(), "listed, and each edit was found"


@pytest.mark.full
async def test_g11_each_row_that_is_removed_is_found_or_without_meaning(
    copies: DatabasePool,
) -> None:
    seed = f"{random.getrandbits(32)}"  # of the run's seed, which is printed
    silent: list[str] = []
    async with _opened(copies) as (connection, reconciler):
        editor = Editor(connection, seed, ROWS_REMOVED)
        for table in TABLES:
            async with aclosing(editor.removals(table)) as removals:
                async for removed in removals:
                    found = (await reconciler.run_pass()).found
                    if not found and not is_removed_without_meaning(removed):
                        silent.append(f"{table}: {removed.was}")
        assert (await reconciler.run_pass()).found == {}
    assert silent == [], f"not found, and not listed with a reason (seed {seed})"


async def test_g11_events_moved_to_where_they_owe_or_withdraw_nothing_are_found(
    copies: DatabasePool,
) -> None:
    """Before their rule was in force, and before what they cancel."""
    move = "update ledger.event set {0} = {0} - $1 * interval '1 day' where type = $2"
    async with _opened(copies) as (connection, reconciler):
        for moved, days, of, finds in (
            ("received_at", 60, "PolicyActivated", FindingType.UNEXPECTED),
            ("occurred_at", 1, "PolicyCancelled", FindingType.UNEXCUSED),
        ):
            await connection.execute(move.format(moved), days, of)
            assert finds in (await reconciler.run_pass()).found
            await connection.execute(move.format(moved), -days, of)
