"""Apply an event rule to an example event, before it is defined."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, cast

from dueledger.ledger.definitions.documents import read_documents
from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, Supersession
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.runtime.text_file import EVENT_BYTES_MAX, read_text

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventEffect:
    """A consequence of the event: an item with its fields, or a withdrawal."""

    effective_date: date | None
    text: str
    fields: dict[str, object]


def example_event(path: Path, definition: Definition) -> DomainEvent:
    """Read an event with CloudEvents' attribute names; the default `type` is the rule's."""
    text = read_text(path, EVENT_BYTES_MAX)
    value, *others = [one.value for one in read_documents(text, source=str(path))]
    if others or not isinstance(value, Mapping):
        raise _refused(str(path), "is not one event", '{"type": …, "data": {…}}')
    event = cast("Mapping[str, object]", value)
    if "data" not in event:
        raise _refused("data", "is missing from the event", '{"type": …, "data": {…}}')
    return DomainEvent(
        tenant=definition.tenant,
        source=str(event.get("source", "example")),
        id=str(event.get("id", "example")),
        type=str(event.get("type", definition.event)),
        time=_time(event.get("time")),
        subject=None if event.get("subject") is None else str(event["subject"]),
        data=event["data"],
    )


def apply_event(definition: Definition, event: DomainEvent) -> list[EventEffect]:
    """Return the rule's effects for the event; empty if the rule does not use its type."""
    return [_outcome(found) for found in apply_rule(definition, event)]


def _outcome(found: ItemDraft | Cancellation | Supersession) -> EventEffect:
    match found:
        case ItemDraft():
            return EventEffect(found.effective_date, "owes an item", _fields(found))
        case Supersession():
            draft = found.replacement
            return EventEffect(draft.effective_date, "supersedes open items", _fields(draft))
        case Cancellation():
            says = f"withdraws open items of {found.business_key}"
            return EventEffect(None, says, {"business_key": found.business_key})


def _fields(draft: ItemDraft) -> dict[str, object]:
    names = ("business_key", "cycle", "effective_date", "due_at", "lane", "labels", "payload")
    return {name: getattr(draft, name) for name in names}


def _time(text: object) -> datetime:
    if text is None:
        return _LONG_AGO
    try:
        instant = datetime.fromisoformat(str(text))
    except ValueError:
        reason = "is not an instant"
        raise _refused("time", reason, "2027-03-01T09:00:00Z") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _refused(field: str, reason: str, accepted: str) -> InvalidInput:
    return InvalidInput("The example event cannot be used:", [Problem(field, "", reason, accepted)])
