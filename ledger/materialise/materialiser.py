"""Schedules become what is owed: each definition's next stretch of time, expanded and emitted.

Items and watermark move in one transaction, so a process that dies leaves neither a gap nor half
a window; what is expanded twice is the same rows. Any number of processes may run: a definition is
held by one at a time, and the others pass it by. A newer version takes over in the same way.
"""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import DueledgerError, InvalidItem
from dueledger.ledger.materialise.expansion import Expansion, expand_observed
from dueledger.ledger.materialise.schedule_calendars import CalendarSnapshot, ScheduleCalendars
from dueledger.ledger.materialise.version_change import OwedOccurrence, emit_or_revise
from dueledger.ledger.rules.catch_up import find_latest
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, crash_point, run_service, run_to_stop
from dueledger.ledger.runtime.settings import Settings
from dueledger.ledger.store import Connection, PlanProfile, Pool, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation, register_actor
from dueledger.ledger.store.calendar_cache import calendars_of_tenant
from dueledger.ledger.store.calendars import record_calendar_uses
from dueledger.ledger.store.definitions import (
    DefinitionToMaterialise,
    advance_materialised,
    begin_chains,
    list_broken_chains,
    list_successors,
    mark_definition_failed,
    record_missed_ranges,
    supersede_waiting,
    take_materialisable,
)
from dueledger.ledger.store.items import emit_items

_UNREADABLE: Final = (DueledgerError, ValueError, ArithmeticError, LookupError)
"""What a stored document can make the pure modules raise; it is that definition's own failure."""

_READ_DEFINITIONS_MAX: Final = 10_000
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
class MaterialiseFailure:
    """A definition that cannot be expanded or emitted, and why."""

    row: DefinitionToMaterialise
    reason: str


@dataclass(frozen=True, slots=True)
class MaterialisedCounts:
    """How many items are new, recorded as skipped, taken over from older versions, or ended."""

    emitted: int = 0
    skipped: int = 0
    revised: int = 0
    superseded: int = 0

    def __add__(self, other: "MaterialisedCounts") -> "MaterialisedCounts":
        """Return both together."""
        return MaterialisedCounts(
            self.emitted + other.emitted,
            self.skipped + other.skipped,
            self.revised + other.revised,
            self.superseded + other.superseded,
        )


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
            outdated = await self._find_superseded_latest(connection, rows)
            stretches, failures = self._expand(rows, calendars, outdated)
            made, refused = await self._emit_all(connection, stretches, rows)
            failures += refused
            for failure in failures:
                await mark_definition_failed(connection, failure.row.definition_no, failure.reason)
        self._log_failures(failures)
        counts = {
            "definitions": len(stretches) - len(refused),
            "emitted": made.emitted,
            "skipped": made.skipped,
            "revised": made.revised,
            "superseded": made.superseded,
            "lapsed": sum(each.missed.occurrences for each in stretches if each.missed is not None),
            "failed": len(failures),
        }
        self._log.info(LogEvent.WINDOW_MATERIALISED, **counts)
        return counts

    async def _find_superseded_latest(
        self, connection: Connection, rows: Sequence[DefinitionToMaterialise]
    ) -> set[int]:
        """Find superseded versions that owe a latest which a newer version has a later one of."""
        ended = {
            row.definition_no: row.tenant
            for row in rows
            if row.ends_at is not None
            and row.ends_at <= row.now
            and row.document.get("catch_up", {}).get("policy") == "latest"
        }
        successors = await list_successors(connection, list(ended)) if ended else []
        calendars = await self._calendars.newest(
            connection, ((ended[each.definition_no], each.document) for each in successors)
        )
        outdated: set[int] = set()
        for each in successors:
            known = calendars_of_tenant(calendars, ended[each.definition_no])
            try:
                definition = parse_definition(each.document, source="newer", calendars=known)
                if find_latest(definition, each.effective_from, each.until_at, 1):
                    outdated.add(each.definition_no)
            except _UNREADABLE:
                continue  # its own failure when it is expanded itself
        return outdated

    def _expand(
        self,
        rows: Sequence[DefinitionToMaterialise],
        calendars: CalendarSnapshot,
        outdated: Collection[int],
    ) -> tuple[list[Expansion], list[MaterialiseFailure]]:
        """Expand until the pass is full; what is left over is taken by the next one."""
        stretches: list[Expansion] = []
        failures: list[MaterialiseFailure] = []
        room = self._settings.materialise_pass_items_max
        for row in rows:
            if room <= 0:
                break
            try:
                stretch = expand_observed(
                    calendars.observe(self._read(row), row),
                    row,
                    items_max=self._settings.materialise_items_max,
                    outdated=row.definition_no in outdated,
                )
            except _UNREADABLE as error:
                failures.append(MaterialiseFailure(row, f"{type(error).__name__}: {error}"))
                continue
            stretches.append(stretch)
            room -= stretch.pass_cost
        return stretches, failures

    def _read(self, row: DefinitionToMaterialise) -> Definition:
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
        self,
        connection: Connection,
        stretches: Sequence[Expansion],
        rows: Sequence[DefinitionToMaterialise],
    ) -> tuple[MaterialisedCounts, list[MaterialiseFailure]]:
        """Emit all together; where the database refuses, one by one, so that only one fails."""
        try:
            async with connection.transaction():
                return await self._emit(connection, stretches), []
        except InvalidItem:
            pass
        row_of = {row.definition_no: row for row in rows}
        made = MaterialisedCounts()
        refused: list[MaterialiseFailure] = []
        # What a newer version lets go of, another definition may have from then on.
        for stretch in sorted(stretches, key=lambda each: not each.replaces_older):
            try:
                async with connection.transaction():
                    made += await self._emit(connection, [stretch])
            except InvalidItem as error:
                refused.append(MaterialiseFailure(row_of[stretch.definition_no], str(error)))
        return made, refused

    async def _emit(
        self, connection: Connection, stretches: Sequence[Expansion]
    ) -> MaterialisedCounts:
        """Emit stretches and move their watermarks; return what was made of them."""
        first = [stretch for stretch in stretches if not stretch.replaces_older]
        made = await self._emit_first(connection, first)
        for stretch in stretches:
            if stretch.replaces_older:
                made += await self._emit_new_version(connection, stretch)
        made += await self._begin_chains(connection, stretches)
        await self._record_missed_ranges(connection, stretches)
        if uses := [
            stretch.calendar_use for stretch in stretches if stretch.calendar_use is not None
        ]:
            await record_calendar_uses(connection, uses, actor_no=self._actor_no)
        crash_point("materialise.emitted")
        passed: list[Expansion] = []
        for stretch in stretches:
            ended = await self._supersede(connection, stretch) if stretch.contested else 0
            made += MaterialisedCounts(superseded=ended)
            if ended < self._settings.materialise_pass_items_max:  # else there may be more
                passed.append(stretch)
        crash_point("materialise.superseded")
        await advance_materialised(
            connection,
            [stretch.definition_no for stretch in passed],
            [stretch.until for stretch in passed],
        )
        return made

    async def _emit_first(
        self, connection: Connection, stretches: Sequence[Expansion]
    ) -> MaterialisedCounts:
        """Emit what first versions owe, all together."""
        owed = [
            (stretch.definition_no, draft) for stretch in stretches for draft in stretch.owed.drafts
        ]
        emitted = 0
        for first in range(0, len(owed), _EMIT_ITEMS):
            definition_nos, drafts = zip(*owed[first : first + _EMIT_ITEMS], strict=True)
            answers = await emit_items(
                connection, drafts, actor_no=self._actor_no, definition_nos=definition_nos
            )
            known = [
                OwedOccurrence(definition_no, answer.draft, None)
                for definition_no, answer in zip(definition_nos, answers, strict=True)
                if not answer.created
            ]
            issued = await emit_or_revise(connection, known, actor_no=self._actor_no)
            emitted += len(answers) - len(known) + sum(each.created for each in issued)
        lapsed = [
            OwedOccurrence(stretch.definition_no, skip.draft, None, skip.reason)
            for stretch in stretches
            for skip in stretch.owed.skipped
        ]
        skipped = await emit_or_revise(connection, lapsed, actor_no=self._actor_no)
        return MaterialisedCounts(emitted, sum(each.created for each in skipped))

    async def _emit_new_version(
        self, connection: Connection, stretch: Expansion
    ) -> MaterialisedCounts:
        """Emit what a newer version owes, and take over what older ones owe alike."""
        number, since = stretch.definition_no, stretch.effective_from
        owed = [OwedOccurrence(number, draft, since) for draft in stretch.owed.drafts]
        skips = [
            OwedOccurrence(number, skip.draft, since, skip.reason) for skip in stretch.owed.skipped
        ]
        items = await emit_or_revise(connection, owed, actor_no=self._actor_no)
        skipped = await emit_or_revise(connection, skips, actor_no=self._actor_no)
        return MaterialisedCounts(
            sum(each.created for each in items),
            sum(each.created or each.revised for each in skipped),
            sum(each.revised for each in items),
        )

    async def _supersede(self, connection: Connection, stretch: Expansion) -> int:
        return await supersede_waiting(
            connection,
            stretch.definition_no,
            stretch.start,
            stretch.until,
            actor_no=self._actor_no,
            limit=self._settings.materialise_pass_items_max,
        )

    async def _record_missed_ranges(
        self, connection: Connection, stretches: Sequence[Expansion]
    ) -> None:
        lapses = {each.definition_no: each.missed for each in stretches if each.missed is not None}
        if not lapses:
            return
        await record_missed_ranges(
            connection,
            list(lapses),
            [lapse.from_at for lapse in lapses.values()],
            [lapse.until_at for lapse in lapses.values()],
            [lapse.occurrences for lapse in lapses.values()],
            reason=MISSED_REASON,
            actor_no=self._actor_no,
        )

    async def _begin_chains(
        self, connection: Connection, stretches: Sequence[Expansion]
    ) -> MaterialisedCounts:
        chains = {
            stretch.definition_no: (stretch, stretch.chain)
            for stretch in stretches
            if stretch.chain is not None
        }
        chainless = await list_broken_chains(connection, list(chains)) if chains else []
        if not chainless:
            return MaterialisedCounts()
        owed = [
            OwedOccurrence(
                no, chain.first, stretch.effective_from if stretch.replaces_older else None
            )
            for no in chainless
            for stretch, chain in (chains[no],)
        ]
        issued = await emit_or_revise(connection, owed, actor_no=self._actor_no)
        await begin_chains(
            connection,
            [each.draft.id for each in issued],
            chainless,
            [chains[definition_no][1].delay_seconds for definition_no in chainless],
        )
        return MaterialisedCounts(
            sum(each.created for each in issued), revised=sum(each.revised for each in issued)
        )

    def _log_failures(self, failures: Sequence[MaterialiseFailure]) -> None:
        for failure in failures:
            self._log.warning(
                LogEvent.DEFINITION_FAILED,
                tenant=failure.row.tenant,
                definition=failure.row.name,
                version=failure.row.version,
                definition_no=failure.row.definition_no,
                reason=failure.reason,
            )


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
        stop.mark_started()
        await run_service(
            "materialiser",
            materialiser.tick,
            stop=stop,
            idle_seconds=settings.materialise_idle_seconds,
        )
