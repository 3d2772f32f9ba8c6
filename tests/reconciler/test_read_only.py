"""A pass that writes nothing says the same as one that records what it finds."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
from pydantic import SecretStr

from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, findings
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items
from dueledger.reconciler import (
    ReconcilerSettings,
    ReconcilerSources,
    ReconciliationReport,
    SqlEvidence,
    SqlPopulation,
    reconcile_once,
    reconcile_read_only,
)
from tests.logins import with_login
from tests.reconciler.conftest import NOON

Drafts = Callable[..., list[ItemDraft]]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]
Settle = Callable[..., Awaitable[None]]

OF_THE_PASS: Final = {
    *("reconciliation_no", "started_at", "everything_read_at", "duration_seconds", "sources"),
}
"""Parts of a report that say when and how fast a pass read."""
OF_THE_WITNESS: Final = {"second_opinion", "second_opinion_days"}
"""Parts of a rule for which a pass has time or not: the witness gets a share of its CPU time."""
OF_THE_FILES: Final = {"findings_file", "repairs_file"}
TABLES: Final = """
select c.oid::regclass::text from pg_class c
where c.relnamespace = 'ledger'::regnamespace and c.relkind = 'r'
"""
SEQUENCES: Final = "select sequencename, last_value::text from pg_sequences"
ROWS: Final = "select md5(string_agg(t::text, chr(10) order by t::text)) from {} t"


async def digest_of_all(connection: Connection) -> dict[str, str]:
    """Return a digest of each table, and where each sequence is."""
    tables = [row[0] for row in await connection.fetch(TABLES)]
    digests = {name: await connection.fetchval(ROWS.format(name)) for name in tables}
    return digests | {row[0]: row[1] for row in await connection.fetch(SEQUENCES)}


def comparable(report: ReconciliationReport) -> dict[str, Any]:
    """Return what a report says of the ledger."""
    return report.model_dump(exclude=OF_THE_PASS | OF_THE_FILES) | {
        "sources": [
            source.model_dump(exclude={"duration_seconds", "extracted_at"})
            for source in report.sources
        ],
        "rules": [rule.model_dump(exclude=OF_THE_WITNESS) for rule in report.rules],
    }


async def damage(connection: Connection, drafts: list[ItemDraft]) -> None:
    """Edit items as somebody with write access could."""
    keys = [draft.business_key for draft in drafts]
    edit = connection.execute
    await edit(
        "update ledger.due_item set due_at = due_at - interval '1 hour' where business_key = $1",
        keys[0],
    )
    await edit(
        "update ledger.transition t set at = i.due_at - interval '1 day' from ledger.due_item i"
        " where i.item_no = t.item_no and i.business_key = $1 and t.event = 5",
        keys[1],
    )
    await edit("delete from public.booking where business_key = $1", keys[2])
    await edit("update ledger.due_item set cycle = 'another' where business_key = $1", keys[3])


async def test_g11_a_read_only_pass_under_an_auditor_s_login_says_what_a_writing_one_records(
    frozen: Connection,
    database: str,
    make_drafts: Drafts,
    owe: Owe,
    domain: asyncpg.Connection,
    policies: SqlPopulation,
    bookings: SqlEvidence,
    complete_all: Settle,
    actor_no: int,
    tmp_path: Path,
) -> None:
    done = [
        replace(draft, complete_by=NOON - timedelta(hours=1))
        for draft in make_drafts(8, due_at=NOON - timedelta(hours=2))
    ]
    await emit_items(frozen, done, actor_no=actor_no)
    await complete_all()
    await domain.execute(
        "insert into booking select id, business_key, cycle, 'B' from ledger.due_item"
    )
    lacking = make_drafts(4, due_at=NOON - timedelta(hours=2), prefix="lacking")
    await owe([*done, *lacking])
    sources = ReconcilerSources((policies,), (bookings,))

    def settings(login: str) -> ReconcilerSettings:
        return ReconcilerSettings(
            dsn=SecretStr(with_login(database, login)), reconcile_stuck_seconds=0
        )

    # Earlier passes leave findings: one that a person explained, and two that are repaired.
    await reconcile_once(settings("reconciler"), sources)
    opened = await findings.list_findings(frozen, type_=FindingType.MISSING)
    ada = await register_actor(frozen, "person:ada", ActorKind.PERSON)
    await findings.resolve_findings(
        frozen, [opened[0]["id"]], resolution=Resolution.EXPLAINED, reason="sold", actor_no=ada
    )
    await emit_items(
        frozen,
        [draft for draft in lacking if draft.id in {opened[1]["item_id"], opened[2]["item_id"]}],
        actor_no=actor_no,
    )
    await reconcile_once(settings("reconciler"), sources)
    # One of those is missing again, the last one is not, and others are damaged.
    again = opened[1]["item_id"]
    await frozen.execute(
        "with item as (delete from ledger.due_item where id = $1 returning item_no)"
        " delete from ledger.pending p using item i where p.item_no = i.item_no",
        again,
    )
    last = [draft for draft in lacking if draft.id == opened[3]["item_id"]]
    await emit_items(frozen, last, actor_no=actor_no)
    await damage(frozen, done)
    before = await digest_of_all(frozen)

    read = await reconcile_read_only(
        settings("auditor"), sources, dry_run=True, report_directory=tmp_path
    )

    assert await digest_of_all(frozen) == before
    written = await reconcile_once(settings("reconciler"), sources, mode="dry_run")
    assert await digest_of_all(frozen) != before
    assert read.report.reconciliation_no is None
    assert read.files is not None
    assert read.files.html.name.startswith("reconciliation-read-only-2")
    assert "<h1>Reconciliation, read-only</h1>" in read.files.html.read_text()
    assert comparable(read.report) == comparable(written.report)
    assert (read.findings_open, read.findings_found) == (
        written.findings_open,
        written.findings_found,
    )
    assert read.planned == written.planned
    states = {(row.type, row.resolution, row.opened_count) for row in read.report.findings}
    assert states >= {
        (FindingType.MISSING, Resolution.OPEN, 2),
        (FindingType.MISSING, Resolution.EXPLAINED, 1),
        (FindingType.WRONG_DATE, Resolution.OPEN, 1),
        (FindingType.PREMATURE, Resolution.OPEN, 1),
        (FindingType.EFFECT_MISSING, Resolution.OPEN, 1),
        (FindingType.TAMPERED, Resolution.OPEN, 1),
        (FindingType.LATE, Resolution.EXPLAINED, 1),
    }
