"""Claims due batches, publishes them to Kafka partitions, and takes back what was lost."""

from allocator.publisher import Publisher, PublisherOptions
from allocator.run import open_allocator, run_allocator
from allocator.settings import AllocatorSettings
from allocator.tick import Allocator

__all__ = [
    "Allocator",
    "AllocatorSettings",
    "Publisher",
    "PublisherOptions",
    "open_allocator",
    "run_allocator",
]
