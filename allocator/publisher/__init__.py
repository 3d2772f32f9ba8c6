"""The only part of the allocator that talks to Kafka."""

from allocator.publisher.record_batch import Compression, RecordBatch
from allocator.publisher.sending import (
    Delivery,
    Outcome,
    Outgoing,
    Publisher,
    PublisherOptions,
)

__all__ = [
    "Compression",
    "Delivery",
    "Outcome",
    "Outgoing",
    "Publisher",
    "PublisherOptions",
    "RecordBatch",
]
