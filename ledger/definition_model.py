"""The definition's model: what is owed, when, and by which rule. The same in YAML, JSON, REST.

One definition is a schedule (no `event`: recurs by itself) or an event rule (`event`: an event of
that type owes one item). Whatever is not honoured yet is refused by name, never ignored.
"""

from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

import jmespath
import orjson
from jmespath.exceptions import JMESPathError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ledger.identity import unusable_reason
from ledger.schedule import DATED, Cron, Every, When
from ledger.schedule.expressions import Period, refused

NAME_CHARS_MAX: Final = 200
TOKEN_CHARS_MAX: Final = 100
BUSINESS_KEY_CHARS_MAX: Final = 512
CYCLE_CHARS_MAX: Final = 200
PATH_CHARS_MAX: Final = 1000
LABELS_MAX: Final = 32
LABEL_CHARS_MAX: Final = 100
PAYLOAD_BYTES_MAX: Final = 262_144
TOPIC_CHARS_MAX: Final = 249  # Kafka's own limit


def _usable(text: str) -> str:
    if reason := unusable_reason(text):
        raise refused(reason, "a text without control characters")
    return text


def _path(text: str) -> str:
    try:
        jmespath.compile(text)
    except (JMESPathError, RecursionError) as error:
        reason = f"not a JMESPath expression: {' '.join(str(error).split())}"
        raise refused(reason, "a path on the event such as data.policy_number") from None
    return text


def _chars(length_max: int) -> StringConstraints:
    return StringConstraints(min_length=1, max_length=length_max, strict=True)


Token = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=TOKEN_CHARS_MAX, pattern=r"^[A-Za-z0-9._-]+$", strict=True
    ),
]
Topic = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=TOPIC_CHARS_MAX, pattern=r"^[A-Za-z0-9._-]+$", strict=True
    ),
]
Name = Annotated[str, _chars(NAME_CHARS_MAX), AfterValidator(_usable)]
EventType = Annotated[str, _chars(NAME_CHARS_MAX), AfterValidator(_usable)]
Path = Annotated[str, _chars(PATH_CHARS_MAX), AfterValidator(_usable), AfterValidator(_path)]
Text = Annotated[str, _chars(PATH_CHARS_MAX), AfterValidator(_usable)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EventMatch(_Part):
    """An event that withdraws what is open for the business key it names."""

    event: EventType
    business_key: Path


class CatchUp(_Part):
    """What to do with occurrences that were missed: all of them are owed."""

    policy: Literal["all"] = "all"


class Sla(_Part):
    """How soon after it is due an item must be started and completed."""

    start_within: Period | None = None
    complete_within: Period | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start_within and self.complete_within and self.start_within > self.complete_within:
            raise PydanticCustomError(
                "refused",
                "{reason}",
                {
                    "field": "start_within",
                    "reason": "the start may come later than the completion",
                    "accepted": "start_within no longer than complete_within",
                },
            )
        return self


class Retry(_Part):
    """How often a failed item is tried again, and how long apart: exponential, full jitter."""

    attempt_max: Annotated[int, Field(ge=1, le=1000, strict=True)] = 5
    base: Period = timedelta(seconds=10)
    cap: Period = timedelta(minutes=10)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.base > self.cap:
            raise PydanticCustomError(
                "refused",
                "{reason}",
                {
                    "field": "cap",
                    "reason": "the cap is shorter than the base",
                    "accepted": "a cap of at least the base",
                },
            )
        return self


class KafkaDispatch(_Part):
    """Where due items are published. `partition_key` is `business_key` or a JMESPath."""

    topic: Topic
    partition_key: Path = "business_key"


class Dispatch(_Part):
    """How work is handed out."""

    kafka: KafkaDispatch


def _default_dispatch(fields: dict[str, Any]) -> Dispatch:
    return Dispatch(kafka=KafkaDispatch(topic=f"due.{fields['kind']}"))


def _default_payload(fields: dict[str, Any]) -> JsonValue:
    return "data" if fields["event"] is not None else {}


class Definition(_Part):
    """One version of a definition document, every default filled in."""

    definition: Name
    tenant: Token
    kind: Token
    event: EventType | None = Field(
        default=None, description="the event type that owes an item; without it, a schedule"
    )
    business_key: Text = Field(
        description="a JMESPath on the event, or a schedule's constant of at most 512 characters"
    )
    cycle: Path | None = Field(
        default=None,
        description="names the round: a JMESPath on the event; a schedule's is its nominal time",
    )
    effective_date: Path | None = Field(
        default=None,
        description="a JMESPath on the event that gives a date; a schedule's is its nominal date",
    )
    when: When
    cancel_on: tuple[EventMatch, ...] = ()
    supersede_on: tuple[EventMatch, ...] = ()
    labels: dict[Token, Text] = Field(
        default_factory=dict,
        max_length=LABELS_MAX,
        description="JMESPaths on the event, or a schedule's constants",
    )
    lane: Token | None = Field(
        default=None, description="the label that separates flows, so that each can be paused alone"
    )
    catch_up: CatchUp = CatchUp()
    overlap: Literal["allow"] = "allow"
    sla: Sla = Sla()
    retry: Retry = Retry()
    dispatch: Dispatch = Field(default_factory=_default_dispatch)
    payload: JsonValue = Field(
        default_factory=_default_payload,
        description="a JMESPath on the event (default: its data), a map of name to JMESPath, "
        "or a schedule's constant (default: {})",
    )

    def __hash__(self) -> int:
        return hash((self.tenant, self.definition))

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.event is None:
            _check_schedule(self)
        else:
            _check_event_rule(self)
        if self.lane is not None and self.lane not in self.labels:
            known = ", ".join(self.labels) or "none is given"
            raise _misfit(
                "lane", "names no label of this definition", f"one of the labels: {known}"
            )
        return self

    @property
    def is_schedule(self) -> bool:
        """Tell whether it recurs by itself."""
        return self.event is None

    @property
    def event_types(self) -> frozenset[str]:
        """Return every type of event that it acts on."""
        matches = (*self.cancel_on, *self.supersede_on)
        own = () if self.event is None else (self.event,)
        return frozenset((*own, *(match.event for match in matches)))

    def normalised(self) -> dict[str, JsonValue]:
        """Return the canonical document, every default explicit. It reads back as equal."""
        return self.model_dump(mode="json", exclude_none=True)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the canonical document: equal exactly where nothing changed."""
        return sha256(orjson.dumps(self.normalised(), option=orjson.OPT_SORT_KEYS)).hexdigest()


def _misfit(field: str, reason: str, accepted: str) -> PydanticCustomError:
    return PydanticCustomError(
        "refused", "{reason}", {"field": field, "reason": reason, "accepted": accepted}
    )


def _check_schedule(definition: Definition) -> None:
    if isinstance(definition.when, DATED):
        raise _misfit(
            "when",
            "`relative` hangs on an event's date, and no `event` is given",
            "an `event:`, or a `when` that recurs by itself: cron or every",
        )
    for field in ("cycle", "effective_date", "cancel_on", "supersede_on"):
        if getattr(definition, field):
            raise _misfit(
                field,
                "belongs to an event rule, and no `event` is given",
                "nothing here: a schedule takes them from its nominal local time",
            )
    if len(definition.business_key) > BUSINESS_KEY_CHARS_MAX:
        raise _misfit(
            "business_key",
            f"longer than {BUSINESS_KEY_CHARS_MAX} characters",
            "a shorter constant",
        )
    if definition.dispatch.kafka.partition_key != "business_key":
        raise _misfit(
            "dispatch.kafka.partition_key",
            "a schedule has no event to take it from",
            "business_key",
        )
    for name, value in definition.labels.items():
        if len(value) > LABEL_CHARS_MAX:
            raise _misfit(
                f"labels.{name}", f"longer than {LABEL_CHARS_MAX} characters", "a shorter text"
            )
    _check_constant(definition.payload)


def _check_constant(payload: JsonValue) -> None:
    try:
        encoded = orjson.dumps(payload)
    except orjson.JSONEncodeError as error:
        raise _misfit("payload", str(error), "a JSON value") from None
    if payload is None or len(encoded) > PAYLOAD_BYTES_MAX:
        raise _misfit(
            "payload", "null, or over 256 KiB", "a JSON value of at most 262,144 bytes, or {}"
        )


def _check_event_rule(definition: Definition) -> None:
    if isinstance(definition.when, Cron | Every):
        raise _misfit(
            "when",
            "recurs by itself, but an `event:` owes one item at one time",
            "{relative: P-30D, at: …, timezone: …}, or no `event:`",
        )
    for field in ("cycle", "effective_date"):
        if getattr(definition, field) is None:
            raise _misfit(
                field, "an event rule must name it", f"a path on the event such as data.{field}"
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
                    raise _misfit(
                        f"payload.{name}", "not a JMESPath", "a path, or a literal in backticks"
                    )
                paths[f"payload.{name}"] = member
        case _:
            raise _misfit(
                "payload", "neither a JMESPath nor a map of them", "data, or {policy: data.number}"
            )
    for field, path in paths.items():
        try:
            _path(path)
        except PydanticCustomError as error:
            context = error.context or {}
            raise _misfit(field, context["reason"], context["accepted"]) from None
