"""What is edited in a clean ledger is found by item, under its declared code, and nothing else."""

import random
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pytest
from pydantic import SecretStr

from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.store import Connection, PlanProfile, clock, findings, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.reconciler import (
    PassLimits,
    Reconciler,
    ReconcilerSettings,
    ReconcilerSources,
    ReconciliationReport,
    SqlEvidence,
    SqlPopulation,
    reconcile_read_only,
)
from dueledger.reconciler.kafka_check import KafkaCheck
from dueledger.reconciler.report.model import StatementVerdict
from dueledger.stack import Endpoints
from tests.conftest import open_database_pool
from tests.databases import DatabasePool, named_database
from tests.logins import with_login
from tests.reconciler.test_read_only import comparable

from .damage.clean_ledger import BOOKED, CleanLedger, connected
from .damage.damaged_ledger import DamagedLedger, Expected
from .damage.documents import ACME, NOW
from .damage.edit import Edit, Mending
from .damage.edits_in_flight import EDITS_IN_FLIGHT
from .damage.edits_of_items import EDITS_OF_ITEMS
from .damage.edits_of_sources import EDITS_OF_SOURCES
from .damage.edits_of_states import EDITS_OF_STATES, THREE_REMOVED_AND_ADDED

pytestmark = pytest.mark.long

ITEMS_MIN: Final = 50_000
RESOLVED: Final = {
    Mending.REPAIR: {Resolution.REPAIRED},
    Mending.REPAIR_OF_ONE: {Resolution.REPAIRED, Resolution.EXPLAINED},
    Mending.PERSON: {Resolution.EXPLAINED},
}
"""How the findings of an edit are resolved, by who mends it."""
EDITS: Final = (*EDITS_OF_ITEMS, *EDITS_OF_STATES, *EDITS_OF_SOURCES, *EDITS_IN_FLIGHT)
CASES: Final = {edit.name: (edit,) for edit in EDITS} | {
    "three removed and three added": THREE_REMOVED_AND_ADDED
}
MADE_BY_DEFINITIONS: Final = ("Statement", "Rebate", "Sweep", "Renewal", "Valuation")
BOOK: Final = """
create table if not exists public.effect (item_id uuid, run_no bigint);
insert into public.effect
select i.id, t.run_no
from ledger.transition t
join ledger.due_item i on i.item_no = t.item_no and i.effective_date = t.effective_date
where t.event = 5 /* completed */
  and t.run_no not in (select e.run_no from public.effect e)
  and t.item_no not in (select h.item_no from public.in_flight h)
"""
"""What a domain does that books each item of a run, whatever it booked before."""
IN_FLIGHT: Final = """
create table public.in_flight as
select i.id, i.item_no
from ledger.open_item o join ledger.due_item i using (item_no, effective_date);
grant select on public.in_flight to public
"""
BOOK_IN_FLIGHT: Final = "insert into public.effect select id, 0 from public.in_flight"
"""Workers that had items book them, also of rows that are gone."""
REMINDED: Final = "select item_id, reference from booking where reference like 'Reminder-%'"
REPEATED: Final = "select item_id from public.effect group by item_id having count(*) > 1"
LATER: Final = NOW + timedelta(days=40)
"""When all items are due."""
POLICIES: Final = (
    "select tenant, kind, business_key, cycle, effective_date, due_at, payload from policy_due"
)


@dataclass(frozen=True)
class Case:
    """A copy of the clean ledger of its own, and a reconciler on it."""

    dsn: str
    bootstrap_servers: str
    connection: Connection
    reconciler: Reconciler

    async def found(self) -> Expected:
        """Make a pass, and return types and subjects of the findings that are open."""
        await self.reconciler.run_pass()
        rows = await findings.list_findings(self.connection, page_size=10_000)
        return {(row["type"], row["subject"]) for row in rows}

    async def read_only(self) -> ReconciliationReport:
        """Report a pass that records nothing, under an auditor's login."""
        settings = ReconcilerSettings(
            dsn=SecretStr(with_login(self.dsn, "auditor")), bootstrap_servers=self.bootstrap_servers
        )
        return (await reconcile_read_only(settings, self.reconciler.sources)).report

    async def resolutions(self) -> dict[tuple[str, str], str]:
        """Return how each finding was resolved."""
        rows = await findings.list_findings(self.connection, open_only=False, page_size=10_000)
        return {(row["type"], row["subject"]): row["resolution"] for row in rows}

    async def assert_complete(self, verdict: StatementVerdict = StatementVerdict.COMPLETE) -> None:
        """Fail unless the report says so and each kind balances."""
        report = await self.reconciler.report()
        explained = [row for row in report.summary if row.explained]
        assert report.statement.verdict is verdict, (report.statement, explained)
        result = self.reconciler.last
        assert result is not None
        assert {row.difference for row in result.accounting} == {0}

    async def unchecked(self) -> dict[str, set[str]]:
        """Return what the report says was not checked, by kind."""
        report = await self.reconciler.report()
        return {
            row.kind[:6] if row.kind.startswith("Letter") else row.kind: {
                name for name, done in row.checks if not done
            }
            for row in report.accounting
        }


@dataclass(frozen=True)
class CleanCopies:
    """Copies of the clean ledger."""

    pool: DatabasePool
    bootstrap_servers: str
    letters: str

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Case]:
        """Copy it, and open a reconciler on the copy."""
        async with self.pool.lease(damaged=True) as dsn, connected(dsn) as connection:
            await clock.set_clock(connection, NOW, 0, database=True)
            number = await register_actor(connection, "reconciler:test", ActorKind.RECONCILER)
            sources = ReconcilerSources(
                (SqlPopulation(dsn, POLICIES, "policies", complete=True),),
                (
                    SqlEvidence(
                        dsn,
                        "select item_id, reference from booking",
                        ACME,
                        self.letters,
                        "bookings",
                    ),
                    SqlEvidence(dsn, REMINDED, ACME, BOOKED, "reminded", complete=True),
                ),
            )
            async with open_pool(
                with_login(dsn, "reconciler"),
                application_name="test",
                profile=PlanProfile.ANALYTIC,
            ) as pool:
                kafka = KafkaCheck(KafkaSettings(bootstrap_servers=self.bootstrap_servers))
                yield Case(
                    dsn,
                    self.bootstrap_servers,
                    connection,
                    Reconciler(
                        pool,
                        sources,
                        number,
                        limits=PassLimits(),
                        kafka=kafka,
                        record_index=kafka.records,
                    ),
                )


@pytest.fixture(scope="module")
async def copies(stack: Endpoints, migrated: str) -> AsyncGenerator[CleanCopies]:
    letters = f"Letter{secrets.token_hex(4)}"

    async def prepare(connection: Connection) -> None:
        name = await connection.fetchval("select current_database()")
        dsn = named_database(stack.dsn, name)
        await CleanLedger(connection, dsn, stack.bootstrap_servers, letters).build()

    async with open_database_pool(stack, prepare, migrated=migrated) as pool:
        yield CleanCopies(pool, stack.bootstrap_servers, letters)


def _differences(found: Expected, expected: dict[str, Expected]) -> dict[str, Expected]:
    """Return what was not found, by edit, and what was found and should not be."""
    lacking = {name: those - found for name, those in expected.items() if those - found}
    others = found - {each for those in expected.values() for each in those}
    return lacking | ({"nothing was edited so": others} if others else {})


async def _check(case: Case, edits: Sequence[Edit], seed: str) -> None:
    await case.connection.execute(IN_FLIGHT)
    await case.connection.execute(BOOK)
    damaged = DamagedLedger(case.connection, seed)
    await damaged.apply(edits)
    read = await case.read_only()

    found = await case.found()

    assert _differences(found, damaged.expected) == {}
    reconciler = case.reconciler
    assert comparable(read) == comparable(await reconciler.report())
    await reconciler.repair(await reconciler.plan())
    await damaged.undo([edit for edit in edits if edit.mending is Mending.PERSON])
    if await case.found():  # what could not be known while rows were edited is known now
        await reconciler.repair(await reconciler.plan())
    assert await case.found() == set()
    resolutions: defaultdict[str, set[str]] = defaultdict(set)
    for subject, resolution in (await case.resolutions()).items():
        for edit in edits:
            if subject in damaged.expected[edit.name]:
                resolutions[edit.name].add(resolution)
    assert dict(resolutions) == {edit.name: RESOLVED[edit.mending] for edit in edits}
    explained = any(edit.mending is not Mending.REPAIR for edit in edits)
    await case.assert_complete(
        StatementVerdict.COMPLETE_WITH_EXPLAINED if explained else StatementVerdict.COMPLETE
    )
    await _work_the_rest(case)


async def _work_the_rest(case: Case) -> None:
    """Work what waits, as repairs left it: no item has an effect twice."""
    ledger = CleanLedger(case.connection, case.dsn, "", "")
    await case.connection.execute(BOOK_IN_FLIGHT)
    await ledger.finish_in_flight()
    await ledger.work_what_is_due_at(LATER)
    await case.connection.execute(BOOK)
    assert await case.connection.fetch(REPEATED) == []
    waiting = "select count(*) from ledger.pending where available_at <= $1"
    assert await case.connection.fetchval(waiting, LATER) == 0


async def test_g11_edits_of_all_kinds_in_a_clean_ledger_are_found_by_item_and_nothing_else_is(
    copies: CleanCopies,
) -> None:
    async with copies.open() as case:
        items = await case.connection.fetchval("select count(*) from ledger.due_item")
        assert items > ITEMS_MIN
        await _check(case, EDITS, "mixed")
        assert await case.unchecked() == {
            "Letter": {"existence", "date", "terms"},
            "Notice": {"existence", "date", "terms", "evidence", "kafka"},
            "Payment": {"existence", "date", "terms", "evidence", "kafka"},
            "Premium": {"terms", "evidence", "kafka"},
            BOOKED: set(),
        } | {kind: {"evidence"} for kind in MADE_BY_DEFINITIONS}


OPEN_AGAIN_BESIDE: Final = """
with edited as (
  select t.item_no, t.effective_date, o.item_no as beside, t.run_no
  from ledger.transition t
  join ledger.transition o on o.run_no = t.run_no and o.item_no <> t.item_no
  where t.event = 6 /* retryable_failure */
  order by t.item_no, o.item_no limit 1
),
reopened as (
  update ledger.run r
  set ended = set_bit(r.ended, array_position(c.item_no, e.beside) - r.from_position, 0),
    closed_at = null
  from edited e, ledger.claim c
  where r.run_no = e.run_no and c.fence = r.fence and c.claimed_at = r.claimed_at
),
lost as (
  delete from ledger.transition t using edited e
  where t.item_no = e.item_no and t.effective_date = e.effective_date and t.run_no = e.run_no
)
select i.id::text
from edited e
join ledger.due_item i on i.item_no = e.item_no and i.effective_date = e.effective_date
"""


@pytest.mark.full
async def test_g11_an_attempt_removed_is_found_if_another_item_is_open_again_in_its_run(
    copies: CleanCopies,
) -> None:
    """The run has as many transitions as items that it ended."""
    async with copies.open() as case:
        await case.connection.execute("set session_replication_role = replica")
        lost = await case.connection.fetchval(OPEN_AGAIN_BESIDE)
        assert (FindingType.OUTCOME_CONFLICT, lost) in await case.found()


@pytest.mark.full
async def test_g11_a_clean_ledger_has_no_finding(copies: CleanCopies) -> None:
    async with copies.open() as case:
        assert await case.found() == set()
        await case.assert_complete()


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
async def test_g11_edits_of_one_kind_are_found_by_item(copies: CleanCopies, name: str) -> None:
    async with copies.open() as case:
        await _check(case, CASES[name], "alone")


@pytest.mark.full
@pytest.mark.parametrize("number", range(30))
async def test_g11_edits_of_all_kinds_are_found_by_item(copies: CleanCopies, number: int) -> None:
    seed = random.getrandbits(32)  # of the run's seed, which is printed
    async with copies.open() as case:
        await _check(case, EDITS, f"{number} of {seed}")
