"""Definitions on their way into the ledger: read from files, checked, put in force."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from ledger.definitions import Definition, load_definitions
from ledger.errors import InvalidDefinition, InvalidInput, Problem
from ledger.schedule import Relative
from ledger.schedule.when import DUE_END, DUE_MIN
from ledger.store import Connection
from ledger.store.clock import read_now
from ledger.store.definitions import KindPolicy, define, put_kind_policy

_PAST_MAX: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class DefinedDocument:
    """The answer to one document: `changed` is False where the same one was there."""

    tenant: str
    definition: str
    version: int
    changed: bool


def read_definitions(path: Path) -> list[Definition]:
    """Read every definition of a YAML or JSON file, or none where one is refused."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        problem = Problem(str(path), "", f"byte {error.start} is not UTF-8", "the file in UTF-8")
        raise InvalidDefinition("The file cannot be read:", [problem]) from None
    return load_definitions(text, source=str(path))


async def put_in_force(
    connection: Connection,
    definitions: Sequence[Definition],
    *,
    actor_no: int,
    effective_from: datetime | None = None,
    backfill: bool = False,
) -> list[DefinedDocument]:
    """Define all in one transaction; the same documents again change nothing.

    Raises InvalidInput where `effective_from` is outside the years that can be owed, or where a
    schedule would owe more than a year of the past and `backfill` does not say that it shall.
    """
    if effective_from is not None:
        scheduled = any(not isinstance(one.when, Relative) for one in definitions)
        earliest = await read_now(connection) - _PAST_MAX if scheduled and not backfill else None
        _check_effective_from(effective_from, earliest)
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


def _check_effective_from(effective_from: datetime, earliest: datetime | None) -> None:
    """Refuse what is likely a typing error in the year: it would flood the ledger."""
    if not DUE_MIN <= effective_from < DUE_END:
        reason = f"outside {DUE_MIN.year} to {DUE_END.year - 1}"
    elif earliest is not None and effective_from < earliest:
        reason = (
            f"more than {_PAST_MAX.days} days past; a schedule would owe everything since then. "
            "If it shall, give --backfill"
        )
    else:
        return
    problem = Problem("--effective-from", effective_from.isoformat(), reason)
    raise InvalidInput("The definitions cannot be put in force:", [problem])


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
