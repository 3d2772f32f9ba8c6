"""The definition's model: what is owed, when, and by which rule. The same in YAML, JSON and REST.

A definition without `event` is a schedule: it recurs by itself. One with `event` is an event rule:
an event of that type owes one item. One with neither a `when` nor an `event` declares a kind: how
the items are worked that services emit. Fields that are not supported are refused by name.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Literal, Self, cast

import orjson
from pydantic import Field, JsonValue, PrivateAttr, StrictBool, model_validator
from pydantic_core import PydanticCustomError

from dueledger.ledger.definitions.declaration import (
    OWING_FIELDS,
    check_declaration,
    check_partition_key,
)
from dueledger.ledger.definitions.fields import (
    DefinitionName,
    DocumentPart,
    EventType,
    JmesPath,
    JsonPointer,
    KeyText,
    Token,
    check_path,
    field_error,
)
from dueledger.ledger.definitions.policies import (
    CatchUpPolicy,
    DeadlinePolicy,
    Dispatch,
    EventMatch,
    KafkaDispatch,
    OperationPolicy,
    OrderPolicy,
    RetryPolicy,
    SlaPolicy,
)
from dueledger.ledger.identity import NUL
from dueledger.ledger.schedule import (
    CHAINED,
    DATED,
    NO_CALENDARS,
    RECURRING,
    At,
    Business,
    Calendar,
    CalendarRule,
    Observance,
    Relative,
    Roll,
    When,
)
from dueledger.ledger.schedule.expressions import Period, period_text
from dueledger.ledger.schedule.falls_due import ever_due
from dueledger.ledger.schedule.observance import weekdays_rule
from dueledger.ledger.schedule.smear import shortest_period

BUSINESS_KEY_CHARS_MAX: Final = 512
CYCLE_CHARS_MAX: Final = 200
LABELS_MAX: Final = 32
LABEL_CHARS_MAX: Final = 100
LABELS_BYTES_MAX: Final = 8_192
PAYLOAD_BYTES_MAX: Final = 262_144
REDACTED_FIELDS_MAX: Final = 50


def _default_dispatch(fields: dict[str, Any]) -> Dispatch:
    return Dispatch(kafka=KafkaDispatch(topic=f"due.{fields['kind']}"))


def _default_payload(fields: dict[str, Any]) -> JsonValue:
    return "data" if fields["event"] is not None else {}


def _default_calendar(fields: dict[str, Any]) -> CalendarRule | None:
    return weekdays_rule() if isinstance(fields.get("when"), Business) else None


class Definition(DocumentPart):
    """One version of a definition document, with every default filled in."""

    definition: DefinitionName
    tenant: Token
    kind: Token
    source: DefinitionName | None = Field(
        default=None, description="the import that made it; `define --prune` ends those of one"
    )
    ended: StrictBool = Field(
        default=False, description="nothing is owed from when this version is in force"
    )
    event: EventType | None = Field(
        default=None, description="type of the events that owe an item; none: a schedule"
    )
    business_key: KeyText | None = Field(
        description="a JMESPath on the event, or a schedule's constant of at most 512 characters"
    )
    cycle: JmesPath | None = Field(
        default=None,
        description="name of the occurrence: a JMESPath on the event; of a schedule, its nominal "
        "time",
    )
    effective_date: JmesPath | None = Field(
        default=None,
        description="a JMESPath on the event that gives a date; of a schedule, the nominal date",
    )
    when: When | None
    calendar: CalendarRule | None = Field(
        default_factory=_default_calendar,
        description="which days are business days, and what happens to occurrences on other days",
    )
    cancel_on: tuple[EventMatch, ...] = ()
    supersede_on: tuple[EventMatch, ...] = ()
    reinstate: Literal["always", "never"] = Field(
        default="always",
        description="whether an event owes an item again that an earlier event withdrew; each "
        "reinstatement is an item of its own",
    )
    labels: dict[Token, KeyText] = Field(
        default_factory=dict,
        max_length=LABELS_MAX,
        description="JMESPaths on the event, or a schedule's constants",
    )
    lane: Token | None = Field(
        default=None,
        description="the label whose values separate flows; each flow can be paused alone",
    )
    catch_up: CatchUpPolicy = CatchUpPolicy()
    smear: Period | None = Field(
        default=None,
        description="items are delayed by up to this long after their nominal time, by a hash of "
        "their id",
    )
    overlap: Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_other"] = Field(
        default="allow",
        description="what an item does while another of its definition (and business key, for an "
        "event rule) is handed out",
    )
    order: OrderPolicy = OrderPolicy()
    deadlines: DeadlinePolicy = DeadlinePolicy()
    sla: SlaPolicy = SlaPolicy()
    retry: RetryPolicy = RetryPolicy()
    operations: OperationPolicy = OperationPolicy()
    dispatch: Dispatch = Field(default_factory=_default_dispatch)
    redacted_fields: tuple[JsonPointer, ...] | None = Field(
        default=None,
        max_length=REDACTED_FIELDS_MAX,
        description="JSON Pointers (RFC 6901) into payloads of the kind whose values are shown as "
        "[redacted], to handlers alone as they are; `*` is each element or member; none: as the "
        "kind has them",
    )
    payload: JsonValue = Field(
        default_factory=_default_payload,
        description="a JMESPath on the event (default: its data), a map of name to JMESPath, "
        "or a schedule's constant (default: {})",
    )

    # Not part of the document: the days of `calendar.name`, set by `with_calendar`.
    _named: Calendar | None = PrivateAttr(default=None)

    def __hash__(self) -> int:
        return hash((self.tenant, self.definition))

    @model_validator(mode="before")
    @classmethod
    def _name_declaration(cls, document: object) -> object:
        """Complete the declaration of a kind, which has the kind's name if it has none."""
        given = cast("Mapping[str, object]", document) if isinstance(document, Mapping) else {}
        if "kind" not in given or any(name in given for name in OWING_FIELDS):
            return cast("object", document)
        return {"definition": given["kind"], **given, **dict.fromkeys(OWING_FIELDS)}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.is_declaration:
            check_declaration(self, self.dispatch)
            return self
        for field in ("business_key", "when"):
            if getattr(self, field) is None:
                raise field_error(field, "is missing", f"{field}: …")
        if self.event is None:
            _check_schedule(self)
        else:
            _check_event_rule(self)
        _check_storable(self.payload)
        if self.calendar is not None:
            _check_calendar(self, self.calendar)
        _check_falls_due(self)
        if self.lane is not None and self.lane not in self.labels:
            known = ", ".join(self.labels) or "none is given"
            raise field_error(
                "lane", "names no label of this definition", f"one of the labels: {known}"
            )
        _check_smear(self)
        _check_catch_up(self)
        return self

    @property
    def is_schedule(self) -> bool:
        """Return whether the definition recurs by itself."""
        return self.event is None and self.when is not None

    @property
    def is_declaration(self) -> bool:
        """Return whether the definition owes nothing itself and says how a kind is worked."""
        return self.event is None and self.when is None and self.business_key is None

    @property
    def event_types(self) -> frozenset[str]:
        """Return every event type that the definition acts on."""
        matches = (*self.cancel_on, *self.supersede_on)
        own = () if self.event is None else (self.event,)
        return frozenset((*own, *(match.event for match in matches)))

    @property
    def calendar_name(self) -> str | None:
        """Return the name of the calendar that it uses, None if it names none."""
        return None if self.calendar is None else self.calendar.name

    def with_calendar(self, calendars: Mapping[str, Calendar]) -> Self:
        """Return the same definition with the days of the calendar that it names.

        Raises UnknownCalendar if `calendars` has no such name. A definition that names no calendar
        is returned unchanged.
        """
        rule = self.calendar
        if rule is None or rule.name is None:
            return self
        named = rule.calendar(calendars)
        if self._named is named:
            return self
        bound = self.model_copy()
        bound._named = named  # noqa: SLF001 - its own
        return bound

    def with_redacted_fields(self, fields: Sequence[str]) -> Self:
        """Return the same definition with other redacted fields."""
        changed = self.model_copy(update={"redacted_fields": tuple(fields)})
        changed.__dict__.pop("digest", None)  # computed for the fields before
        return changed

    def observance(self) -> Observance | None:
        """Return how the definition observes its calendar, None if it has no calendar.

        Raises UnknownCalendar if it names a calendar and `with_calendar` has not set its days.
        """
        rule = self.calendar
        if rule is None:
            return None
        if rule.name is None:
            return self._inline_observance
        named = self._named or rule.calendar(NO_CALENDARS)
        return Observance(named, rule.roll or Roll.SKIP)

    @cached_property
    def _inline_observance(self) -> Observance | None:
        rule = self.calendar
        return None if rule is None else Observance(rule.calendar(), rule.roll or Roll.SKIP)

    def normalised(self) -> dict[str, JsonValue]:
        """Return the canonical document, with each default that has a value.

        Parsing it gives an equal one.
        """
        return self.model_dump(mode="json", exclude_none=True)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the canonical document. Equal if and only if nothing changed."""
        return sha256(orjson.dumps(self.normalised(), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _check_calendar(definition: Definition, rule: CalendarRule) -> None:
    when = definition.when
    if isinstance(when, CHAINED):
        reason = "`after_completion` has no times of its own that a calendar could move"
        raise field_error("calendar", reason, "nothing here, or another `when`")
    own = isinstance(when, Business) and (when.business.roll or when.business.nth)
    if rule.roll is None and not own:
        accepted = "roll: following, preceding, modified_following, nearest, or skip"
        if isinstance(when, Business):
            accepted = "{day_of_month: …, roll: …} in `when`, or `roll` here"
        raise field_error("calendar.roll", "is missing", accepted)
    if isinstance(when, Business) and when.business.roll not in {None, rule.roll, *_no_roll(rule)}:
        raise field_error(
            "calendar.roll", "differs from the one in `when.business`", "one of the two"
        )
    if isinstance(when, Relative) and rule.roll is Roll.SKIP:
        reason = "an event's item is owed once, so its day cannot be skipped"
        raise field_error(
            "calendar.roll", reason, "following, preceding, modified_following or nearest"
        )
    if rule.name is None:
        _check_reach(when, rule.calendar())


def _no_roll(rule: CalendarRule) -> tuple[Roll | None, ...]:
    return tuple(Roll) if rule.roll is None else ()


def _check_reach(when: When, calendar: Calendar) -> None:
    """Refuse a start after the calendar's last day, and an nth business day that no month has."""
    begin = when.at if isinstance(when, At) else getattr(when, "start", None)
    if begin is not None and calendar.last_day is not None and begin.date() > calendar.last_day:
        field = "when.at" if isinstance(when, At) else "when.start"
        reason = f"is after the calendar's last day, {calendar.last_day}"
        raise field_error(field, reason, "a calendar that covers it")
    days_worked = 7 - len(calendar.weekend)
    if isinstance(when, Business) and when.business.nth and not calendar.workdays:
        # Four whole weeks and three days: as many weekend days as possible are in the weeks.
        most = 4 * days_worked + min(3, days_worked)
        if abs(when.business.nth) > most:
            reason = f"no month has more than {most} business days"
            raise field_error("when.business", reason, f"nth: 1 to {most}, or from the end")


def _check_falls_due(definition: Definition) -> None:
    """Refuse a schedule that is never due. Calendars by name are checked by `define`."""
    when, rule = definition.when, definition.calendar
    if definition.ended or not isinstance(when, RECURRING) or getattr(when, "sparse", False):
        return
    if (rule is not None and rule.name is not None) or ever_due(when, definition.observance()):
        return
    if ever_due(when, None) and rule is not None and rule.roll is Roll.SKIP:
        reason = "it never falls due: the calendar skips every day on which it is due"
        raise field_error("calendar.roll", reason, "another roll, or other days")
    if getattr(when, "end", None) is not None:
        reason = "it never falls due: there is no occurrence between its start and its end"
        raise field_error("when.end", reason, "a later end, or none")
    reason = "it never falls due"
    raise field_error("when", reason, "times and days that exist in the calendar")


def _check_smear(definition: Definition) -> None:
    if definition.smear is None:
        return
    if isinstance(definition.when, CHAINED):
        raise field_error(
            "smear",
            "each item follows the one before it: there is nothing to spread",
            "nothing here, or a longer `after_completion`",
        )
    period = shortest_period(definition.when)
    if period is not None and definition.smear > period:
        raise field_error(
            "smear",
            f"longer than the shortest time between two occurrences, {period_text(period)}",
            f"at most {period_text(period)}",
        )


def _check_catch_up(definition: Definition) -> None:
    catch_up = definition.catch_up
    if catch_up.keeps_all or isinstance(definition.when, RECURRING):
        return
    if not definition.is_schedule:
        if catch_up.policy != "all":
            reason = "each event owes its own item, whatever came before or after it"
            raise field_error("catch_up.policy", reason, "policy: all, with a window or without")
        return
    limits = (name for name in ("window", "max_items") if getattr(catch_up, name))
    reason = "the next item is owed when the one before ends: none is ever missed"
    raise field_error(f"catch_up.{next(limits, 'policy')}", reason, "policy: all, and nothing else")


def _check_schedule(definition: Definition) -> None:
    if isinstance(definition.when, DATED):
        raise field_error(
            "when",
            "`relative` counts from an event's date, and no `event` is given",
            "an `event:`, or a `when` that recurs by itself: cron or every",
        )
    for field in ("cycle", "effective_date", "cancel_on", "supersede_on"):
        if getattr(definition, field):
            raise field_error(
                field,
                "belongs to an event rule, and no `event` is given",
                "nothing here: a schedule takes them from its nominal local time",
            )
    if definition.reinstate != "always":
        reason = "belongs to an event rule, and no `event` is given"
        raise field_error("reinstate", reason, "nothing here: no event withdraws its items")
    if len(definition.business_key or "") > BUSINESS_KEY_CHARS_MAX:
        raise field_error(
            "business_key",
            f"longer than {BUSINESS_KEY_CHARS_MAX} characters",
            "a shorter constant",
        )
    check_partition_key(definition.dispatch, "a schedule")
    for name, value in definition.labels.items():
        if len(value) > LABEL_CHARS_MAX:
            raise field_error(
                f"labels.{name}", f"longer than {LABEL_CHARS_MAX} characters", "a shorter text"
            )
    # Encoded as Postgres does, because the limit is a constraint of the table.
    if len(json.dumps(definition.labels, ensure_ascii=False).encode()) > LABELS_BYTES_MAX:
        raise field_error("labels", "larger than 8 KiB together", "fewer labels, or shorter ones")
    _check_constant(definition.payload)


def _check_constant(payload: JsonValue) -> None:
    try:
        encoded = orjson.dumps(payload)
    except orjson.JSONEncodeError as error:
        raise field_error("payload", str(error), "a JSON value") from None
    if payload is None or len(encoded) > PAYLOAD_BYTES_MAX:
        raise field_error(
            "payload", "null, or over 256 KiB", "a JSON value of at most 262,144 bytes, or {}"
        )


def _check_storable(payload: JsonValue) -> None:
    """Refuse NUL in any text: Postgres cannot store it in jsonb."""
    waiting = [payload]
    while waiting:
        match waiting.pop():
            case str() as text if NUL in text:
                raise field_error("payload", "has NUL (U+0000)", "a text without it")
            case dict() as members:
                waiting += [*members, *members.values()]
            case list() as members:
                waiting += members
            case _:
                pass


def _check_dated(when: When) -> None:
    if isinstance(when, At):
        raise field_error(
            "when",
            "`at` is the same time for every event; each event's item needs its own date",
            "{relative: P0D, at: …, timezone: …} with a constant such as "
            """effective_date: '`"2027-01-01"`'""",
        )
    if not isinstance(when, DATED):
        raise field_error(
            "when",
            "it recurs by itself, but an event owes one item at one time",
            "{relative: P-30D, at: …, timezone: …}, or no `event:`",
        )


def _check_event_rule(definition: Definition) -> None:
    _check_dated(definition.when)
    for field in ("cycle", "effective_date"):
        if getattr(definition, field) is None:
            raise field_error(
                field,
                "is missing, and an event rule needs it",
                f"a path on the event such as data.{field}",
            )
    paths = {"business_key": definition.business_key} | {
        f"labels.{name}": text for name, text in definition.labels.items()
    }
    match definition.payload:
        case str() as path:
            paths["payload"] = path
        case dict() as members:
            for name, member in members.items():
                if not isinstance(member, str):
                    raise field_error(
                        f"payload.{name}", "not a JMESPath", "a path, or a literal in backticks"
                    )
                paths[f"payload.{name}"] = member
        case _:
            raise field_error(
                "payload", "neither a JMESPath nor a map of them", "data, or {policy: data.number}"
            )
    for field, path in paths.items():
        try:
            check_path(path)
        except PydanticCustomError as error:
            context = error.context or {}
            raise field_error(field, context["reason"], context["accepted"]) from None
