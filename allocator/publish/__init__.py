"""The only part of the allocator that talks to Kafka."""

from dueledger.allocator.publish.outgoing_batch import Compression, RecordBatch
from dueledger.allocator.publish.publisher import (
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
