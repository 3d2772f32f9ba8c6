from collections.abc import Sequence

class BatchBuilder:
    # None when the batch is full; otherwise something true. The timestamp is in milliseconds.
    def append(
        self,
        *,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = ...,
    ) -> object | None: ...
    def close(self) -> None: ...
    def size(self) -> int: ...
    def record_count(self) -> int: ...
