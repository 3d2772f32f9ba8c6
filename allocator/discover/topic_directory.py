"""The directory of topics: which exist, which are suspended, which actor settles by topic."""

from collections.abc import Collection, Mapping
from time import monotonic
from typing import final

from dueledger.allocator.publish import Publisher
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor


@final
class TopicDirectory:
    """Suspends an unavailable topic for a while: else its items would be claimed and released."""

    def __init__(self, suspend_seconds: float) -> None:
        self._suspend_seconds = suspend_seconds
        self._suspended_until: dict[str, float] = {}
        self._unavailable: dict[str, str] = {}
        self._existing: set[str] = set()
        self._settling_actors: dict[str, int] = {}
        self._log = get_logger("allocator")

    @property
    def settling_actors(self) -> Mapping[str, int]:
        """The actors by topic; `register_settling_actors` adds to them."""
        return self._settling_actors

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The topics to which nothing can be published, as last tried, with the reasons."""
        return self._unavailable

    def suspend(self, topic: str, reason: str | None) -> None:
        """Claim nothing for an unavailable topic for `suspend_seconds`."""
        self._unavailable[topic] = reason or "no reason was given"
        self._suspended_until[topic] = monotonic() + self._suspend_seconds
        self._existing.discard(topic)

    def is_suspended(self, topic: str) -> bool:
        """Return whether a topic is suspended."""
        return bool(self._suspended_until) and self._suspended_until.get(topic, 0.0) > monotonic()

    def suspended_until(self, topic: str) -> float:
        """Return until when a topic is suspended."""
        return self._suspended_until.get(topic, float("-inf"))

    async def make_missing(self, publisher: Publisher, topics: Collection[str]) -> None:
        """Make the topics that do not exist, so that workers can grant credit for them.

        Raises Unavailable when Kafka cannot be reached.
        """
        wanted = {
            topic
            for topic in topics
            if topic not in self._existing and not self.is_suspended(topic)
        }
        if wanted:
            self._existing |= (await self.partitions(publisher, wanted)).keys()

    async def partitions(self, publisher: Publisher, topics: Collection[str]) -> dict[str, int]:
        """Return the number of partitions of each available topic; suspend the others."""
        partitions = await publisher.partitions(topics)
        for topic in topics - partitions.keys():
            reason = publisher.unavailable_topics.get(topic)
            self.suspend(topic, reason)
            self._log.warning(LogEvent.TOPIC_UNAVAILABLE, topic=topic, reason=reason)
        for topic in partitions:
            self._unavailable.pop(topic, None)
        return partitions

    async def register_settling_actors(
        self, connection: Connection, topics: Collection[str]
    ) -> None:
        """Register an actor for each topic whose consumers settle by topic."""
        for topic in sorted(set(topics) - self._settling_actors.keys()):
            self._settling_actors[topic] = await register_actor(
                connection, f"topic:{topic}", ActorKind.SERVICE
            )
