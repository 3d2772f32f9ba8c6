"""Every version of every definition, and the span in which each is in force."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.ledger.store.calendar_cache import calendar_name_of
from dueledger.reconciler.expect.calendar_history import (
    CalendarHistory,
    CalendarPeriod,
    read_history,
)


class FailedVersion(NamedTuple):
    """A version that could not be expanded, and why; or one that was changed in place.

    `has_finding`: another finding says why, that its calendar was changed in place.
    """

    tenant: str
    kind: str
    name: str
    version: int
    reason: str
    is_changed: bool = False
    has_finding: bool = False


@dataclass(frozen=True, slots=True)
class DefinitionSpan:
    """One version: in force from `effective_from` until `superseded_at`, if there is one.

    `definition` observes the newest calendar; each of `periods` one that counted for a time.
    """

    definition_no: int
    name: str
    number: int
    definition: Definition
    effective_from: datetime
    superseded_at: datetime | None
    materialised_until: datetime | None
    failure: str | None = None
    periods: tuple[CalendarPeriod, ...] = ()

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Return what plain rows of the version depend on, within one process."""
        has_calendars = bool(self.periods)
        return self.definition_no, self.definition.digest, self.effective_from, has_calendars

    def failed(self, reason: str) -> FailedVersion:
        """Return the version as one that could not be expanded."""
        return FailedVersion(*self.key, self.name, self.number, reason)

    def definition_at(self, instant: datetime) -> Definition:
        """Return the definition with the calendar that counted for an instant."""
        index = bisect_right(self.periods, instant, key=attrgetter("from_at"))
        return self.periods[max(index - 1, 0)].definition if self.periods else self.definition

    def is_owed(self, occurrence_at: datetime) -> bool:
        """Return whether an occurrence must have its item, as far as catch-up decides.

        With catch-up `latest` or `skip`, the materialiser decides when it reaches an occurrence
        whether it is still owed. Before that nothing can be expected.
        """
        if self.definition.catch_up.keeps_all or self.materialised_until is None:
            return True
        return occurrence_at < self.materialised_until

    @property
    def unmaterialised(self) -> str | None:
        """Why the materialiser cannot expand it; None where nothing is left to expand."""
        until, end = self.materialised_until, self.superseded_at
        finished = until is not None and end is not None and until >= end
        return None if finished else self.failure

    def unknown_since(self, as_of: datetime) -> datetime | None:
        """Return the instant from which nobody has decided what the schedule owes before `as_of`.

        None where it is materialised as far as that, or as far as it is in force.
        """
        definition, end = self.definition, self.superseded_at or as_of
        if not definition.is_schedule or definition.ended:
            return None
        reached = max(self.materialised_until or self.effective_from, self.effective_from)
        return reached if reached < min(end, as_of) else None

    @property
    def key(self) -> tuple[str, str]:
        """Return tenant and kind."""
        return self.definition.tenant, self.definition.kind

    def in_force(self, at: datetime) -> bool:
        """Return whether this version is in force at an instant."""
        return self.effective_from <= at and (self.superseded_at is None or at < self.superseded_at)

    def horizon(self, as_of: datetime) -> datetime:
        """Return up to when a schedule's items must exist: what is due, and what is materialised.

        The materialised watermark can only move it later than what is due, never earlier.
        """
        until = max(as_of, self.materialised_until or as_of)
        return until if self.superseded_at is None else min(until, self.superseded_at)


async def read_version_spans(
    connection: Connection,
) -> tuple[list[DefinitionSpan], list[FailedVersion]]:
    """Read every version with the calendars it observed.

    One that cannot be read, or was changed since it was defined, is a failure; so is one whose
    calendar was changed.
    """
    rows = await reconciled_rows.list_definition_versions(connection)
    named = {(row["tenant"], name) for row in rows if (name := calendar_name_of(row["document"]))}
    return _parse_versions(rows, await read_history(connection, named))


def _parse_versions(
    rows: Sequence[Record], history: CalendarHistory
) -> tuple[list[DefinitionSpan], list[FailedVersion]]:
    versions: list[DefinitionSpan] = []
    failures: list[FailedVersion] = []
    for row in rows:
        named = (row["tenant"], row["kind"], row["name"], row["version"])
        if row["is_changed"]:
            failures.append(FailedVersion(*named, "changed in place", is_changed=True))
            continue
        calendar_name = calendar_name_of(row["document"])
        if history.is_changed(row["tenant"], calendar_name):
            reason = f"its calendar {calendar_name} was changed in place"
            failures.append(FailedVersion(*named, reason, has_finding=True))
            continue
        try:
            definition = parse_definition(
                row["document"], source=row["name"], calendars=history.of_tenant(row["tenant"])
            )
        except InvalidDefinition as refusal:
            failures.append(FailedVersion(*named, refusal.message))
            continue
        versions.append(
            DefinitionSpan(
                row["definition_no"],
                row["name"],
                row["version"],
                definition,
                row["effective_from"],
                row["superseded_at"],
                row["materialised_until"],
                row["failure"],
                history.periods(definition, row["definition_no"], row["materialised_until"]),
            )
        )
    return versions, failures
