"""A finding: its stable id, both sides of its evidence, and a sentence for people."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

import orjson

from dueledger.ledger.finding_types import (
    FINDING_RULES,
    WHOLE_LEDGER,
    FindingType,
    RepairAction,
    Severity,
)
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Record
from dueledger.ledger.witness import WitnessedTimes

_SEPARATOR: Final = "\x1f"

EvidenceFields = dict[str, str | int | float | bool | None]
"""One side of a finding's evidence: plain values, so that it reads the same in every format."""


def uuid8(*parts: str) -> UUID:
    """Return the UUIDv8 (RFC 9562) of `parts`, computed as item ids are."""
    digest = bytearray(hashlib.sha256(_SEPARATOR.join(parts).encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def repair_id(
    finding_id: UUID,
    action: RepairAction,
    opened_count: int,
    terms: Mapping[str, Any] | None = None,
) -> UUID:
    """Return the id of `action` on the finding's `opened_count`-th opening: applied once.

    `terms` are those of an item to emit. Other terms are another repair: who approved one did not
    approve the other.
    """
    parts = "repair", str(finding_id), action, str(opened_count)
    if terms is None:
        return uuid8(*parts)
    return uuid8(*parts, orjson.dumps(terms, option=orjson.OPT_SORT_KEYS).decode())


@dataclass(frozen=True, slots=True)
class FindingSubject:
    """What a finding is about. `name` is unique within its type, tenant and kind."""

    tenant: str
    kind: str
    name: str
    item_id: UUID | None = None
    business_key: str | None = None
    effective_date: date | None = None
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference that holds now. `terms` are those of an item to emit, as JSON."""

    type: FindingType
    subject: FindingSubject
    sentence: str
    expected: EvidenceFields = field(default_factory=EvidenceFields)
    actual: EvidenceFields = field(default_factory=EvidenceFields)
    terms: str | None = None

    @property
    def id(self) -> UUID:
        """Return the id: the same subject has the same id in every pass."""
        subject = self.subject
        return uuid8("finding", self.type, subject.tenant, subject.kind, subject.name)

    @property
    def severity(self) -> Severity:
        """Return how bad it is."""
        return FINDING_RULES[self.type].severity


def source_failed(
    name: str, reason: str, kinds: Collection[tuple[str, str]] | None = None
) -> Finding:
    """Return the finding that `name` could not be read; its missing rows prove nothing.

    `kinds` are those that it may name, by tenant: of these nothing is made until it is read again.
    """
    named = (
        None if kinds is None else "\n".join(f"{tenant} {kind}" for tenant, kind in sorted(kinds))
    )
    return Finding(
        FindingType.SOURCE_FAILED,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, name),
        f"The source {name} could not be read ({reason}), so nothing was concluded from it.",
        expected={"source": name, "readable": True, "kinds": named},
        actual={"source": name, "readable": False, "reason": reason},
    )


def definition_failed(tenant: str, kind: str, name: str, version: int, reason: str) -> Finding:
    """Return the finding that a definition in force could not be expanded."""
    return Finding(
        FindingType.DEFINITION_FAILED,
        FindingSubject(tenant, kind, name),
        f"Version {version} of the definition {name} could not be expanded: {reason}.",
        expected={"definition": name, "version": version, "expandable": True},
        actual={"reason": reason},
    )


def definition_changed(tenant: str, kind: str, name: str, version: int) -> Finding:
    """Return the finding that a version was changed in place, so that nothing follows from it."""
    return Finding(
        FindingType.TAMPERED,
        FindingSubject(tenant, kind, f"{name}, version {version}"),
        f"Version {version} of the definition {name} is not the document that was defined. "
        "Nothing was concluded from it, and nothing of its kind is repaired.",
        expected={"definition": name, "version": version, "digest": "as defined"},
        actual={"digest": "another"},
    )


def clock_set_back(as_of: datetime, latest: datetime) -> Finding:
    """Return the finding that an earlier pass was about a later time."""
    return Finding(
        FindingType.TAMPERED,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, "the business clock"),
        f"The business clock was set back: it is {as_of:%Y-%m-%d %H:%M:%S} UTC, and an earlier "
        f"pass was as of {latest:%Y-%m-%d %H:%M:%S} UTC. What became due since then is not seen. "
        "Nothing is repaired until the clock has passed that time again.",
        expected={"not_before": latest.isoformat()},
        actual={"as_of": "earlier"},
    )


def disagrees(
    tenant: str, kind: str, name: str, version: int, witnessed: WitnessedTimes
) -> Finding:
    """Return the finding that a library expands a version of a schedule to other times."""
    return Finding(
        FindingType.DISAGREES,
        FindingSubject(tenant, kind, f"{name}, version {version}"),
        f"Version {version} of the definition {name}: {witnessed}.",
        expected={"package": witnessed.package, "local_times": _listed(witnessed.theirs)},
        actual={"parts_after": witnessed.parts_after, "local_times": _listed(witnessed.ours)},
    )


def _listed(times: Iterable[datetime]) -> str:
    return ", ".join(each.isoformat() for each in times)


def unbalanced(tenant: str, kind: str, items: int, places: dict[str, int]) -> Finding:
    """Return the finding that the accounting identity of a kind does not hold."""
    accounted = sum(places.values())
    off = items - accounted
    what = f"{off} have no state" if off > 0 else f"{-off} have two states"
    return Finding(
        FindingType.UNBALANCED,
        FindingSubject(tenant, kind, "accounting"),
        f"The ledger has {items} items of {kind} for {tenant} but accounts for {accounted}: "
        f"{what}.",
        expected={"items": items},
        actual={**places, "accounted": accounted, "difference": off},
    )


def unowned_ending(ending: Record) -> Finding:
    """Return the finding that the journal has an ending of an item that does not exist."""
    number, day = ending["item_no"], ending["effective_date"]
    event = TransitionEvent(ending["event"]).label
    return Finding(
        FindingType.UNBALANCED,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"ending:{number}", effective_date=day),
        f"The journal has item {number}, effective {day}, as {event} at "
        f"{ending['at']:%Y-%m-%d %H:%M:%S} UTC, and the ledger has no such item.",
        expected={"item_no": number},
        actual={"item_no": None, "event": event, "at": ending["at"].isoformat()},
    )


def stuck_run(row: Record) -> Finding:
    """Return the finding that a run's lease lapsed and its items were not released.

    One that is settled by topic began when it was published: maybe no outcome came at all.
    """
    run_no, lease_until, open_count = row["run_no"], row["lease_until"], row["open_count"]
    worker = row["worker"] or "an unknown worker"
    unanswered = ", no outcome of it came" if row["is_unanswered"] else ""
    return Finding(
        FindingType.PUBLISHED_NO_OUTCOME if row["is_unanswered"] else FindingType.STUCK,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"run:{run_no}"),
        f"Run {run_no} of {worker} still has {open_count} items although its lease lapsed "
        f"{span(row['lapsed_seconds'])} ago{unanswered}, and they were not released.",
        expected={"lease_until": lease_until.isoformat(), "closed": True},
        actual={"run": run_no, "fence": row["fence"], "worker": worker, "open_items": open_count},
    )


def stuck_claim(row: Record) -> Finding:
    """Return the finding that a claim's deadline passed and items were not released."""
    fence, topic, open_count = row["fence"], row["topic"], row["open_count"]
    published = "was published and " if row["is_published"] else ""
    return Finding(
        FindingType.PUBLISHED_NO_OUTCOME if row["is_published"] else FindingType.STUCK,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"claim:{fence}"),
        f"Claim {fence} on {topic} {published}still has {open_count} items that were not started "
        f"although its deadline passed {span(row['lapsed_seconds'])} ago.",
        expected={"deadline": row["deadline"].isoformat(), "closed": True},
        actual={"fence": fence, "topic": topic, "open_items": open_count},
    )


def outcome_rejected(verb: str, reason: str, count: int) -> Finding:
    """Return the information that writes of a kind were refused, because they were not valid."""
    writes = "write was" if count == 1 else "writes were"
    return Finding(
        FindingType.OUTCOME_REJECTED,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"writes:{verb}:{reason}"),
        f"{count:,} {writes} refused: {verb}, {reason}. They changed nothing.",
        expected={"accepted": False},
        actual={"verb": verb, "reason": reason, "count": count},
    )


def span(seconds: float) -> str:
    """Return a length of time in the largest unit that fits, as in ``3 h``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
