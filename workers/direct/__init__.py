"""Direct mode: workers claim due rows themselves, without allocator and Kafka."""

from dueledger.workers.direct.settings import DirectSettings

__all__ = ["DirectSettings"]
