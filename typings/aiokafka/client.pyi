from typing import Any

class AIOKafkaClient:
    async def send(self, node_id: int, request: object, *, group: object = ...) -> Any: ...
