"""What the parts of one allocator share."""

from dataclasses import dataclass

from allocator.credits import Credits
from allocator.rotation import Rotation
from allocator.sends import Sends
from allocator.settings import AllocatorSettings
from allocator.topics import Topics
from ledger.service import Signals, Stop


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
