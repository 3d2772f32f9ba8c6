"""Members of a consumer group whose process was killed: others let them leave it."""

from collections.abc import Collection
from typing import Any, Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import KafkaError, UnknownMemberIdError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import LeaveGroupRequest

from dueledger.ledger.kafka.client_arguments import client_arguments
from dueledger.ledger.kafka.topics import unavailable
from dueledger.ledger.runtime.kafka_settings import KafkaSettings

REQUEST_SECONDS: Final = 5.0


async def end_members(
    settings: KafkaSettings, group: str, client_ids: Collection[str], *, client: str
) -> int:
    """Let the members of a group that joined under these client ids leave it; return how many.

    Kafka gives their partitions to the others at once, and not after their session timeout. A
    member that lives joins anew. Raises Unavailable if Kafka cannot be reached or refuses it.
    """
    kafka = AIOKafkaClient(
        **client_arguments(settings),
        client_id=client,
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
    )
    try:
        await kafka.bootstrap()
        node = await kafka.coordinator_lookup(CoordinationType.GROUP, group)

        async def ask(request: DescribeGroupsRequest | LeaveGroupRequest) -> Any:  # noqa: ANN401 - aiokafka's
            return await kafka.send(node, request, group=ConnectionGroup.COORDINATION)

        (described,) = (await ask(DescribeGroupsRequest([group]))).groups
        _require_success(described[0])
        gone = [member_id for member_id, client_id, *_ in described[5] if client_id in client_ids]
        for member_id in gone:
            _require_success((await ask(LeaveGroupRequest(group, member_id))).error_code)
    except (KafkaError, OSError) as error:
        raise unavailable(error) from error
    finally:
        await kafka.close()
    return len(gone)


def _require_success(code: int) -> None:
    error = for_code(code)
    if code and error is not UnknownMemberIdError:  # another process was faster
        raise error
