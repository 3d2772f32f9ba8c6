"""The state that the parts of one allocator share."""

import asyncio
from dataclasses import dataclass

from dueledger.allocator.admission_group import AdmissionGroup
from dueledger.allocator.discover.credit_accounts import CreditAccounts
from dueledger.allocator.discover.topic_directory import TopicDirectory
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.settings import AllocatorSettings
from dueledger.ledger.flows.flood_pacer import FloodPacer
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.runtime.service import Signals, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorState:
    """The allocator's identity, its settings, and its in-memory state.

    `progress` is set when there may be something to do: work has ended, an item was announced, or a
    stop was requested.
    """

    allocator_no: int
    settings: AllocatorSettings
    flow_queue: FlowQueue[AdmissionGroup]
    flood_pacer: FloodPacer
    credits: CreditAccounts
    topics: TopicDirectory
    deliveries: DeliveryBuffer
    stop: Stop
    signals: Signals
    progress: asyncio.Event
