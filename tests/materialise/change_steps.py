"""Random changes of schedules on one ledger: define, trigger, pause, work, kill, and so on."""

import asyncio
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
import tzdata

from dueledger.definitions.diff import ChangeKind, OccurrenceChange
from dueledger.definitions.named_calendars import add_ledger_calendars
from dueledger.definitions.put_in_force import preview_change
from dueledger.definitions.trigger import trigger_definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import NotFound
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.materialise.tz_change import apply_tz_change, preview_tz_change
from dueledger.ledger.schedule import zones
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.calendars import put_calendar
from dueledger.ledger.store.claimed_rows import ClaimedRow
from dueledger.ledger.store.flows import FlowScope, pause_flows, resume_flows
from tests.forks import ForkedProcess

from .change_model import HOUR, OFFSETS, Terms, VersionTerms, calendar_document
from .conftest import NEWER, NOON, SetSchedule, SetTime, claim_due, end, start, tick_until_idle

MINUTE: Final = timedelta(minutes=1)
HISTORIES: Final = 20
STEPS: Final = 8
HORIZON: Final = 18 * HOUR
CALENDARS: Final = ("north", "south")

RunProcess = Callable[..., Awaitable[ForkedProcess]]
Known = tuple[Path | None, int]
"""The tz database in use, and how many versions the calendars have."""


@contextmanager
def tz_database(folder: Path | None) -> Generator[None]:
    """Let this process have the tz database of a folder, newer by its word, in the block."""
    if folder is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones, "files", {"tzdata": folder / "tzdata"}.__getitem__)
        patch.setattr(tzdata, "IANA_VERSION", NEWER)
        zones.load_zone.cache_clear()
        yield
    zones.load_zone.cache_clear()


def write_newer_zones(folder: Path) -> Path:
    """Write a package with the zones of the model, in which New York keeps the time of Halifax."""
    package, copy = Path(tzdata.__file__).parent, folder / "tzdata"
    for name in OFFSETS:
        there = copy / "zoneinfo" / name
        there.parent.mkdir(parents=True, exist_ok=True)
        source = "America/Halifax" if name == "America/New_York" else name
        shutil.copyfile(package / "zoneinfo" / source, there)
    shutil.copyfile(package / "zones", copy / "zones")
    (copy / "__init__.py").write_text(f'IANA_VERSION = "{NEWER}"\n')
    return folder


@dataclass(frozen=True)
class ShownChange:
    """An occurrence that was shown of a version, and what was known then."""

    version: int
    change: OccurrenceChange
    known: Known


@dataclass
class History:
    """What was done with one schedule, and what was said of it."""

    name: str
    kind: str
    versions: list[VersionTerms] = field(default_factory=list[VersionTerms])
    shown: list[ShownChange] = field(default_factory=list[ShownChange])
    triggered: set[UUID] = field(default_factory=set[UUID])
    steps: list[str] = field(default_factory=list[str])


def some_days(choice: random.Random) -> frozenset[date]:
    """Return one or two of the days that a history may reach."""
    return frozenset(date(2027, 3, choice.randint(1, 3)) for _ in range(2))


def some_terms(choice: random.Random, before: list[VersionTerms]) -> Terms:
    """Return terms that often have nominal times of the version before."""
    last = before[-1].terms if before else None
    if last is not None and last.every is None and choice.random() < 0.4:
        return replace(last, zone=choice.choice(list(OFFSETS)), ended=False)
    if len(before) > 1 and choice.random() < 0.2:
        return before[-2].terms
    overlap = choice.choice(("allow", "allow", "allow", "buffer_all", "skip"))
    if choice.random() < 0.2:
        return Terms(every=choice.choice((HOUR, 90 * MINUTE, 3 * HOUR)), overlap=overlap)
    hours = tuple(sorted(choice.sample(range(24), choice.randint(1, 12))))
    observed = choice.random()
    return Terms(
        zone=choice.choice(list(OFFSETS)),
        hours=hours,
        minute=choice.choice((0, 5, 30)),
        closed=some_days(choice) if observed < 0.2 else frozenset(),
        calendar=choice.choice(CALENDARS) if observed > 0.7 else None,
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
        self.calendars: dict[str, list[frozenset[date]]] = {name: [] for name in CALENDARS}
        self.handed: set[UUID] = set()
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

    @property
    def known(self) -> Known:
        """What decides, beside the definitions, when something is due."""
        return self.zones, sum(map(len, self.calendars.values()))

    async def run(self) -> None:
        await self.set_time(self.now)
        for name in CALENDARS:
            await self.put_calendar(name)
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
                    (self.materialise, self.work, self.kill, self.wait, self.close_days),
                    weights=(8, 8, 2, 6, 1),
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
            definition = parse_definition(document, calendars=None)
            (observing,) = await add_ledger_calendars(self.connection, [definition])
            preview = await preview_change(self.connection, observing, since)
            await self.set_schedule(
                history.name, effective_from=since, kind=history.kind, **terms.document()
            )
        history.versions.append(VersionTerms(since, terms))
        number = len(history.versions)
        history.shown += [
            ShownChange(number, change, self.known)
            for change in preview.diff.upcoming
            if change.kind is not ChangeKind.REMOVED
        ]
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

    async def close_days(self) -> None:
        """Put a newer version of a calendar."""
        await self.put_calendar(self.choice.choice(CALENDARS))

    async def put_calendar(self, name: str) -> None:
        closed = some_days(self.choice)
        await put_calendar(
            self.connection,
            calendar_document(closed) | {"first_day": "2026-01-01", "last_day": "2027-12-31"},
            tenant="acme",
            name=name,
            valid_to=date(2027, 12, 31),
            source=None,
            actor_no=self.actor_no,
        )
        self.calendars[name].append(closed)
        self.note(f"{name} is closed on {', '.join(sorted(map(str, closed)))}")

    async def materialise(self) -> None:
        """Let several materialisers do a pass at the same time."""
        self.note("materialise")
        with tz_database(self.zones):
            await asyncio.gather(*(each.tick() for each in self.materialisers))

    async def kill(self) -> None:
        """Let a materialiser die in the middle of a pass."""
        point = self.choice.choice(("materialise.emitted", "materialise.superseded"))
        process = await self.run_process(crash_at=point, tzdata_folder=self.zones)
        assert await process.wait() == -signal.SIGKILL
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

    async def ids_of(self, rows: list[ClaimedRow]) -> list[UUID]:
        numbers = [row.item_no for row in rows]
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
