from abc import ABC, abstractmethod
from collections.abc import Awaitable

from aiokafka.structs import TopicPartition

class ConsumerRebalanceListener:
    # Both may be a coroutine or a plain function.
    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> Awaitable[None] | None: ...
    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> Awaitable[None] | None: ...

class AbstractTokenProvider(ABC):
    @abstractmethod
    async def token(self) -> str: ...
