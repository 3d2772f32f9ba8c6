"""Changes of definitions, for commands and for REST: computed, witnessed, applied as shown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from dueledger.definitions.files import SINGLE_FILE, DefinitionFiles
from dueledger.definitions.named_calendars import describe_reach
from dueledger.definitions.put_in_force import (
    ChangePreview,
    DefinedDocument,
    describe_idle,
    preview_change,
    put_in_force,
)
from dueledger.definitions.redaction_change import add_kept_fields, describe_redaction
from dueledger.definitions.second_opinion import WitnessedDefinition, ask_witness, record_opinions
from dueledger.definitions.topic_rules import TopicRules
from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import Conflict
from dueledger.ledger.schedule.zones import load_zone
from dueledger.ledger.store import Connection
from dueledger.ledger.store.kinds import find_redacted_fields
from dueledger.ledger.witness import Agreement


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """What one document would change."""

    definition: Definition
    defined: DefinedDocument
    preview: ChangePreview

    def document(self) -> dict[str, Any]:
        """Return the change as a document; without a `diff` if nothing changes."""
        shown: dict[str, Any] = asdict(self.defined)
        if self.defined.changed:
            shown["diff"] = _diff_document(self.preview)
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionRequest:
    """Definitions to put in force together, from when on, and by whose rules and name."""

    definitions: Sequence[Definition]
    effective_from: datetime | None
    backfill: bool
    topic_rules: TopicRules
    actor_no: int
    sources: DefinitionFiles = field(default_factory=lambda: SINGLE_FILE)
    may_loosen: bool = False


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """What a request would change, sentences about it, and what the witness says of it."""

    request: DefinitionRequest
    changes: Sequence[DefinitionChange]
    redaction: Sequence[str] = ()

    async def describe(self, connection: Connection) -> list[str]:
        """Return what stays redacted, until when calendars allow items, which owe nothing."""
        request = self.request
        reach = await describe_reach(connection, request.definitions)
        idle = [
            describe_idle(each.definition, request.effective_from or each.preview.diff.since)
            for each in self.changes
            if each.defined.changed
        ]
        return [*self.redaction, *reach] + [each for each in idle if each is not None]

    async def ask_witness(self) -> list[WitnessedDefinition]:
        """Ask the witness about what changes."""
        return await ask_witness(
            [
                (
                    each.definition,
                    each.defined.version,
                    self.request.effective_from or each.preview.diff.since,
                )
                for each in self.changes
                if each.defined.changed
            ]
        )

    async def apply(
        self,
        connection: Connection,
        opinions: Sequence[WitnessedDefinition],
        accepted: str | None,
    ) -> None:
        """Put exactly these changes in force, and record what the witness said.

        Raises Conflict if another session defined one of them since, WitnessDisagrees for a
        disagreement without a reason to accept it.
        """
        async with connection.transaction():
            if await _put(connection, self.request) != [each.defined for each in self.changes]:
                raise Conflict(
                    "Another user defined one of these in the meantime: nothing was changed. "
                    "Repeat it to see what changes now."
                )
            await record_opinions(
                connection, opinions, accepted=accepted, actor_no=self.request.actor_no
            )


async def plan_changes(connection: Connection, request: DefinitionRequest) -> PlannedChanges:
    """Compute what a request would change, and change nothing. Raises as `put_in_force`."""
    kinds = {(one.tenant, one.kind) for one in request.definitions}
    before = await find_redacted_fields(connection, kinds)
    trial = connection.transaction()
    await trial.start()
    try:
        defined = await _put(connection, request)
        after = await find_redacted_fields(connection, kinds)
        definitions = await add_kept_fields(connection, request.definitions)
    finally:
        await trial.rollback()
    previews = [
        await preview_change(connection, one, request.effective_from) for one in definitions
    ]
    found = [DefinitionChange(*each) for each in zip(definitions, defined, previews, strict=True)]
    changed = [
        one for one, each in zip(request.definitions, found, strict=True) if each.defined.changed
    ]
    return PlannedChanges(request, found, describe_redaction(changed, before, after))


def doubts(opinions: Sequence[WitnessedDefinition]) -> list[str]:
    """Return a sentence for each definition about which the witness does not agree."""
    return [
        f"{each.name}: {each.witnessed}"
        for each in opinions
        if each.witnessed.agreement is not Agreement.AGREES
    ]


def local_text(instant: datetime, zone: str) -> str:
    """Return an instant as its local time in a zone, for people."""
    return f"{instant.astimezone(load_zone(zone)):%a %Y-%m-%d %H:%M:%S %Z}"


async def _put(connection: Connection, request: DefinitionRequest) -> list[DefinedDocument]:
    return await put_in_force(
        connection,
        request.definitions,
        actor_no=request.actor_no,
        effective_from=request.effective_from,
        backfill=request.backfill,
        sources=request.sources,
        topic_rules=request.topic_rules,
        may_loosen=request.may_loosen,
    )


def _diff_document(preview: ChangePreview) -> dict[str, Any]:
    diff = preview.diff
    return {
        "base_version": diff.base_version,
        "superseded": list(preview.superseded),
        "since": diff.since,
        "until": diff.until,
        "fields": list(diff.fields),
        "counts": {kind.value: count for kind, count in diff.counts.items()},
        "next": [
            {
                "change": one.kind.value,
                "cycle": one.cycle,
                "due_at": one.due_at,
                "local": None if one.due_at is None else local_text(one.due_at, one.zone),
                "was": one.due_before,
                "was_local": None
                if one.due_before is None
                else local_text(one.due_before, one.zone),
            }
            for one in diff.upcoming
        ],
    }
