"""What the parts of one allocator share."""

from dataclasses import dataclass

from dueledger.allocator.choose.flow_queue import Rotation
from dueledger.allocator.discover.credit_accounts import Credits
from dueledger.allocator.discover.topics import Topics
from dueledger.allocator.mark.delivery_buffer import Sends
from dueledger.allocator.settings import AllocatorSettings
from dueledger.ledger.runtime.service import Signals, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Who it is, what it may do, and what it remembers."""

    allocator_no: int
    settings: AllocatorSettings
    rotation: Rotation
    credits: Credits
    topics: Topics
    sends: Sends
    stop: Stop
    signals: Signals
