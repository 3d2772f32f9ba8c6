"""Publish: send claims to Kafka. The allocator uses Kafka here only."""

from dueledger.allocator.publish.outgoing_batch import Compression, OutgoingBatch
from dueledger.allocator.publish.publisher import (
    Delivery,
    OutgoingClaim,
    Publisher,
    PublisherOptions,
    SendResult,
)

__all__ = [
    "Compression",
    "Delivery",
    "OutgoingBatch",
    "OutgoingClaim",
    "Publisher",
    "PublisherOptions",
    "SendResult",
]
