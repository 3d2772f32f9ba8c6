"""The only part of the allocator that talks to Kafka."""

from allocator.publisher.sending import (
    Delivery,
    Outcome,
    Outgoing,
    Publisher,
    PublisherOptions,
    RecordBatch,
)
from allocator.publisher.topics import make_missing_topics

__all__ = [
    "Delivery",
    "Outcome",
    "Outgoing",
    "Publisher",
    "PublisherOptions",
    "RecordBatch",
    "make_missing_topics",
]
