"""Lots: what one claim gave one crew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dueledger.workers.claim_slices import Stretch
from dueledger.workers.run.open_run import OpenRun

if TYPE_CHECKING:
    from dueledger.ledger.store.claims import DueFlow
    from dueledger.ledger.store.runs import Start
    from dueledger.workers.direct.direct_item import TakenItem
    from dueledger.workers.direct.flow_queue import Key, Served
    from dueledger.workers.run.handler_pools import Post


class Lot(NamedTuple):
    """A run of this worker that the ledger has begun, and its items in order."""

    post: Post
    start: Start
    items: list[TakenItem]
    is_alone: bool = False
    flow_no: int | None = None  # where all are of one flow that is limited or serial

    def open(self, asked_at: float) -> OpenRun:
        """Return the run; its lease counts from `asked_at`."""
        start, kind = self.start, self.post.kind
        part = Stretch(start.fence, kind, start.from_position, 0, [*self.items], self.is_alone)
        held_until = asked_at + (start.held_seconds or 0.0)
        return OpenRun(start, part, held_until=held_until, topic=self.post.topic or "")


class Withheld(NamedTuple):
    """A claim of suspects that was recorded and not started: nothing must run beside it."""

    flow: DueFlow
    fence: int
    items: list[TakenItem]


@dataclass(slots=True)
class Lots:
    """What was taken: to be worked now, or alone, and what came of each share.

    `suspect_flow_nos` are flows in which suspects wait.
    """

    begun: list[Lot] = field(default_factory=list[Lot])
    withheld: list[Withheld] = field(default_factory=list[Withheld])
    served: dict[Key, Served] = field(default_factory=dict["Key", "Served"])
    suspect_flow_nos: set[int] = field(default_factory=set[int])
