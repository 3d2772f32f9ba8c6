"""Evidence outside the ledger, and sources that cannot be read."""

import csv
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.reconciler import (
    PassLimits,
    PassScope,
    Reconciler,
    ReconcilerSources,
    SqlEvidence,
    SqlPopulation,
)
from dueledger.reconciler.csv_sources import CsvPopulation
from dueledger.reconciler.memory_record import MemoryRecord
from dueledger.reconciler.reconciliation_pass import ReconciliationPass
from dueledger.reconciler.repair.command_publisher import RepairCommand
from dueledger.reconciler.report.build_report import build_report
from dueledger.reconciler.report_period import ReportPeriod

from .conftest import NOON, mend, resolutions

Make = Callable[..., Reconciler]
Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]
Settle = Callable[..., Awaitable[None]]


class Inbox:
    """A publisher that records its messages: the domain's side of `due-repairs`."""

    def __init__(self) -> None:
        self.commands: list[RepairCommand] = []

    async def publish(self, commands: Sequence[RepairCommand]) -> None:
        self.commands += commands


async def test_g11_an_item_that_the_domain_ended_is_withdrawn(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    """One is owed, one ended and waits, and one ended that was never emitted."""
    drafts = make_drafts(3, due_at=NOON + timedelta(hours=1))
    await owe(drafts)
    await emit_items(frozen, drafts[:2], actor_no=actor_no)
    query = f"select *, business_key <> '{drafts[0].business_key}' as ended from policy_due"  # noqa: S608 - a key of the test
    reconciler = make_reconciler(ReconcilerSources((replace(policies, query=query),)))

    assert (await reconciler.run_pass()).found == {FindingType.WITHDRAWN: 1}
    assert await mend(reconciler) == 1

    assert (await reconciler.run_pass()).found == {}


ALL_TERMS: Final = (
    "select tenant, kind, business_key, cycle, effective_date, due_at, payload::jsonb::text as"
    " payload, due_at + interval '1 h' as start_by, due_at + interval '2 h' as complete_by"
    " from policy_due"
)
"""The texts of its payloads are not those of the ledger's."""
PAYLOADS: Final = (
    "select tenant, kind, business_key, cycle, effective_date, due_at, payload from policy_due"
)
TERMS_EDITS: Final = (
    "payload = '{\"premium\":0}'",
    "start_by = null",
    "start_by = start_by + interval '1 microsecond'",
    "complete_by = null",
    "complete_by = complete_by - interval '1 h'",
)


async def export(domain: asyncpg.Connection, query: str, file: Path) -> None:
    """Write the rows of a population to a file, with instants in ISO 8601."""
    rows = await domain.fetch(query)
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(rows[0].keys())
        writer.writerows(
            [value.isoformat() if isinstance(value, date) else value for value in row.values()]
            for row in rows
        )


@pytest.mark.parametrize("origin", ["sql", "csv"])
async def test_g11_payload_and_sla_of_an_item_are_compared_where_a_population_says_them(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
    kind: str,
    actor_no: int,
    tmp_path: Path,
    *,
    origin: str,
) -> None:
    at = NOON + timedelta(hours=1)
    drafts = make_drafts(8, due_at=at, payload='{"premium":1,"a":[1.5,"ü"]}')
    await owe(drafts)
    sla = {"start_by": at + timedelta(hours=1), "complete_by": at + timedelta(hours=2)}
    await emit_items(frozen, [replace(draft, **sla) for draft in drafts[:7]], actor_no=actor_no)
    population: SqlPopulation | CsvPopulation = replace(policies, query=ALL_TERMS)
    if origin == "csv":
        file = tmp_path / "policies.csv"
        await export(domain, ALL_TERMS, file)
        population = CsvPopulation(
            file, "policies", tenant="acme", kinds=frozenset({kind}), complete=True
        )
    reconciler = make_reconciler(ReconcilerSources((population,)))
    assert (await reconciler.run_pass()).found == {FindingType.MISSING: 1}
    assert await mend(reconciler) == 1  # with the SLA that it says
    assert (await reconciler.run_pass()).found == {}
    (row,) = (await reconciler.report()).accounting
    assert (row.checks.terms, row.untermed) == (True, 0)

    await frozen.execute("set session_replication_role = replica")
    for draft, edit in zip(drafts, TERMS_EDITS, strict=False):
        await frozen.execute(f"update ledger.due_item set {edit} where id = $1", draft.id)  # noqa: S608 - of the test
    await reconciler.run_pass()

    rows = await findings.list_findings(frozen)
    assert {(row["type"], row["item_id"], *row["expected"]) for row in rows} == {
        (FindingType.WRONG_TERMS, draft.id, edit.partition(" ")[0])
        for draft, edit in zip(drafts, TERMS_EDITS, strict=False)
    }


async def test_g11_of_terms_that_a_population_does_not_say_the_report_says_not_checked(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    actor_no: int,
) -> None:
    drafts = make_drafts(4, due_at=NOON + timedelta(hours=1))
    await owe(drafts)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute("update ledger.due_item set complete_by = due_at, start_by = due_at")

    for left_out in ("payload", "start_by", "complete_by"):
        columns = {"payload": "payload", "start_by": "due_at", "complete_by": "due_at"}
        columns.pop(left_out)
        said = ", ".join(f"{value} as {name}" for name, value in columns.items())
        query = f"select tenant, kind, business_key, cycle, effective_date, due_at, {said} from policy_due"  # noqa: E501, S608 - of the test
        reconciler = make_reconciler(ReconcilerSources((replace(policies, query=query),)))
        assert (await reconciler.run_pass()).found == {}
        (row,) = (await reconciler.report()).accounting
        assert (row.checks.terms, row.untermed) == (False, 4)


async def test_g11_a_completed_item_without_evidence_is_escalated_and_closes_when_booked(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(20, due_at=NOON)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    await domain.executemany(
        "insert into booking (item_id, reference) values ($1, $2)",
        [(draft.id, f"B-{n}" if n != 1 else None) for n, draft in enumerate(drafts[:18])],
    )
    inbox = Inbox()
    reconciler = make_reconciler(ReconcilerSources((), (bookings,)), publisher=inbox)

    assert (await reconciler.run_pass()).found == {FindingType.EFFECT_MISSING: 3}
    lacking = {drafts[1].id, drafts[18].id, drafts[19].id}
    assert await mend(reconciler) == 3
    assert {UUID(command.item or "") for command in inbox.commands} == lacking

    assert (await reconciler.run_pass()).found == {FindingType.EFFECT_MISSING: 3}
    assert await mend(reconciler) == 0
    assert len(inbox.commands) == 3

    await domain.executemany(
        "insert into booking (item_id, reference) values ($1, 'made up for')",
        [(item,) for item in lacking],
    )
    assert (await reconciler.run_pass()).found == {}
    assert await resolutions(frozen, FindingType.EFFECT_MISSING) == [Resolution.REPAIRED] * 3


async def test_g11_evidence_may_be_keyed_by_business_key_and_cycle(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    domain: asyncpg.Connection,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(4, due_at=NOON)
    await emit_items(frozen, drafts, actor_no=actor_no)
    await complete_all()
    await domain.executemany(
        "insert into booking values (null, $1, $2, 'B')",
        [(drafts[0].business_key, "2027"), (drafts[1].business_key, "2026")],
    )
    by_key = replace(bookings, query="select business_key, cycle, reference from booking;")

    assert (await make_reconciler(ReconcilerSources((), (by_key,))).run_pass()).found == {
        FindingType.EFFECT_MISSING: 3
    }


async def test_g11_a_source_that_cannot_be_read_is_itself_the_finding_and_never_means_gone(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
) -> None:
    drafts = make_drafts(10, due_at=NOON)
    await owe(drafts)
    await emit_items(frozen, drafts[1:], actor_no=actor_no)
    await complete_all()
    reconciler = make_reconciler(ReconcilerSources((policies,), (bookings,)))
    before = (await reconciler.run_pass()).found
    assert before == {FindingType.MISSING: 1, FindingType.EFFECT_MISSING: 9}

    await domain.execute("drop table policy_due; drop table booking")
    result = await reconciler.run_pass()

    assert result.found == {FindingType.SOURCE_FAILED: 2}
    assert result.closed.total() == 0
    assert await resolutions(frozen, FindingType.MISSING) == [Resolution.OPEN]
    assert await resolutions(frozen, FindingType.EFFECT_MISSING) == [Resolution.OPEN] * 9
    assert [mark.complete_before for mark in result.watermarks] == [None]


@pytest.mark.parametrize("address", ["postgresql://u:hunter2@127.0.0.1:1/nowhere", "hunter2"])
async def test_a_source_that_cannot_be_reached_does_not_show_its_address(
    frozen: Connection, make_reconciler: Make, address: str
) -> None:
    away = SqlPopulation(address, "select 1", "policies")
    reconciler = make_reconciler(ReconcilerSources((away,)))

    assert (await reconciler.run_pass()).found == {FindingType.SOURCE_FAILED: 1}

    shown = repr(away) + (await reconciler.report()).as_json().decode()
    rows: list[Any] = await findings.list_findings(frozen)
    assert "hunter2" not in shown + str([dict(row) for row in rows])


async def test_a_report_has_no_redacted_field_and_a_repair_has_it(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    owe: Owe,
    policies: SqlPopulation,
    kind: str,
    actor_no: int,
) -> None:
    """Also where the difference is in the redacted field alone."""
    await put_kind_policy(frozen, KindPolicy("acme", kind, redacted_fields=["/ssn"]))
    missing, other = make_drafts(2, due_at=NOON, payload='{"a":1,"ssn":"SECRET"}')
    await owe([missing, other])
    await emit_items(frozen, [replace(other, payload='{"a":1,"ssn":"SECRET2"}')], actor_no=actor_no)
    reconciler = make_reconciler(ReconcilerSources((replace(policies, query=PAYLOADS),)))
    read_only = ReconciliationPass(
        reconciler.pool,
        reconciler.sources,
        record=(record := MemoryRecord()),
        scope=PassScope(),
        limits=PassLimits(stuck_seconds=0),
    )
    result = await read_only.run()
    assert result.found == {FindingType.MISSING: 1, FindingType.WRONG_TERMS: 1}
    period = ReportPeriod.of(result.as_of, None, None)
    async with reconciler.pool.acquire() as connection:
        unrecorded = await build_report(connection, record, result, period)
    await reconciler.run_pass()
    for report in (unrecorded, await reconciler.report()):
        [wrong] = [each for each in report.findings if each.type == FindingType.WRONG_TERMS]
        hidden = {"payload": '{"a":1,"ssn":"[redacted]"}'}
        assert (wrong.expected, wrong.actual) == (hidden, hidden)
        assert "SECRET" not in report.as_json().decode()
    assert await mend(reconciler) == 1
    emitted = await frozen.fetchval(
        "select payload::text from ledger.due_item where id = $1", missing.id
    )
    assert emitted == missing.payload
