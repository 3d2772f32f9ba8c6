"""The materialiser: expands the next window of each schedule and emits its items.

Items and watermark are written in one transaction, so a process that dies leaves no gap and no
partial window; expanding a window twice gives the same rows. Any number of processes may run: one
at a time locks a definition, and the others skip it. Newer versions replace older ones alike.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import DueledgerError, InvalidItem
from dueledger.ledger.materialise.schedule_calendars import CalendarSnapshot, ScheduleCalendars
from dueledger.ledger.materialise.settings import MaterialiserSettings
from dueledger.ledger.materialise.version_change import OwedOccurrence, emit_or_revise
from dueledger.ledger.materialise.version_expansion import (
    TZ_SHIFT_MAX,
    Expansion,
    expand_observed,
)
from dueledger.ledger.rules.catch_up import find_latest
from dueledger.ledger.rules.draft_runs import DraftRun
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import Connection, Pool
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
    take_ended_versions,
    take_materialisable,
)
from dueledger.ledger.store.item_runs import ItemRun, emit_runs, split_runs
from dueledger.ledger.store.partitions import list_unmade_item_months, make_item_months

_UNREADABLE: Final = (DueledgerError, ValueError, ArithmeticError, LookupError)
"""Errors that a stored document can cause. They fail its definition and no other."""

_READ_DEFINITIONS_MAX: Final = 10_000
_EMIT_ITEMS: Final = 5_000


@dataclass(frozen=True, slots=True)
class MaterialiseFailure:
    """A definition that cannot be expanded or emitted, and why."""

    row: DefinitionToMaterialise
    reason: str


@dataclass(frozen=True, slots=True)
class MaterialisedCounts:
    """Numbers of items: emitted, recorded as skipped, revised from older versions, superseded."""

    emitted: int = 0
    skipped: int = 0
    revised: int = 0
    superseded: int = 0

    def __add__(self, other: "MaterialisedCounts") -> "MaterialisedCounts":
        """Return the sums."""
        return MaterialisedCounts(
            self.emitted + other.emitted,
            self.skipped + other.skipped,
            self.revised + other.revised,
            self.superseded + other.superseded,
        )


class Materialiser:
    """Materialises schedules up to the horizon, one bounded pass per call."""

    def __init__(
        self,
        pool: Pool,
        settings: MaterialiserSettings,
        *,
        actor_no: int,
        writing: asyncio.Lock | None = None,
    ) -> None:
        """Take `writing`, which is held while a pass writes, from passes that run at once."""
        self._writing = writing or asyncio.Lock()
        self._pool = pool
        self._settings = settings
        self._actor_no = actor_no
        self._definitions: dict[int, Definition] = {}
        self._calendars = ScheduleCalendars()
        self._log = get_logger("materialiser")

    async def tick(self) -> Mapping[str, int]:
        """Materialise definitions behind the horizon; return counts.

        A definition that fails does not stop the others. Idempotent: an existing occurrence is not
        emitted again, and a watermark never moves back.
        """
        async with self._pool.acquire() as connection:
            unmade = None
            while True:
                async with AsyncExitStack() as until_committed:
                    async with connection.transaction():
                        rows, expansions, failures = await self._expand_due(connection)
                        if not rows:
                            return {"definitions": 0}
                        # What a pass writes may lock the default partition: no month is made then.
                        await until_committed.enter_async_context(self._writing)
                        if unmade is None:
                            unmade = await list_unmade_item_months(
                                connection,
                                {day for each in expansions for day in each.owed.effective_dates()},
                            )
                        if not unmade:
                            made, refused = await self._emit_all(connection, expansions, rows)
                            failures += refused
                            for failure in failures:
                                number = failure.row.definition_no
                                await mark_definition_failed(connection, number, failure.reason)
                            break
                    # Nothing was written. What cannot be made now goes to the default partition.
                    await make_item_months(connection, unmade)
                    unmade = []
        self._log_failures(failures)
        counts = {
            "definitions": len(expansions) - len(refused),
            "emitted": made.emitted,
            "skipped": made.skipped,
            "revised": made.revised,
            "superseded": made.superseded,
            "lapsed": sum(
                each.missed.occurrences for each in expansions if each.missed is not None
            ),
            "failed": len(failures),
        }
        self._log.info(LogEvent.WINDOW_MATERIALISED, **counts)
        return counts

    async def _expand_due(
        self, connection: Connection
    ) -> tuple[list[DefinitionToMaterialise], list[Expansion], list[MaterialiseFailure]]:
        """Lock definitions behind the horizon until the transaction ends, and expand them.

        So too versions that ended: a newer tz database may move an occurrence over their end.
        """
        settings = self._settings
        rows = await take_materialisable(
            connection,
            settings.materialise_horizon_seconds,
            settings.materialise_definitions_max,
            stride_seconds=settings.materialise_stride_seconds,
            retry_seconds=settings.materialise_retry_seconds,
        )
        rows += await take_ended_versions(
            connection,
            tzdata_version(),
            TZ_SHIFT_MAX.total_seconds(),
            settings.materialise_definitions_max,
            retry_seconds=settings.materialise_retry_seconds,
        )
        if not rows:
            return [], [], []
        calendars = await self._calendars.read(connection, rows)
        outdated = await self._find_superseded_latest(connection, rows)
        return rows, *self._expand(rows, calendars, outdated)

    async def _find_superseded_latest(
        self, connection: Connection, rows: Sequence[DefinitionToMaterialise]
    ) -> set[int]:
        """Find superseded versions with catch-up `latest` whose latest is of a newer version."""
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
                continue  # it fails when it is expanded itself
        return outdated

    def _expand(
        self,
        rows: Sequence[DefinitionToMaterialise],
        calendars: CalendarSnapshot,
        outdated: Collection[int],
    ) -> tuple[list[Expansion], list[MaterialiseFailure]]:
        """Expand definitions until the pass is full; the next pass expands the others."""
        expansions: list[Expansion] = []
        failures: list[MaterialiseFailure] = []
        items_left = self._settings.materialise_pass_items_max
        for row in rows:
            if items_left <= 0:
                break
            try:
                expansion = expand_observed(
                    calendars.observe(self._read(row), row),
                    row,
                    items_max=self._settings.materialise_items_max,
                    outdated=row.definition_no in outdated,
                )
            except _UNREADABLE as error:
                failures.append(MaterialiseFailure(row, f"{type(error).__name__}: {error}"))
                continue
            expansions.append(expansion)
            items_left -= expansion.pass_cost
        return expansions, failures

    def _read(self, row: DefinitionToMaterialise) -> Definition:
        """Return the parsed version. It never changes, so it is parsed once."""
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
        expansions: Sequence[Expansion],
        rows: Sequence[DefinitionToMaterialise],
    ) -> tuple[MaterialisedCounts, list[MaterialiseFailure]]:
        """Emit all expansions together; after InvalidItem one by one, so that only one fails."""
        try:
            async with connection.transaction():
                return await self._emit(connection, expansions), []
        except InvalidItem:
            pass
        row_of = {row.definition_no: row for row in rows}
        made = MaterialisedCounts()
        refused: list[MaterialiseFailure] = []
        # First newer versions: another definition may use the keys that they release.
        for expansion in sorted(expansions, key=lambda each: not each.replaces_older):
            try:
                async with connection.transaction():
                    made += await self._emit(connection, [expansion])
            except InvalidItem as error:
                refused.append(MaterialiseFailure(row_of[expansion.definition_no], str(error)))
        return made, refused

    async def _emit(
        self, connection: Connection, expansions: Sequence[Expansion]
    ) -> MaterialisedCounts:
        """Emit the items of expansions and move their watermarks; return the counts."""
        first = [expansion for expansion in expansions if not expansion.replaces_older]
        made = await self._emit_first(connection, first)
        for expansion in expansions:
            if expansion.replaces_older:
                made += await self._emit_new_version(connection, expansion)
        made += await self._begin_chains(connection, expansions)
        await self._record_missed_ranges(connection, expansions)
        if uses := [
            expansion.calendar_use for expansion in expansions if expansion.calendar_use is not None
        ]:
            await record_calendar_uses(connection, uses, actor_no=self._actor_no)
        crash_point("materialise.emitted")
        passed: list[Expansion] = []
        for expansion in expansions:
            ended = await self._supersede(connection, expansion) if expansion.contested else 0
            made += MaterialisedCounts(superseded=ended)
            if ended < self._settings.materialise_pass_items_max:  # else there may be more
                passed.append(expansion)
        crash_point("materialise.superseded")
        await advance_materialised(
            connection,
            [expansion.definition_no for expansion in passed],
            [expansion.until for expansion in passed],
            tzdata=tzdata_version(),
        )
        return made

    async def _emit_first(
        self, connection: Connection, expansions: Sequence[Expansion]
    ) -> MaterialisedCounts:
        """Emit the items of first versions, all together."""
        runs: list[ItemRun] = []
        owed: list[OwedOccurrence] = []
        for expansion in expansions:
            number, since = expansion.definition_no, expansion.effective_from
            drafts = expansion.owed.drafts
            if isinstance(drafts, DraftRun):
                runs.append(ItemRun(number, drafts, since))
            else:
                owed += [OwedOccurrence(number, draft, since) for draft in drafts]
        emitted = 0
        for parts in split_runs(runs, _EMIT_ITEMS):
            known = await emit_runs(connection, parts, actor_no=self._actor_no)
            emitted += sum(len(each.drafts) for each in parts) - len(known)
            owed += [
                OwedOccurrence(run.definition_no, run.drafts[index], run.since)
                for run, index in known
            ]
        for first in range(0, len(owed), _EMIT_ITEMS):
            batch = owed[first : first + _EMIT_ITEMS]
            issued = await emit_or_revise(connection, batch, actor_no=self._actor_no)
            emitted += sum(each.created for each in issued)
        skips = [
            OwedOccurrence(
                expansion.definition_no, skip.draft, expansion.effective_from, skip.reason
            )
            for expansion in expansions
            for skip in expansion.owed.skipped
        ]
        skipped = await emit_or_revise(connection, skips, actor_no=self._actor_no)
        return MaterialisedCounts(emitted, sum(each.created for each in skipped))

    async def _emit_new_version(
        self, connection: Connection, expansion: Expansion
    ) -> MaterialisedCounts:
        """Emit the items of a newer version, and revise those that older versions also have."""
        number, since = expansion.definition_no, expansion.effective_from
        owed = [OwedOccurrence(number, draft, since) for draft in expansion.owed.drafts]
        skips = [
            OwedOccurrence(number, skip.draft, since, skip.reason)
            for skip in expansion.owed.skipped
        ]
        items = await emit_or_revise(connection, owed, actor_no=self._actor_no)
        skipped = await emit_or_revise(connection, skips, actor_no=self._actor_no)
        return MaterialisedCounts(
            sum(each.created for each in items),
            sum(each.created or each.revised for each in skipped),
            sum(each.revised for each in items),
        )

    async def _supersede(self, connection: Connection, expansion: Expansion) -> int:
        return await supersede_waiting(
            connection,
            expansion.definition_no,
            expansion.start,
            expansion.until,
            actor_no=self._actor_no,
            limit=self._settings.materialise_pass_items_max,
        )

    async def _record_missed_ranges(
        self, connection: Connection, expansions: Sequence[Expansion]
    ) -> None:
        ranges = {each.definition_no: each.missed for each in expansions if each.missed is not None}
        if not ranges:
            return
        await record_missed_ranges(
            connection,
            list(ranges),
            [each.from_at for each in ranges.values()],
            [each.until_at for each in ranges.values()],
            [each.occurrences for each in ranges.values()],
            reason=MISSED_REASON,
            actor_no=self._actor_no,
        )

    async def _begin_chains(
        self, connection: Connection, expansions: Sequence[Expansion]
    ) -> MaterialisedCounts:
        chains = {
            expansion.definition_no: (expansion, expansion.chain)
            for expansion in expansions
            if expansion.chain is not None
        }
        chainless = await list_broken_chains(connection, list(chains)) if chains else []
        if not chainless:
            return MaterialisedCounts()
        owed = [
            OwedOccurrence(no, chain.first, expansion.effective_from)
            for no in chainless
            for expansion, chain in (chains[no],)
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
