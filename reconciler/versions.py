"""Every version of every definition, and the span in which each is in force."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger.definitions import Definition, parse_definition
from ledger.errors import InvalidDefinition
from ledger.store import Record

Failure = tuple[str, str, str, int, str]
"""Tenant, kind, name, version and why it cannot be read."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version: in force from `effective_from` until `superseded_at`, if there is one."""

    definition_no: int
    name: str
    number: int
    definition: Definition
    effective_from: datetime
    superseded_at: datetime | None
    materialised_until: datetime | None
    failure: str | None = None

    def owes(self, occurrence_at: datetime) -> bool:
        """Tell whether an occurrence must have its item, as far as what is missed decides.

        Where what is missed may be owed no more, the materialiser decides it, by the time at which
        it comes to it: until then nothing can be said.
        """
        if self.definition.catch_up.keeps_all or self.materialised_until is None:
            return True
        return occurrence_at < self.materialised_until

    @property
    def unmaterialised(self) -> str | None:
        """Why the materialiser cannot expand it, while it still has something to expand."""
        reached, end = self.materialised_until, self.superseded_at
        finished = reached is not None and end is not None and reached >= end
        return None if finished else self.failure

    @property
    def key(self) -> tuple[str, str]:
        """Return tenant and kind."""
        return self.definition.tenant, self.definition.kind

    def in_force(self, at: datetime) -> bool:
        """Tell whether this version decides at an instant."""
        return self.effective_from <= at and (self.superseded_at is None or at < self.superseded_at)

    def horizon(self, as_of: datetime) -> datetime:
        """Return up to when a schedule's items must exist: what is due, and what is materialised.

        The materialiser's word is taken only for more than is due already, never for less.
        """
        until = max(as_of, self.materialised_until or as_of)
        return until if self.superseded_at is None else min(until, self.superseded_at)


def parse_versions(rows: Sequence[Record]) -> tuple[list[Version], list[Failure]]:
    """Read the rows of `list_definition_versions`; a document that cannot be read is a failure."""
    versions: list[Version] = []
    failures: list[Failure] = []
    for row in rows:
        try:
            definition = parse_definition(row["document"], source=row["name"])
        except InvalidDefinition as refusal:
            failures.append(
                (row["tenant"], row["kind"], row["name"], row["version"], refusal.message)
            )
            continue
        versions.append(
            Version(
                row["definition_no"],
                row["name"],
                row["version"],
                definition,
                row["effective_from"],
                row["superseded_at"],
                row["materialised_until"],
                row["failure"],
            )
        )
    return versions, failures
