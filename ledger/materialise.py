"""Schedules become what is owed: each definition's next stretch of time, expanded and emitted.

Items and watermark move in one transaction, so a process that dies leaves neither a gap nor half
a window; what is expanded twice is the same rows. Any number of processes may run: a definition is
held by one at a time, and the others pass it by.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import Field

from ledger.calendar_change import known_ends
from ledger.catch_up import Lapse, count_lapsed, judge_missed
from ledger.definition_model import Definition
from ledger.definitions import parse_definition
from ledger.drafts import ItemDraft
from ledger.errors import BeyondCalendar, DueledgerError, InvalidItem
from ledger.log import LogEvent, get_logger
from ledger.schedule import AfterCompletion, Relative, Window
from ledger.schedule_calendars import Observed, Reading, ScheduleCalendars
from ledger.scheduled import MISSED, Scheduled, draft_first, draft_window, owed_window
from ledger.service import Stop, crash_point, run_service, run_to_stop
from ledger.settings import Settings
from ledger.store import Connection, PlanProfile, Pool, open_pool
from ledger.store.actors import ActorKind, incarnation, register_actor
from ledger.store.calendars import CalendarUse, record_calendar_uses
from ledger.store.definitions import (
    Materialisable,
    advance_materialised,
    begin_chains,
    list_chainless,
    mark_definition_failed,
    record_lapses,
    take_materialisable,
)
from ledger.store.items import emit_items, skip_items

_UNREADABLE: Final = (DueledgerError, ValueError, ArithmeticError, LookupError)
"""What a stored document can make the pure modules raise; it is that definition's own failure."""

_READ_DEFINITIONS_MAX: Final = 10_000
_STRETCH_MIN: Final = timedelta(seconds=1)
_EMIT_ITEMS: Final = 5_000


class MaterialiserSettings(Settings):
    """How far ahead schedules are materialised, and how much at once."""

    materialise_horizon_seconds: float = Field(
        default=86_400, gt=0, le=400 * 86_400, description="how far ahead items exist, at least"
    )
    materialise_stride_seconds: float = Field(
        default=3_600, gt=0, le=86_400, description="how much is added to a definition at a time"
    )
    materialise_retry_seconds: float = Field(
        default=60, ge=0, le=86_400, description="how long a definition that failed is left alone"
    )
    materialise_idle_seconds: float = Field(
        default=1.0, gt=0, le=60, description="pause after a pass that found nothing"
    )
    materialise_definitions_max: int = Field(
        default=500, ge=1, le=10_000, description="definitions of one pass, at most"
    )
    materialise_items_max: int = Field(
        default=2_000, ge=1, le=100_000, description="occurrences of one definition in one pass"
    )
    materialise_pass_items_max: int = Field(
        default=20_000, ge=1, le=200_000, description="occurrences of one pass, about"
    )


@dataclass(frozen=True, slots=True)
class Chain:
    """A fixed delay: the item that begins it where nothing leads it on."""

    first: ItemDraft
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one definition owes from its watermark up to `until`."""

    definition_no: int
    until: datetime
    owed: Scheduled
    chain: "Chain | None" = None
    lapse: Lapse | None = None
    use: CalendarUse | None = None

    @property
    def weight(self) -> int:
        """What it takes of a pass's room: counting costs a tenth of emitting, or less."""
        counted = 0 if self.lapse is None else self.lapse.occurrences // 10
        return len(self.owed.drafts) + len(self.owed.skipped) + counted


@dataclass(frozen=True, slots=True)
class Failure:
    """A definition that cannot be expanded or emitted, and why."""

    row: Materialisable
    reason: str


class Materialiser:
    """Expands schedules ahead of time, a bounded pass at a call."""

    def __init__(self, pool: Pool, settings: MaterialiserSettings, *, actor_no: int) -> None:
        self._pool = pool
        self._settings = settings
        self._actor_no = actor_no
        self._definitions: dict[int, Definition] = {}
        self._calendars = ScheduleCalendars()
        self._log = get_logger("materialiser")

    async def tick(self) -> Mapping[str, int]:
        """Materialise what lies behind the horizon; return counts. A failure stops its own alone.

        Idempotent: an occurrence that exists is not emitted again, a watermark never moves back.
        """
        settings = self._settings
        async with self._pool.acquire() as connection, connection.transaction():
            rows = await take_materialisable(
                connection,
                settings.materialise_horizon_seconds,
                settings.materialise_definitions_max,
                stride_seconds=settings.materialise_stride_seconds,
                retry_seconds=settings.materialise_retry_seconds,
            )
            if not rows:
                return {"definitions": 0}
            calendars = await self._calendars.read(connection, rows)
            stretches, failures = self._expand(rows, calendars)
            emitted, skipped, refused = await self._emit_all(connection, stretches, rows)
            failures += refused
            for failure in failures:
                await mark_definition_failed(connection, failure.row.definition_no, failure.reason)
        self._report(failures)
        counts = {
            "definitions": len(stretches) - len(refused),
            "emitted": emitted,
            "skipped": skipped,
            "lapsed": sum(each.lapse.occurrences for each in stretches if each.lapse is not None),
            "failed": len(failures),
        }
        self._log.info(LogEvent.WINDOW_MATERIALISED, **counts)
        return counts

    def _expand(
        self, rows: Sequence[Materialisable], calendars: Reading
    ) -> tuple[list[Stretch], list[Failure]]:
        """Expand until the pass is full; what is left over is taken by the next one."""
        stretches: list[Stretch] = []
        failures: list[Failure] = []
        room = self._settings.materialise_pass_items_max
        for row in rows:
            if room <= 0:
                break
            try:
                observed = calendars.observe(self._read(row), row)
                stretch = expand_observed(
                    observed, row, items_max=self._settings.materialise_items_max
                )
            except _UNREADABLE as error:
                failures.append(Failure(row, f"{type(error).__name__}: {error}"))
                continue
            stretches.append(stretch)
            room -= stretch.weight
        return stretches, failures

    def _read(self, row: Materialisable) -> Definition:
        """Read a version once: it never changes."""
        known = self._definitions.get(row.definition_no)
        if known is None:
            source = f"{row.tenant}/{row.name}"
            known = parse_definition(row.document, source=source, calendars=None)
            if len(self._definitions) >= _READ_DEFINITIONS_MAX:
                self._definitions.clear()
            self._definitions[row.definition_no] = known
        return known

    async def _emit_all(
        self, connection: Connection, stretches: Sequence[Stretch], rows: Sequence[Materialisable]
    ) -> tuple[int, int, list[Failure]]:
        """Emit all together; where the database refuses, one by one, so that only one fails."""
        try:
            async with connection.transaction():
                return *await self._emit(connection, stretches), []
        except InvalidItem:
            pass
        row_of = {row.definition_no: row for row in rows}
        emitted = skipped = 0
        refused: list[Failure] = []
        for stretch in stretches:
            try:
                async with connection.transaction():
                    counts = await self._emit(connection, [stretch])
            except InvalidItem as error:
                refused.append(Failure(row_of[stretch.definition_no], str(error)))
                continue
            emitted, skipped = emitted + counts[0], skipped + counts[1]
        return emitted, skipped, refused

    async def _emit(self, connection: Connection, stretches: Sequence[Stretch]) -> tuple[int, int]:
        """Emit stretches and move their watermarks; return how many items and skips are new."""
        owed = [
            (stretch.definition_no, draft) for stretch in stretches for draft in stretch.owed.drafts
        ]
        emitted = 0
        for first in range(0, len(owed), _EMIT_ITEMS):
            definition_nos, drafts = zip(*owed[first : first + _EMIT_ITEMS], strict=True)
            answers = await emit_items(
                connection, drafts, actor_no=self._actor_no, definition_nos=definition_nos
            )
            emitted += sum(answer.created for answer in answers)
        lapsed = [
            (stretch.definition_no, skip) for stretch in stretches for skip in stretch.owed.skipped
        ]
        skipped = await skip_items(
            connection,
            [skip.draft for _, skip in lapsed],
            [skip.reason for _, skip in lapsed],
            actor_no=self._actor_no,
            definition_nos=[definition_no for definition_no, _ in lapsed],
        )
        emitted += await self._begin_chains(connection, stretches)
        await self._record_lapses(connection, stretches)
        if uses := [stretch.use for stretch in stretches if stretch.use is not None]:
            await record_calendar_uses(connection, uses, actor_no=self._actor_no)
        crash_point("materialise.emitted")
        await advance_materialised(
            connection,
            [stretch.definition_no for stretch in stretches],
            [stretch.until for stretch in stretches],
        )
        return emitted, sum(answer.created for answer in skipped)

    async def _record_lapses(self, connection: Connection, stretches: Sequence[Stretch]) -> None:
        lapses = {each.definition_no: each.lapse for each in stretches if each.lapse is not None}
        if not lapses:
            return
        await record_lapses(
            connection,
            list(lapses),
            [lapse.from_at for lapse in lapses.values()],
            [lapse.until_at for lapse in lapses.values()],
            [lapse.occurrences for lapse in lapses.values()],
            reason=MISSED,
            actor_no=self._actor_no,
        )

    async def _begin_chains(self, connection: Connection, stretches: Sequence[Stretch]) -> int:
        chains = {
            stretch.definition_no: stretch.chain
            for stretch in stretches
            if stretch.chain is not None
        }
        chainless = await list_chainless(connection, list(chains)) if chains else []
        if not chainless:
            return 0
        answers = await emit_items(
            connection,
            [chains[definition_no].first for definition_no in chainless],
            actor_no=self._actor_no,
            definition_nos=chainless,
        )
        await begin_chains(
            connection,
            [answer.id for answer in answers],
            chainless,
            [chains[definition_no].delay_seconds for definition_no in chainless],
        )
        return sum(answer.created for answer in answers)

    def _report(self, failures: Sequence[Failure]) -> None:
        for failure in failures:
            self._log.warning(
                LogEvent.DEFINITION_FAILED,
                tenant=failure.row.tenant,
                definition=failure.row.name,
                version=failure.row.version,
                definition_no=failure.row.definition_no,
                reason=failure.reason,
            )


def expand_observed(observed: Observed, row: Materialisable, *, items_max: int) -> Stretch:
    """Expand by the calendar that counts now, as far as it reaches: what it knows is owed.

    Raises BeyondCalendar where all that it knows is materialised.
    """
    definition = observed.definition
    try:
        stretch = expand_stretch(definition, row, items_max=items_max)
    except BeyondCalendar:
        stretch = _expand_known(definition, row, items_max)
        if stretch is None:
            raise
    owed = Scheduled([*observed.overtaken, *stretch.owed.drafts], stretch.owed.skipped)
    return replace(stretch, owed=owed, use=observed.use)


def _expand_known(definition: Definition, row: Materialisable, items_max: int) -> Stretch | None:
    for until in known_ends(definition):
        if row.materialised_until < until < row.until:
            with suppress(BeyondCalendar):
                return expand_stretch(definition, replace(row, until=until), items_max=items_max)
    return None


def expand_stretch(definition: Definition, row: Materialisable, *, items_max: int) -> Stretch:
    """Expand from the watermark to `row.until`, or as far as about `items_max` occurrences reach.

    A stretch that was cut ends at the instant of the first occurrence it leaves out, so the next
    one begins there and windows compose.
    """
    start, until = row.materialised_until, row.until
    when = definition.when
    if isinstance(when, AfterCompletion):
        begins_at = max(min(row.materialised_until, row.now), row.effective_from)
        first = draft_first(definition, when, begins_at)
        chain = Chain(first, when.after_completion.total_seconds())
        return Stretch(row.definition_no, until, Scheduled([], []), chain)
    missed = judge_missed(definition, start, until, row.now)
    lapse: Lapse | None = None
    if missed.in_one and start < missed.owed_from:
        lapse = count_lapsed(definition, start, missed.owed_from)
        start = lapse.until_at
        lapse = lapse if lapse.occurrences else None
        if start < missed.owed_from:
            return Stretch(row.definition_no, start, Scheduled([], []), lapse=lapse)
    if not isinstance(when, Relative):
        expected = when.estimate(start, until)
        if expected > items_max:
            until = min(until, start + max(_STRETCH_MIN, (until - start) * (items_max / expected)))
    window = owed_window(definition, start, until)
    found = window.occurrences
    if len(found) > items_max and found[items_max].due_at > start:
        until = found[items_max].due_at
        window = Window(
            tuple(each for each in found if each.due_at < until),
            tuple(each for each in window.skipped if each.at < until),
        )
    owed = draft_window(definition, window, until, owed_from=missed.owed_from)
    return Stretch(row.definition_no, until, owed, lapse=lapse)


@asynccontextmanager
async def open_materialiser(settings: MaterialiserSettings) -> AsyncGenerator[Materialiser]:
    """Have a materialiser under an actor name of its own.

    Raises Unavailable when Postgres cannot be reached.
    """
    name = incarnation(ActorKind.MATERIALISER)
    async with open_pool(
        settings.dsn.get_secret_value(),
        application_name=name,
        size_max=1,
        profile=PlanProfile.ANALYTIC,
    ) as pool:
        async with pool.acquire() as connection:
            actor_no = await register_actor(connection, name, ActorKind.MATERIALISER)
        log = get_logger("materialiser")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
        yield Materialiser(pool, settings, actor_no=actor_no)
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_materialiser(settings: MaterialiserSettings, stop: Stop) -> None:
    """Materialise until a stop is asked for. Any number of processes may."""
    await run_to_stop(_run(settings, stop), stop)


async def _run(settings: MaterialiserSettings, stop: Stop) -> None:
    async with open_materialiser(settings) as materialiser:
        stop.begin()
        await run_service(
            "materialiser",
            materialiser.tick,
            stop=stop,
            idle_seconds=settings.materialise_idle_seconds,
        )
