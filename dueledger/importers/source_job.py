"""A job as each importer reads it: its times, its payload, and what its scheduler says about it.

`add_job` makes the definition of it, the same way for every scheduler.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import ValidationError

from dueledger.importers.import_result import (
    ImportRefusal,
    ImportResult,
    JobInventory,
    OpenQuestion,
    refusal_of,
)
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.schedule.expressions import period_text
from dueledger.ledger.schedule.smear import shortest_period

_SECRET: Final = re.compile(
    r"(passw(or)?d|pwd|secret|token|api[_-]?key|credential)\w*[\s=:]+\S|://[^/\s:@]+:[^/\s@]+@|"
    r"\bmysql\w*\b.*\s-p\S",
    re.IGNORECASE,
)
_ANCHOR: Final = datetime(2026, 1, 1, tzinfo=UTC)
_HASH_CHARS: Final = 6


@dataclass(frozen=True, slots=True)
class NewDefinitionFields:
    """Fields that a job lacks for its definition. Without `kind`, each job type has its own.

    `anchor` is from when fixed rates count, `zone` that of a clock that the file does not name, and
    `source` names the import.
    """

    tenant: str
    anchor: datetime = _ANCHOR
    kind: str = ""
    zone: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class TranslatedSchedule:
    """A `when`, the open questions about it, and notes on what was changed.

    `smear` is the time over which its scheduler spreads the starts.
    """

    when: dict[str, object]
    questions: tuple[OpenQuestion, ...] = ()
    notes: tuple[str, ...] = ()
    smear: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceJob:
    """One job. `lane` is one of its labels; without `catch_up` the import asks about missed runs.

    `questions` are those that are not asked about every job.
    """

    where: str
    name: str
    kind: str
    schedule: TranslatedSchedule
    payload: Mapping[str, object]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    lane: str | None = None
    overlap: str | None = None
    catch_up: Mapping[str, object] | None = None
    owner: str | None = None
    criticality: str | None = None
    duplicates: str | None = None
    description: str | None = None
    questions: tuple[OpenQuestion, ...] = ()
    notes: tuple[str, ...] = ()


def add_job(found: ImportResult, job: SourceJob, anew: NewDefinitionFields) -> None:
    """Import a job, or list why not."""
    document: dict[str, object] = {
        "definition": job.name,
        "tenant": anew.tenant,
        "kind": anew.kind or job.kind,
        **({"source": anew.source} if anew.source else {}),
        "business_key": job.name,
        "when": job.schedule.when,
        **({"labels": dict(job.labels)} if job.labels else {}),
        **({"lane": job.lane} if job.lane else {}),
        **({"overlap": job.overlap} if job.overlap else {}),
        **({"payload": dict(job.payload)} if job.payload else {}),
    }
    notes = [*job.schedule.notes, *job.notes, *_add_policies(document, job)]
    questions = [*job.schedule.questions, OpenQuestion.RETRIES]
    questions += [] if "catch_up" in document else [OpenQuestion.MISSED]
    questions += [OpenQuestion.DUPLICATES, *job.questions]
    known = JobInventory(
        owner=job.owner,
        criticality=job.criticality,
        description=job.description,
        questions=tuple(dict.fromkeys(questions)),
        notes=tuple(notes),
        **({"duplicates": job.duplicates} if job.duplicates else {}),
    )
    found.add_job(job.where, document, known)


def _add_policies(document: dict[str, object], job: SourceJob) -> list[str]:
    """Add smear and catch-up as far as a definition can express them; return notes."""
    try:
        when = parse_definition(document).when
    except InvalidDefinition:
        return []  # the job is left out, with this reason
    notes: list[str] = []
    smear, period = job.schedule.smear, shortest_period(when)
    if smear and period and smear > period:
        spread = f"spread over {period_text(period)}, the shortest time between two of them"
        notes.append(f"{spread}, not over {period_text(smear)}")
        smear = period
    policies = {"smear": smear and period_text(smear), "catch_up": job.catch_up}
    for name, policy in policies.items():
        if not policy:
            continue
        try:
            parse_definition({**document, name: policy})
        except InvalidDefinition as error:
            notes.append(f"{name} {policy} is not converted: {refusal_of(error).reason}")
        else:
            document[name] = policy
    return notes


def fixed_rate(period: timedelta, anchor: datetime, name: str) -> dict[str, object]:
    """Return a fixed rate with a phase by name, to the minute, the same on every run."""
    minutes = int(period.total_seconds()) // 60
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    phase = timedelta(minutes=number % minutes) if minutes else timedelta()
    return {
        "every": period_text(period),
        "anchor": (anchor + phase).astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }


def hashed_name(stem: str, said: str) -> str:
    """Name a job by its program or unit, and by the text `said` about it in the source.

    Other lines do not change it: a name that they changed would be a second definition of the job.
    """
    return f"{stem}-{hashlib.sha256(said.encode()).hexdigest()[:_HASH_CHARS]}"


def seems_secret(text: str) -> bool:
    """Return whether a command or an input seems to have a password or a token in it."""
    return _SECRET.search(text) is not None


def unreadable(error: ValidationError) -> ImportRefusal:
    """Return what is wrong with a job, without quoting it."""
    reasons: list[str] = []
    accepted: list[str] = []
    for one in error.errors(include_url=False, include_input=False):
        context = one.get("ctx") or {}
        place = ".".join(map(str, one["loc"]))
        reason = one["msg"].removeprefix("Value error, ")
        reasons.append(f"{place}: {reason}" if place else reason)
        if "accepted" in context:
            accepted.append(str(context["accepted"]))
    return ImportRefusal("; ".join(reasons), "; ".join(accepted) or None)
