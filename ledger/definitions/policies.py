"""Parts of a definition: dispatch, retries, catch-up, order, deadlines and SLA."""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dueledger.ledger.definitions.fields import (
    DocumentPart,
    EventType,
    JmesPath,
    Topic,
    field_error,
)
from dueledger.ledger.definitions.http_dispatch import TOPIC_PREFIX as HTTP_TOPIC_PREFIX
from dueledger.ledger.definitions.http_dispatch import HttpDispatch
from dueledger.ledger.kafka.envelope import (
    EVENT_TOPIC,
    OUTCOME_TOPIC,
    REJECTED_TOPIC,
    REPAIR_TOPIC,
    WORK_TOPIC_PREFIX,
)
from dueledger.ledger.kind_defaults import BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS
from dueledger.ledger.schedule.expressions import Period, value_error

START_MAX: Final = 30
STREAK_MAX: Final = 3
TOPIC_LEASE: Final = timedelta(minutes=10)
LEASE_MAX: Final = timedelta(days=30)
"""The longest dispatch or queue deadline, and the longest lease."""

_RESERVED_TOPICS: Final = frozenset({EVENT_TOPIC, OUTCOME_TOPIC, REJECTED_TOPIC, REPAIR_TOPIC})
_RESERVED_PREFIXES: Final = ("__", HTTP_TOPIC_PREFIX)
"""Of Kafka's own topics, and of those between the allocator and the workers that send by HTTP."""

CATCH_UP_ITEMS_MAX: Final = 10_000
APPROVAL_ABOVE_MAX: Final = 10_000
"""Matching items are counted up to so many; where there may be more, a person is asked anyway."""


class EventMatch(DocumentPart):
    """An event that withdraws open items of the business key that it names."""

    event: EventType
    business_key: JmesPath


class CatchUpPolicy(DocumentPart):
    """Which occurrences are still owed that were missed: due before they were materialised.

    Missed occurrences that are not owed are recorded as skipped. If more than `max_items` were
    missed (1,000 if it is not given), they are recorded as one range with its count.

    An event owes one item: `policy` is `all`, `max_items` has no effect, and `window` counts from
    the item's due time to the arrival of its event. A later event's item is recorded as skipped.
    """

    policy: Literal["all", "latest", "skip"] = "all"
    window: Period | None = Field(
        default=None,
        description="how long after its due time an occurrence, or an event's item, is still owed",
    )
    max_items: Annotated[int, Field(ge=1, le=CATCH_UP_ITEMS_MAX, strict=True)] | None = Field(
        default=None,
        description="how many missed occurrences are owed at most: the latest; no effect in an "
        "event rule",
    )

    @property
    def keeps_all(self) -> bool:
        """Return whether every missed occurrence is owed."""
        return self.policy == "all" and self.window is None and self.max_items is None


class SlaPolicy(DocumentPart):
    """How soon after its due time an item must be started and completed."""

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
                    "reason": "the start may be later than the completion",
                    "accepted": "start_within no longer than complete_within",
                },
            )
        return self


AttemptCount = Annotated[int, Field(ge=1, le=1000, strict=True)]


class RetryPolicy(DocumentPart):
    """How often a failed item is retried, and after which delays: exponential, full jitter."""

    attempt_max: AttemptCount = 5
    start_max: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = Field(
        default=None,
        description="maximum of starts of an item, snoozes and lost workers included; default "
        "30, or attempt_max if that is more",
    )
    streak_max: AttemptCount | None = Field(
        default=None,
        description="failures in a row of one business key that are reported; default 3",
    )
    base: Period = timedelta(seconds=BACKOFF_BASE_SECONDS)
    cap: Period = timedelta(seconds=BACKOFF_CAP_SECONDS)
    deadline: Period | None = Field(
        default=None,
        description="counted from due_at; an item that fails later is parked, not retried",
    )
    no_replay: bool = Field(
        default=False,
        description="whether the reconciler's repairs never emit or redrive an item that was "
        "handed out, or may have been",
    )

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
        if self.start_max is not None and self.start_max < self.attempt_max:
            reason = "fewer starts than attempts, although each attempt is a start"
            raise field_error("start_max", reason, "at least attempt_max")
        return self


class OrderPolicy(DocumentPart):
    """Whether items of one partition key run one after another, in the order of due_at."""

    by: Literal["none", "partition_key"] = "none"
    failure: Literal["hold", "pass"] = Field(
        default="hold", description="whether a failed item holds its key until it ends"
    )


class OperationPolicy(DocumentPart):
    """When an operation on items of the kind waits for a second person."""

    approval_above: Annotated[int, Field(ge=0, le=APPROVAL_ABOVE_MAX, strict=True)] | None = Field(
        default=None,
        description="an operation that matches more items waits until somebody else than who "
        "asked approves it; 0: each does; none: none does",
    )


class DeadlinePolicy(DocumentPart):
    """How long each step of an item's work may take, and what is done when it takes longer."""

    dispatch: Period = Field(
        default=timedelta(seconds=30), description="from the claim until Kafka acknowledged it"
    )
    queue: Period = Field(
        default=timedelta(minutes=2), description="from then until a worker starts it"
    )
    queue_late: Literal["retry", "park"] = "retry"
    run: Period | None = Field(
        default=None, description="the hard end of a run, even if heartbeats continue"
    )
    run_late: Literal["retry", "park"] = "retry"

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for field, period in (("dispatch", self.dispatch), ("queue", self.queue)):
            if period > LEASE_MAX:
                raise field_error(field, "longer than thirty days", "a deadline such as PT2M")
        return self


def _default_lease(fields: dict[str, Any]) -> timedelta | None:
    return TOPIC_LEASE if fields.get("settled_by") == "topic" else None


class KafkaDispatch(DocumentPart):
    """Where due items are published. `partition_key` is `business_key` or a JMESPath."""

    topic: Topic
    partition_key: JmesPath = "business_key"
    settled_by: Literal["worker", "topic"] = Field(
        default="worker",
        description="by handlers of workers, or by consumers of the topic that report to "
        "due-outcomes",
    )
    outcome_topic: Topic | None = Field(
        default=None,
        description="settled by topic: outcomes are accepted from this topic alone, instead of "
        "due-outcomes",
    )
    compression: Literal["none", "gzip", "lz4"] | None = Field(
        default=None,
        description="codec of the topic's record batches, for consumers whose client lacks the "
        "allocator's; the same for all kinds of the topic",
    )
    lease: Period | None = Field(
        default_factory=_default_lease,
        description="settled by topic: items without an outcome after this long are handed out "
        "again",
    )

    @field_validator("topic")
    @classmethod
    def _topic_is_free(cls, topic: str) -> str:
        if topic in _RESERVED_TOPICS or topic.startswith(_RESERVED_PREFIXES):
            raise value_error("is reserved", "a topic of the kind's own, such as due.orders")
        return topic

    @field_validator("outcome_topic")
    @classmethod
    def _outcome_topic_is_free(cls, topic: str | None) -> str | None:
        if topic is None:
            return None
        accepted = "a topic for outcomes alone, such as outcomes.orders"
        if topic in _RESERVED_TOPICS or topic.startswith(_RESERVED_PREFIXES):
            raise value_error("is reserved", accepted)
        if topic.startswith(WORK_TOPIC_PREFIX):
            raise value_error(f"begins with {WORK_TOPIC_PREFIX}, as work topics do", accepted)
        return topic

    @model_validator(mode="after")
    def _for_topics(self) -> Self:
        if self.outcome_topic is not None and self.settled_by != "topic":
            reason = "workers report no outcomes by Kafka"
            raise field_error("outcome_topic", reason, "nothing here, or `settled_by: topic`")
        if self.outcome_topic == self.topic:
            reason = "is the topic of the items"
            raise field_error("outcome_topic", reason, "another topic, such as outcomes.orders")
        if self.lease is not None and self.settled_by != "topic":
            reason = "a worker's lease is the worker's own setting"
            raise field_error("lease", reason, "nothing here, or `settled_by: topic`")
        if self.lease is not None and self.lease > LEASE_MAX:
            raise field_error("lease", "longer than thirty days", "a lease such as PT10M")
        return self


class DirectDispatch(DocumentPart):
    """Workers claim the items themselves, without the allocator and Kafka."""

    partition_key: JmesPath = "business_key"


class Dispatch(DocumentPart):
    """How items reach a handler: by Kafka or direct, or by HTTP to an endpoint."""

    kafka: KafkaDispatch | None = None
    http: HttpDispatch | None = None
    direct: DirectDispatch | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(ways) != 1:
            raise PydanticCustomError(
                "refused",
                "{reason}",
                {
                    "reason": f"has {' and '.join(ways)} at once" if ways else "has no method",
                    "accepted": "{kafka: {topic: due.…}}, {http: {url: https://…}} or {direct: {}}",
                },
            )
        return self

    @property
    def partition_key(self) -> str:
        """The key that keeps items in one partition: `business_key` or a JMESPath."""
        way = self.http or self.kafka or self.direct
        return "business_key" if way is None else way.partition_key

    @property
    def method(self) -> Literal["kafka", "http", "direct"]:
        """The field that is set."""
        if self.http is not None:
            return "http"
        return "kafka" if self.direct is None else "direct"
