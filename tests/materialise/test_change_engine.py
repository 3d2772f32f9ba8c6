"""Random changes of schedules: each occurrence owed is one row, or is skipped with its reason.

Twenty histories a run, each of one schedule with versions, calendars and triggers of its own, on
one ledger with several materialisers, of which some are killed. `DUELEDGER_CHANGE_SEED` repeats a
run.
"""

import os
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from dueledger.definitions import diff
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.materialise import MaterialiserSettings
from dueledger.ledger.rules.schedule_drafts import split_issue
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool, Record, findings
from dueledger.ledger.store.items import read_accounting
from dueledger.reconciler import Reconciler
from tests.examples import examples

from .change_model import NEWER_OFFSETS, OFFSETS, closes, owed
from .change_steps import ChangeEngine, History, RunProcess, tz_database, write_newer_zones
from .conftest import SetSchedule, SetTime

SEED_VARIABLE: Final = "DUELEDGER_CHANGE_SEED"
RUN: Final = [1_024]
ALL: Final = range(1_025, 1_025 + examples(0, full=250))

ITEMS: Final = """
select i.id, i.cycle, i.due_at as at, i.zone, i.tzdata, d.name, d.version, t.event,
  t.detail ->> 'reason' as reason, p.item_no is not null as waits
from ledger.due_item i
join ledger.definition d using (definition_no)
left join ledger.pending p using (item_no)
left join ledger.transition t on t.item_no = i.item_no and t.event in (5, 11, 12, 13, 14)
order by d.name, i.item_no
"""
WRONG: Final = frozenset(
    {
        FindingType.MISSING,
        FindingType.UNEXPECTED,
        FindingType.DUPLICATE,
        FindingType.DEFINITION_FAILED,
        FindingType.UNBALANCED,
        FindingType.STUCK,
        FindingType.HELD_KEY,
        FindingType.WRONG_DATE,
        FindingType.WRONG_TERMS,
        FindingType.PREMATURE,
        FindingType.UNEXCUSED,
        FindingType.WITHDRAWN,
    }
)


@pytest.fixture(scope="session")
def newer_zones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_newer_zones(tmp_path_factory.mktemp("newer"))


def check(history: History, rows: list[Record], engine: ChangeEngine, until: datetime) -> None:
    """Compare the items of one schedule with what its versions owe."""
    context = "\n".join(history.steps)
    databases = [OFFSETS] if engine.zones is None else [OFFSETS, NEWER_OFFSETS]
    must, may = owed(history.versions, until, databases, engine.calendars)
    assert history.triggered == {row["id"] for row in rows if row["cycle"].startswith("manual-")}
    items: set[tuple[str, datetime]] = set()
    closed: set[str] = set()
    for row in rows:
        if row["event"] == TransitionEvent.SUPERSEDED or row["id"] in history.triggered:
            continue
        cycle, at = split_issue(row["cycle"])[0], row["at"]
        if row["reason"] == "calendar":  # it keeps its instant, and later terms may differ
            days = [closes(each.terms, engine.calendars, cycle) for each in history.versions]
            assert any(True in each for each in days), f"{cycle} is skipped\n{context}"
            closed.add(cycle)
            continue
        was_skipped = row["event"] == TransitionEvent.SKIPPED
        if was_skipped:  # it has ended, whatever later versions owe
            version: int = row["version"]
            terms = history.versions[version - 1].terms
            excused = row["reason"] == terms.overlap_reason and at <= engine.now
            assert excused, f"{cycle} at {at} is skipped for {row['reason']}\n{context}"
        assert (cycle, at) not in items, f"{cycle} at {at} is owed twice\n{context}"
        items.add((cycle, at))
        began = was_skipped or row["id"] in engine.handed
        stays = began or (cycle, at) in may or at >= until
        assert stays, f"{cycle} at {at} is not owed\n{context}"
    for each in must:
        found = any((each.cycle, at) in items for at in each.instants)
        is_there = found or (each.may_be_skipped and each.cycle in closed)
        assert is_there, f"{each.cycle} of version {each.version} is lost\n{context}"
    for shown in history.shown:
        change, later = shown.change, [each.since for each in history.versions[shown.version :]]
        at = change.due_at
        if shown.known == engine.known and at is not None and at < min([until, *later]):
            what = f"version {shown.version} showed {change.cycle} at {at}"
            assert (change.cycle, at) in items, f"{what}\n{context}"


def chosen(seed: int) -> int:
    return int(os.environ.get(SEED_VARIABLE) or seed)


@pytest.mark.parametrize("seed", [*RUN, *ALL])
async def test_g1_g2_g13_whatever_changes_each_occurrence_owed_is_one_row_or_has_its_reason(
    seed: int,
    kind: str,
    connection: Connection,
    pool: Pool,
    settings: MaterialiserSettings,
    actor_no: int,
    set_time: SetTime,
    set_schedule: SetSchedule,
    run_process: RunProcess,
    newer_zones: Path,
    reconciler: Reconciler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diff, "SHOWN", diff.COUNTED_MAX)
    print(f"{SEED_VARIABLE}={chosen(seed)}")  # noqa: T201 - shown when the test fails
    engine = ChangeEngine(
        seed=chosen(seed),
        kind=kind,
        connection=connection,
        pool=pool,
        settings=settings,
        actor_no=actor_no,
        set_time=set_time,
        set_schedule=set_schedule,
        run_process=run_process,
        newer_zones=newer_zones,
    )
    await engine.run()
    until = await connection.fetchval(
        "select min(materialised_until) from ledger.materialised where ends_at = 'infinity'"
    )
    rows: defaultdict[str, list[Record]] = defaultdict(list)
    for row in await connection.fetch(ITEMS):
        rows[row["name"]].append(row)
    for history in engine.histories:
        check(history, rows[history.name], engine, until)
    assert not [row for row in await read_accounting(connection) if row.difference]
    with tz_database(engine.zones):
        await reconciler.run_pass()
    found = await findings.list_findings(connection)
    steps = {history.name: history.steps for history in engine.histories}
    for row in found:
        context = "\n".join([row["sentence"], *steps.get(row["business_key"], ())])
        assert row["type"] not in WRONG, context
