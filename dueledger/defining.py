"""Definitions on their way into the ledger: read from files, checked, put in force."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ledger.definitions import Definition, load_definitions
from ledger.store import Connection
from ledger.store.definitions import KindPolicy, define, put_kind_policy


@dataclass(frozen=True, slots=True)
class DefinedDocument:
    """The answer to one document: `changed` is False where the same one was there."""

    tenant: str
    definition: str
    version: int
    changed: bool


def read_definitions(path: Path) -> list[Definition]:
    """Read every definition of a YAML or JSON file, or none where one is refused."""
    return load_definitions(path.read_text(encoding="utf-8"), source=str(path))


async def put_in_force(
    connection: Connection,
    definitions: Sequence[Definition],
    *,
    actor_no: int,
    effective_from: datetime | None = None,
) -> list[DefinedDocument]:
    """Define all in one transaction; the same documents again change nothing."""
    policies = {(one.tenant, one.kind): _policy(one) for one in definitions}
    # Always in the same order, so that two who define at once never wait for each other.
    in_order = sorted(range(len(definitions)), key=lambda place: _name(definitions[place]))
    answers: dict[int, DefinedDocument] = {}
    async with connection.transaction():
        for kind in sorted(policies):
            await put_kind_policy(connection, policies[kind])
        for place in in_order:
            answers[place] = await _define(connection, definitions[place], actor_no, effective_from)
    return [answers[place] for place in range(len(definitions))]


def _name(definition: Definition) -> tuple[str, str]:
    return definition.tenant, definition.definition


async def _define(
    connection: Connection, definition: Definition, actor_no: int, effective_from: datetime | None
) -> DefinedDocument:
    answer = await define(
        connection,
        definition.normalised(),
        tenant=definition.tenant,
        name=definition.definition,
        kind=definition.kind,
        event_type=definition.event,
        effective_from=effective_from,
        actor_no=actor_no,
    )
    return DefinedDocument(definition.tenant, definition.definition, answer.version, answer.changed)


def _policy(definition: Definition) -> KindPolicy:
    retry = definition.retry
    return KindPolicy(
        definition.tenant,
        definition.kind,
        topic=definition.dispatch.kafka.topic,
        attempt_max=retry.attempt_max,
        backoff_base_seconds=retry.base.total_seconds(),
        backoff_cap_seconds=retry.cap.total_seconds(),
    )
