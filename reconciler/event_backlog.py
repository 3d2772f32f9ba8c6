"""Domain events that Kafka has and the inbox has not: what they would imply is not known."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, final

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka.unread_records import UnreadRecords, find_unread_records
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.expect.versions import DefinitionSpan


class EventBacklog(NamedTuple):
    """Up to when all events were read, and what blocks it; None is not known."""

    read_before: datetime | None
    blocked_by: str


@final
class EventTopic:
    """The topic of domain events and the group that reads it into the inbox."""

    def __init__(self, settings: KafkaSettings, topic: str, group: str) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group

    async def read_backlog(self) -> EventBacklog | None:
        """Return the events that were not read; None if all were."""
        try:
            unread = await find_unread_records(
                self._settings, self._topic, self._group, client="dueledger-reconciler"
            )
        except Unavailable:
            return EventBacklog(None, f"it is not known what is unread of {self._topic}")
        return _backlog(unread, self._topic)


def _backlog(unread: UnreadRecords, topic: str) -> EventBacklog | None:
    if unread.deleted:
        reason = f"{unread.deleted:,} events of {topic} were deleted before they were read"
        return EventBacklog(None, reason)
    if unread.oldest is None:
        return None
    events = "1 event is" if unread.unread == 1 else f"{unread.unread:,} events are"
    oldest = f"{unread.oldest:%Y-%m-%d %H:%M:%S} UTC"
    return EventBacklog(unread.oldest, f"{events} unread of {topic}, the oldest from {oldest}")


def kinds_of_events(versions: Iterable[DefinitionSpan]) -> set[KindKey]:
    """Return the kinds of which events make or end items."""
    return {version.key for version in versions if version.definition.event_types}
