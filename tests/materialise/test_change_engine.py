"""Random changes of schedules: each occurrence owed is one row, or is skipped with its reason.

Twenty histories a run, each of one schedule with versions, calendars and triggers of its own, on
one ledger with several materialisers, of which some are killed. `DUELEDGER_CHANGE_SEED` repeats a
run.
"""

import asyncio
import os
import random
import shutil
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
import tzdata

from dueledger.definitions.diff import ChangeKind, OccurrenceChange
from dueledger.definitions.put_in_force import preview_change
from dueledger.definitions.trigger import trigger_definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import NotFound
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.materialise.tz_change import apply_tz_change, preview_tz_change
from dueledger.ledger.rules.schedule_drafts import split_issue
from dueledger.ledger.schedule import zones
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool, Record, findings
from dueledger.ledger.store.flows import FlowScope, pause_flows, resume_flows
from dueledger.ledger.store.items import read_accounting
from dueledger.reconciler import Reconciler
from tests.forks import ForkedProcess

from .change_model import HOUR, NEWER_OFFSETS, OFFSETS, Terms, VersionTerms, owed
from .conftest import (
    NEWER,
    NOON,
    SetSchedule,
    SetTime,
    claim_due,
    end,
    start,
    tick_until_idle,
)

SEED_VARIABLE: Final = "DUELEDGER_CHANGE_SEED"
MINUTE: Final = timedelta(minutes=1)
HISTORIES: Final = 20
STEPS: Final = 8
HORIZON: Final = 18 * HOUR
RUN: Final = [1_024]
ALL: Final = [pytest.param(seed, marks=pytest.mark.full) for seed in range(1_025, 1_275)]

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
    }
)

RunProcess = Callable[..., Awaitable[ForkedProcess]]


@contextmanager
def tz_database(folder: Path | None) -> Generator[None]:
    """Let this process have the tz database of a folder, newer by its word, in the block."""
    if folder is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones, "files", {"tzdata": folder}.__getitem__)
        patch.setattr(tzdata, "IANA_VERSION", NEWER)
        zones.load_zone.cache_clear()
        yield
    zones.load_zone.cache_clear()


@pytest.fixture
def newer_zones(tmp_path: Path) -> Path:
    """The zones of the model, in which New York keeps the time of Halifax."""
    package = Path(tzdata.__file__).parent
    shutil.copyfile(package / "zones", tmp_path / "zones")
    for name in OFFSETS:
        there = tmp_path / "zoneinfo" / name
        there.parent.mkdir(parents=True, exist_ok=True)
        source = "America/Halifax" if name == "America/New_York" else name
        shutil.copyfile(package / "zoneinfo" / source, there)
    return tmp_path


@dataclass
class History:
    """What was done with one schedule, and what was said of it."""

    name: str
    kind: str
    versions: list[VersionTerms] = field(default_factory=list[VersionTerms])
    shown: list[tuple[int, OccurrenceChange]] = field(
        default_factory=list[tuple[int, OccurrenceChange]]
    )
    triggered: set[UUID] = field(default_factory=set[UUID])
    steps: list[str] = field(default_factory=list[str])


def some_terms(choice: random.Random, before: list[VersionTerms]) -> Terms:
    """Return terms that often have nominal times of the version before."""
    last = before[-1].terms if before else None
    if last is not None and last.every is None and choice.random() < 0.4:
        return replace(last, zone=choice.choice(list(OFFSETS)), ended=False)
    if len(before) > 1 and choice.random() < 0.2:
        return before[-2].terms
    overlap = choice.choice(("allow", "allow", "allow", "buffer_all"))
    if choice.random() < 0.2:
        return Terms(every=choice.choice((HOUR, 90 * MINUTE, 3 * HOUR)), overlap=overlap)
    hours = tuple(sorted(choice.sample(range(24), choice.randint(1, 12))))
    closed = frozenset[date]()
    if choice.random() < 0.3:
        closed = frozenset({date(2027, 3, choice.randint(1, 3))})
    return Terms(
        zone=choice.choice(list(OFFSETS)),
        hours=hours,
        minute=choice.choice((0, 5, 30)),
        closed=closed,
        overlap=overlap,
        ended=choice.random() < 0.05,
    )


class ChangeEngine:
    """Changes schedules at random, and remembers what it did."""

    def __init__(
        self,
        *,
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
    ) -> None:
        self.choice = random.Random(seed)  # noqa: S311 - the same changes in every run
        self.connection, self.pool, self.actor_no = connection, pool, actor_no
        self.set_time, self.set_schedule = set_time, set_schedule
        self.run_process = run_process
        self.now = NOON + timedelta(seconds=17)
        self.histories = [History(f"d-{n:02}", f"{kind}x{n:02}") for n in range(HISTORIES)]
        self.handed: set[UUID] = set()
        self.kills = 0
        self._newer_zones = newer_zones
        self.zones: Path | None = None
        changed = {
            "materialise_horizon_seconds": HORIZON.total_seconds(),
            "materialise_items_max": self.choice.choice((5, 1_000)),
        }
        self._settings = settings.model_copy(update=changed)
        self.materialisers = self._open_materialisers()

    def _open_materialisers(self) -> list[Materialiser]:
        return [Materialiser(self.pool, self._settings, actor_no=self.actor_no) for _ in range(2)]

    async def run(self) -> None:
        await self.set_time(self.now)
        for history in self.histories:
            await self.define(history)
        upgrade = self.choice.randrange(2, 2 * STEPS)
        for step in range(STEPS):
            if step == upgrade:
                await self.upgrade()
            for history in self.histories:
                await self.choice.choices(
                    (self.define, self.trigger, self.pause, self.resume, self.rest),
                    weights=(3, 1, 1, 1, 6),
                )[0](history)
            for _ in range(2):
                await self.choice.choices(
                    (self.materialise, self.work, self.kill, self.wait), weights=(4, 4, 1, 3)
                )[0]()
        for history in self.histories:
            await self.resume(history)
        with tz_database(self.zones):
            await tick_until_idle(self.materialisers[0])

    async def define(self, history: History) -> None:
        """Define a version, and remember what was shown of it."""
        terms = some_terms(self.choice, history.versions)
        if history.versions and terms == history.versions[-1].terms:
            return
        since = self.now + self.choice.choice((-90, 0, 0, 0, 10, 100, 400)) * MINUTE
        document = {
            "definition": history.name,
            "tenant": "acme",
            "kind": history.kind,
            "business_key": history.name,
        } | terms.document()
        with tz_database(self.zones):
            preview = await preview_change(self.connection, parse_definition(document), since)
            await self.set_schedule(
                history.name, effective_from=since, kind=history.kind, **terms.document()
            )
        history.versions.append(VersionTerms(since, terms))
        number = len(history.versions)
        history.shown += [(number, change) for change in preview.diff.upcoming]
        history.steps.append(f"{self.now:%d %H:%M} version {number} from {since:%d %H:%M}: {terms}")

    async def trigger(self, history: History) -> None:
        try:
            result = await trigger_definition(
                self.connection,
                "acme",
                history.name,
                cycle=None,
                reason="r",
                actor_no=self.actor_no,
            )
        except NotFound:
            return
        history.triggered.add(result.id)

    async def pause(self, history: History) -> None:
        scope = FlowScope("acme", history.kind)
        await pause_flows(self.connection, scope, reason="r", actor_no=self.actor_no)

    async def resume(self, history: History) -> None:
        await resume_flows(self.connection, FlowScope("acme", history.kind), actor_no=self.actor_no)

    async def rest(self, history: History) -> None:
        """Do nothing."""

    async def materialise(self) -> None:
        """Let several materialisers do a pass at the same time."""
        self.note("materialise")
        with tz_database(self.zones):
            await asyncio.gather(*(each.tick() for each in self.materialisers))

    async def kill(self) -> None:
        """Let a materialiser die in the middle of a pass."""
        if self.zones is not None:
            return
        point = self.choice.choice(("materialise.emitted", "materialise.superseded"))
        process = await self.run_process(crash_at=point)
        self.kills += await process.wait() == -signal.SIGKILL
        self.note(f"killed at {point}")

    async def upgrade(self) -> None:
        """Replace the tz database by a newer one: materialisers first, then pending items."""
        self.note("newer tz database")
        self.zones = self._newer_zones
        with tz_database(self.zones):
            self.materialisers = self._open_materialisers()
            if self.choice.random() < 0.5:
                await self.materialise()
            async with preview_tz_change(self.connection, actor_no=self.actor_no) as preview:
                digest = preview.change.digest
            await self.work()
            await self.materialise()
            await apply_tz_change(self.connection, digest, actor_no=self.actor_no)

    async def work(self) -> None:
        """Claim what is due; complete some of it, let some fail, release some, leave some open."""
        ids: list[UUID] = []
        for serial in (True, False):
            while claimed := await claim_due(self.connection, self.actor_no, serial=serial):
                fence, rows = claimed
                ids += await self.ids_of(rows)
                await self.settle(fence, len(rows))
        self.handed.update(ids)
        self.note(f"work on {len(ids)}")

    async def ids_of(self, rows: list[Record]) -> list[UUID]:
        numbers = [row["item_no"] for row in rows]
        found = await self.connection.fetch(
            "select id from ledger.due_item where item_no = any ($1::bigint[])", numbers
        )
        return [row["id"] for row in found]

    async def settle(self, fence: int, count: int) -> None:
        if self.choice.random() < 0.1:
            return
        events = [TransitionEvent.COMPLETED, TransitionEvent.FAILED, TransitionEvent.RELEASED]
        run_no = await start(self.connection, self.actor_no, fence, count)
        ended = self.choice.choices(events, weights=(8, 1, 1), k=count)
        await end(self.connection, self.actor_no, run_no, ended)

    async def wait(self) -> None:
        self.now += self.choice.randint(1, 240) * MINUTE
        await self.set_time(self.now)
        self.note(f"{self.now:%d %H:%M}")

    def note(self, step: str) -> None:
        for history in self.histories:
            history.steps.append(step)


def check(history: History, rows: list[Record], engine: ChangeEngine, until: datetime) -> None:
    """Compare the items of one schedule with what its versions owe."""
    context = "\n".join(history.steps)
    databases = [OFFSETS] if engine.zones is None else [OFFSETS, NEWER_OFFSETS]
    must, may = owed(history.versions, until, databases)
    assert history.triggered == {row["id"] for row in rows if row["cycle"].startswith("manual-")}
    items: dict[tuple[str, datetime], Record] = {}
    skipped: set[str] = set()
    for row in rows:
        if row["event"] == TransitionEvent.SUPERSEDED or row["id"] in history.triggered:
            continue
        cycle, at = split_issue(row["cycle"])[0], row["at"]
        if (
            row["event"] == TransitionEvent.SKIPPED
        ):  # it keeps its instant, and later terms may differ
            assert row["reason"] == "calendar", context
            skipped.add(cycle)
            continue
        assert (cycle, at) not in items, f"{cycle} at {at} is owed twice\n{context}"
        items[cycle, at] = row
        stays = row["id"] in engine.handed or (cycle, at) in may or at >= until
        assert stays, f"{cycle} at {at} is not owed\n{context}"
    for each in must:
        found = any((each.cycle, at) in items for at in each.instants)
        is_there = found or (each.is_closed and each.cycle in skipped)
        assert is_there, f"{each.cycle} of version {each.version} is lost\n{context}"
    for number, change in history.shown:
        later = [each.since for each in history.versions[number:]]
        at = change.due_at
        is_in_force = at is not None and at < min([until, *later])
        if is_in_force and change.kind is not ChangeKind.REMOVED and engine.zones is None:
            what = f"version {number} showed {change.cycle} at {at}"
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
) -> None:
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
