"""Compute what a domain event owes. Pure: the same input always gives the same drafts.

An event rule reads the event as the document `{id, source, type, subject, time, data}` with
JMESPath. A missing value or one of the wrong type raises InvalidEvent, which names the path, the
definition and the reason; nothing is guessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple, cast

import orjson

from dueledger.ledger.definitions.model import (
    BUSINESS_KEY_CHARS_MAX,
    LABEL_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    Definition,
)
from dueledger.ledger.definitions.policies import EventMatch
from dueledger.ledger.errors import InvalidEvent, InvalidItem, Problem, shown_value
from dueledger.ledger.identity import item_id, unusable_reason
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, RuleEffect, Supersession
from dueledger.ledger.rules.event_issues import FIRST_CYCLE_CHARS_MAX, is_reinstated
from dueledger.ledger.rules.path_evaluation import (
    EVALUATION_FAILED,
    PathDocument,
    TooLarge,
    failure_reason,
    names_of,
    weigh,
)
from dueledger.ledger.rules.schedule_drafts import OVERLAPS
from dueledger.ledger.schedule import Occurrence, Relative, cycle_of, tzdata_version
from dueledger.ledger.schedule.smear import smear_seconds
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN

PARTITION_BY_BUSINESS_KEY: Final = "business_key"
_ISO_DATE_CHARS: Final = 10
_YEAR_MIN: Final = DUE_MIN.year
_YEAR_END: Final = DUE_END.year
_DIGIT_BITS_MAX: Final = 4
_DUE_TIMES_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class DomainEvent:
    """Something that happened in a domain service. `data` is decoded JSON."""

    tenant: str
    source: str
    id: str
    type: str
    time: datetime
    subject: str | None = None
    data: object = None
    traceparent: str | None = None


def apply_rule(
    definition: Definition, event: DomainEvent
) -> list[ItemDraft | Cancellation | Supersession]:
    """Return the effects of `event` under `definition`; empty if the rule does not use its type.

    Raises InvalidEvent if the event lacks a field that the rule reads.
    """
    if definition.event is None or definition.ended:
        return []
    rule = _compiled(definition)
    if event.tenant != rule.tenant or event.type not in rule.event_types:
        return []
    document = rule.document_of(event)
    found: list[ItemDraft | Cancellation | Supersession] = []
    if event.type == definition.event:
        found.append(rule.draft(event, document, rule.business_key))
    for match, path in rule.cancels:
        if match.event == event.type:
            key = rule.text_of(document, path, "cancel_on.business_key")
            found.append(
                Cancellation(rule.tenant, rule.kind, key, event.type, definition.definition)
            )
    for match, path in rule.supersedes:
        if match.event == event.type:
            replacement = rule.draft(event, document, path)
            key = replacement.business_key
            found.append(
                Supersession(
                    rule.tenant, rule.kind, key, event.type, definition.definition, replacement
                )
            )
    return found


def find_effects(
    definition_no: int, definition: Definition, event: DomainEvent
) -> list[RuleEffect]:
    """Return the effects of `event` under `definition`, each with the item that it owes."""
    reinstates = definition.reinstate == "always"
    return [
        RuleEffect(definition_no, effect, _owed_draft(effect), reinstates)
        for effect in apply_rule(definition, event)
    ]


def _owed_draft(effect: ItemDraft | Cancellation | Supersession) -> ItemDraft | None:
    match effect:
        case ItemDraft():
            return effect
        case Supersession(replacement=draft):
            return draft
        case Cancellation():
            return None


class _DueTime(NamedTuple):
    """When an item is due, the local time that its rule names, and how one became the other."""

    due_at: datetime
    nominal: str
    decision: str


class _CompiledRule:
    """A definition with every path compiled once."""

    def __init__(self, definition: Definition, when: Relative) -> None:
        self.definition = definition
        self.when = when
        self.observance = definition.observance()
        self.tenant = definition.tenant
        self.kind = definition.kind
        self.name = definition.definition
        self.event_types = definition.event_types
        self.business_key = definition.business_key
        self.cycle = definition.cycle or ""
        self.effective_date = definition.effective_date or ""
        self.cancels = _matches(definition.cancel_on)
        self.supersedes = _matches(definition.supersede_on)
        self.partition_key = definition.dispatch.partition_key
        self.partition_field = f"dispatch.{definition.dispatch.method}.partition_key"
        self.start_within = definition.sla.start_within
        self.complete_within = definition.sla.complete_within
        self.payload = _payload(definition.payload)
        self.labels = tuple(definition.labels.items())
        self.lane = definition.lane
        self.overlap = OVERLAPS[definition.overlap]
        self.tzdata = tzdata_version()
        self.smear = definition.smear
        self.window = definition.catch_up.window
        self.reads_time = any(_may_read_time(path) for path in self._paths())
        self.builds_payload = not isinstance(self.payload, str) or names_of(self.payload) is None
        self._due_times: dict[date, _DueTime] = {}

    def _paths(self) -> Iterator[str]:
        """Yield every path that it may evaluate."""
        yield from (self.business_key, self.cycle, self.effective_date)
        if self.partition_key != PARTITION_BY_BUSINESS_KEY:
            yield self.partition_key
        yield from (path for _, path in (*self.cancels, *self.supersedes, *self.labels))
        yield from [self.payload] if isinstance(self.payload, str) else self.payload.values()

    def document_of(self, event: DomainEvent) -> PathDocument:
        """Return the event as its paths read it."""
        members = {
            "id": event.id,
            "source": event.source,
            "type": event.type,
            "subject": event.subject,
            "data": event.data,
        }
        if self.reads_time:
            time = event.time.astimezone(UTC).isoformat().replace("+00:00", "Z")
            members["time"] = time
        return PathDocument(members)

    def draft(
        self, event: DomainEvent, document: PathDocument, business_key_path: str
    ) -> ItemDraft:
        """Return the item that the event owes."""
        business_key = self.text_of(document, business_key_path, "business_key")
        effective_date = self.date_of(document, self.effective_date)
        due_at, nominal, decision = self.due_time(effective_date)
        cycle = self.text_of(document, self.cycle, "cycle", FIRST_CYCLE_CHARS_MAX)
        if is_reinstated(cycle):
            reason = "ends as the cycle of a reinstatement does"
            raise self.refused("cycle", self.cycle, cycle, reason, "the name of a term")
        smear_by = None
        if self.smear is not None:
            item = item_id(self.tenant, self.kind, business_key, cycle, effective_date)
            smear_by = smear_seconds(item, self.smear)
            due_at += timedelta(seconds=smear_by)
        labels = {
            name: self.text_of(document, path, f"labels.{name}", LABEL_CHARS_MAX)
            for name, path in self.labels
        }
        return ItemDraft(
            tenant=self.tenant,
            kind=self.kind,
            lane=labels[self.lane] if self.lane else "",
            business_key=business_key,
            cycle=cycle,
            effective_date=effective_date,
            due_at=due_at,
            start_by=due_at + self.start_within if self.start_within else None,
            complete_by=due_at + self.complete_within if self.complete_within else None,
            payload=self.payload_of(document),
            partition_key=None
            if self.partition_key == PARTITION_BY_BUSINESS_KEY
            else self.text_of(document, self.partition_key, self.partition_field),
            labels=orjson.dumps(labels).decode() if labels else None,
            definition_name=self.name,
            nominal=nominal,
            zone=self.when.timezone,
            decision=decision,
            tzdata=self.tzdata,
            traceparent=event.traceparent,
            smear_seconds=smear_by,
            overlap=self.overlap,
            overlap_key=None if self.overlap is None else f"{self.name}/{business_key}",
            catch_up_until=due_at + self.window if self.window else None,
        )

    def text_of(
        self, document: PathDocument, path: str, field: str, chars_max: int = BUSINESS_KEY_CHARS_MAX
    ) -> str:
        """Return the text at `path`; a whole number is converted to its digits."""
        found = self.value_of(document, path, field)
        if isinstance(found, int) and not isinstance(found, bool):
            if found.bit_length() > _DIGIT_BITS_MAX * chars_max:  # Python prints no longer ones
                raise self.refused(field, path, None, f"longer than {chars_max} characters")
            found = str(found)
        if not isinstance(found, str):
            accepted = "a text or a whole number"
            raise self.refused(field, path, found, "neither a text nor a whole number", accepted)
        if not found:
            raise self.refused(field, path, found, "is empty")
        if len(found) > chars_max:
            raise self.refused(field, path, found, f"longer than {chars_max} characters")
        if not found.isprintable() and (reason := unusable_reason(found)):
            raise self.refused(field, path, found, reason)
        return found

    def date_of(self, document: PathDocument, path: str) -> date:
        """Return the calendar date at `path`."""
        field = "effective_date"
        found = self.value_of(document, path, field)
        accepted = "a date such as 2027-03-01"
        if not isinstance(found, str) or len(found) != _ISO_DATE_CHARS or found[7] != "-":
            raise self.refused(field, path, found, "not a date", accepted)
        try:
            effective_date = date.fromisoformat(found)
        except ValueError:
            raise self.refused(field, path, found, "not a date", accepted) from None
        if not _YEAR_MIN <= effective_date.year < _YEAR_END:
            raise self.refused(field, path, found, "outside 1970 to 2199")
        return effective_date

    def due_time(self, effective_date: date) -> "_DueTime":
        """Return when the item is due. Raises InvalidEvent outside the years of the ledger.

        The last dates are kept: many items of a rule have the same one.
        """
        known = self._due_times.get(effective_date)
        if known is None:
            if len(self._due_times) >= _DUE_TIMES_MAX:
                self._due_times.clear()
            found = self._occurrence_for(effective_date)
            known = _DueTime(found.due_at, cycle_of(found.nominal), found.decision.value)
            self._due_times[effective_date] = known
        return known

    def _occurrence_for(self, effective_date: date) -> Occurrence:
        try:
            occurrence = self.when.due_for(effective_date, self.observance)
        except InvalidItem as error:
            raise InvalidEvent(self.problem_heading, error.problems, definition=self.name) from None
        if not DUE_MIN <= occurrence.due_at < DUE_END:
            shown = occurrence.due_at.isoformat()
            raise self.refused("due_at", self.effective_date, shown, "outside 1970 to 2199")
        return occurrence

    def payload_of(self, document: PathDocument) -> str:
        """Return the payload as JSON text with sorted names, whatever order the event has."""
        payload: object
        if isinstance(self.payload, str):
            payload = self.value_of(document, self.payload, "payload")
        else:
            payload = {
                name: self.search(document, path, f"payload.{name}")
                for name, path in self.payload.items()
            }
        try:
            if self.builds_payload:
                weigh(payload, PAYLOAD_BYTES_MAX)  # of paths that each give the whole event
            text = orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)
        except TooLarge:
            reason, accepted = "over 256 KiB", "a reference to what is large"
            raise self.refused("payload", "", None, reason, accepted) from None
        except (orjson.JSONEncodeError, RecursionError) as error:
            raise self.refused("payload", "", None, str(error)) from None
        if len(text) > PAYLOAD_BYTES_MAX:
            reason = f"{len(text):,} bytes, over 256 KiB"
            raise self.refused("payload", "", None, reason, "a reference to what is large")
        return text.decode()

    def value_of(self, document: PathDocument, path: str, field: str) -> object:
        """Return the value at `path`. Raises InvalidEvent if it is missing or null."""
        found = self.search(document, path, field)
        if found is None:
            raise self.refused(field, path, None, "is missing or null in the event")
        return found

    def search(self, document: PathDocument, path: str, field: str) -> object:
        """Evaluate `path`; None if there is no value."""
        try:
            return document.search(path)
        except EVALUATION_FAILED as error:
            raise self.refused(field, path, None, failure_reason(error)) from None

    def refused(
        self, field: str, path: str, value: object, reason: str, accepted: str | None = None
    ) -> InvalidEvent:
        """Return the error that names the path, the definition's field and the reason."""
        place = f"{path} (as {field})" if path else field
        shown = "" if value is None else shown_value(value)
        problem = Problem(place, shown, reason, accepted)
        return InvalidEvent(self.problem_heading, [problem], definition=self.name, path=path)

    @property
    def problem_heading(self) -> str:
        """Return the sentence above the problems."""
        return f"Definition {self.name} of {self.tenant} cannot apply to the event."


def _may_read_time(path: str) -> bool:
    """Return whether a path may read the event's time: one that follows names says so."""
    names = names_of(path)
    return bool(path) and (names is None or names[0] == "time")


@lru_cache(maxsize=65_536)
def _compiled(definition: Definition) -> _CompiledRule:
    if not isinstance(definition.when, Relative):
        problem = Problem("when", "", "recurs by itself; events do not move it")
        raise InvalidItem(f"{definition.definition} is not an event rule.", [problem])
    return _CompiledRule(definition, definition.when)


def _matches(matches: tuple[EventMatch, ...]) -> tuple[tuple[EventMatch, str], ...]:
    return tuple((match, match.business_key) for match in matches)


def _payload(payload: object) -> str | dict[str, str]:
    return payload if isinstance(payload, str) else cast("dict[str, str]", payload)
