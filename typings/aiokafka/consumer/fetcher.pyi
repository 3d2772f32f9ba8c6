# The part of the insides of aiokafka 0.14 that ledger.fetching looks at.

from collections.abc import Iterator
from typing import Any

from aiokafka.structs import TopicPartition

READ_COMMITTED: int

class PartitionRecords:
    next_fetch_offset: int
    _tp: TopicPartition
    _records: Any
    _aborted_producers: set[int]
    _check_crcs: bool
    _isolation_level: int
    def __init__(
        self,
        tp: TopicPartition,
        records: Any,
        aborted_transactions: list[tuple[int, int]] | None,
        fetch_offset: int,
        key_deserializer: None,
        value_deserializer: None,
        check_crcs: bool,
        isolation_level: int,
    ) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def _unpack_records(self) -> Iterator[object]: ...
    def _consume_aborted_up_to(self, batch_offset: int) -> None: ...

class Fetcher:
    async def _proc_fetch_request(
        self, assignment: object, node_id: int, request: object
    ) -> bool: ...
