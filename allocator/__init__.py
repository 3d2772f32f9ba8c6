"""The allocator: claims due items and publishes each claim to a Kafka partition."""

from dueledger.allocator.allocator import Allocator
from dueledger.allocator.process import open_allocator, run_allocator
from dueledger.allocator.publish import Publisher, PublisherOptions
from dueledger.allocator.settings import AllocatorSettings

__all__ = [
    "Allocator",
    "AllocatorSettings",
    "Publisher",
    "PublisherOptions",
    "open_allocator",
    "run_allocator",
]
