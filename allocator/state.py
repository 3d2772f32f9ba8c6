"""What the parts of one allocator share."""

from dataclasses import dataclass

from dueledger.allocator.choose.flow_queue import FlowQueue
from dueledger.allocator.discover.credit_accounts import CreditAccounts
from dueledger.allocator.discover.topics import TopicDirectory
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.settings import AllocatorSettings
from dueledger.ledger.runtime.service import Signals, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorState:
    """Who it is, what it may do, and what it remembers."""

    allocator_no: int
    settings: AllocatorSettings
    rotation: FlowQueue
    credits: CreditAccounts
    topics: TopicDirectory
    sends: DeliveryBuffer
    stop: Stop
    signals: Signals
