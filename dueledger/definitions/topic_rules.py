"""Which topics a definition may not name: those that processes, other tenants or kinds use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from dueledger.definitions.files import DefinitionFiles, location_of
from dueledger.ledger.definitions.fields import Token, Topic
from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import InvalidInput, Problem, shown_value
from dueledger.ledger.kafka.envelope import (
    EVENT_TOPIC,
    OUTCOME_TOPIC,
    REJECTED_TOPIC,
    WORK_TOPIC_PREFIX,
)
from dueledger.ledger.store import Connection
from dueledger.ledger.store.kinds import (
    find_mixed_compressions,
    find_topic_uses,
    lock_topics,
)


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Topics that processes use, each with its setting; tenants by the prefix of their topics.

    Messages name `shown_tenants` alone; None: each.
    """

    used_by_setting: Mapping[str, str]
    tenant_by_prefix: Mapping[str, str]
    shown_tenants: Sequence[str] | None = None

    def shown(self, tenant: str) -> str:
        """Return the name of a tenant for a message."""
        is_shown = self.shown_tenants is None or tenant in self.shown_tenants
        return tenant if is_shown else "another tenant"

    def shown_kind(self, kind: str) -> str:
        """Return `tenant/kind` for a message."""
        shown = self.shown(kind.partition("/")[0])
        return kind if kind.startswith(f"{shown}/") else f"one of {shown}"

    def tenant_of(self, topic: str) -> str | None:
        """Return the tenant of a topic, by the longest prefix; None: any may use it."""
        prefixes = [prefix for prefix in self.tenant_by_prefix if topic.startswith(prefix)]
        return self.tenant_by_prefix[max(prefixes, key=len)] if prefixes else None


ANY_TOPIC: Final = TopicRules({}, {})
"""Without settings: only the reserved names are refused, by the definition itself."""


def _check_prefix(prefix: str) -> str:
    if prefix.startswith(WORK_TOPIC_PREFIX) or WORK_TOPIC_PREFIX.startswith(prefix):
        raise ValueError(
            f"{prefix} cannot be the prefix of a tenant: a kind that is emitted before it is "
            f"defined goes to {WORK_TOPIC_PREFIX}<kind>, whichever tenant emits it"
        )
    return prefix


class TopicSettings(BaseSettings):
    """What `define` must know of topics, from DUELEDGER_… variables."""

    model_config = SettingsConfigDict(env_prefix="DUELEDGER_", frozen=True, extra="ignore")

    event_topic: Topic = Field(default=EVENT_TOPIC, description="topic of domain events")
    outcome_topic: Topic = Field(default=OUTCOME_TOPIC, description="topic of reported outcomes")
    rejected_topic: Topic = Field(
        default=REJECTED_TOPIC, description="topic of records that cannot be read"
    )
    topic_tenants: dict[Annotated[Topic, AfterValidator(_check_prefix)], Token] = Field(
        default_factory=dict, description="tenants by the prefix of their topics"
    )

    def rules(self) -> TopicRules:
        """Return the rules that these settings mean."""
        used = ("event_topic", "outcome_topic", "rejected_topic")
        return TopicRules(
            {getattr(self, name): f"DUELEDGER_{name.upper()}" for name in used}, self.topic_tenants
        )


def check_topics(
    definitions: Sequence[Definition], rules: TopicRules, sources: DefinitionFiles
) -> None:
    """Refuse definitions with a topic that another process or another tenant uses.

    Raises InvalidInput that names each of them.
    """
    problems = [
        _problem(one, field, topic, reason, sources)
        for one in definitions
        for field, topic in _topics_of(one).items()
        if (reason := _refusal(topic, one.tenant, rules)) is not None
    ]
    if problems:
        raise InvalidInput("The definitions cannot be put in force:", problems)


async def check_topic_uses(
    connection: Connection,
    definitions: Sequence[Definition],
    sources: DefinitionFiles,
    rules: TopicRules = ANY_TOPIC,
) -> None:
    """Refuse work in a topic of outcomes, outcomes in a work topic, and two codecs in one topic.

    To be called once the kinds are written. Locks the topics until the transaction ends, so that
    the kinds of two sessions are compared too. Raises InvalidInput and Conflict.
    """
    topics = [_topics_of(one) for one in definitions]
    work, outcomes = (
        [each[field] for each in topics if field in each] for field in ("topic", "outcome_topic")
    )
    await lock_topics(connection, [*work, *outcomes])
    uses = await find_topic_uses(connection, work, outcomes)
    kinds = {topic: rules.shown_kind(kind) for topic, kind in uses.items()}
    problems = [
        _problem(one, field, topic, f"the kind {kinds[topic]} uses it for {other}", sources)
        for one in definitions
        for field, topic in _topics_of(one).items()
        if topic in kinds
        for other in ("outcomes" if field == "topic" else "items",)
    ]
    mixed = await find_mixed_compressions(connection, work)
    problems += [
        Problem(
            f"{location_of(one, sources)}.dispatch.kafka.compression",
            shown_value(kafka.compression),
            f"differs between {first} and {second}, which share the topic {kafka.topic}",
            "the same for all kinds of a topic; to change it, define them at once",
        )
        for one in definitions
        if (kafka := one.dispatch.kafka) is not None and kafka.topic in mixed
        for first, second in (map(rules.shown_kind, mixed[kafka.topic]),)
    ]
    if problems:
        raise InvalidInput("The definitions cannot be put in force:", problems)


def _topics_of(definition: Definition) -> dict[str, str]:
    """Return the topics that a definition names, by field."""
    kafka = definition.dispatch.kafka
    if kafka is None:
        return {}
    named = {"topic": kafka.topic, "outcome_topic": kafka.outcome_topic}
    return {field: topic for field, topic in named.items() if topic is not None}


def _problem(
    definition: Definition, field: str, topic: str, reason: str, sources: DefinitionFiles
) -> Problem:
    return Problem(
        f"{location_of(definition, sources)}.dispatch.kafka.{field}",
        shown_value(topic),
        reason,
        "a topic of the tenant's own",
    )


def _refusal(topic: str, tenant: str, rules: TopicRules) -> str | None:
    if (setting := rules.used_by_setting.get(topic)) is not None:
        return f"is reserved by {setting}"
    other = rules.tenant_of(topic)
    if other is not None and other != tenant:
        named = rules.shown(other)
        shown = f"the tenant {other}" if named == other else named
        return f"belongs to {shown} (DUELEDGER_TOPIC_TENANTS)"
    return None
