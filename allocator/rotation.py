"""Whose turn it is: a weighted round robin over the flows that have due rows. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from ledger.store.claims import DueFlow


@dataclass(frozen=True, slots=True)
class Share:
    """How many items a flow may have in one claim."""

    flow: DueFlow
    quota: int


def split(items: int, weights: Sequence[int]) -> list[int]:
    """Split `items` by weight, at least 1 each; the sum is `items` unless there are more weights.

    What rounding leaves goes to the first ones, whose turn it is.
    """
    total = sum(weights)
    quotas = [max(1, items * weight // total) for weight in weights]
    spare = items - sum(quotas)
    for index in range(max(0, min(spare, len(quotas)))):
        quotas[index] += 1
    return quotas


@final
class Rotation:
    """Remembers the flows that were listed as due and serves them in turn.

    A flow that did not use its quota has nothing more now and is forgotten until it is listed
    again; so what it left goes to those that have more.
    """

    def __init__(self) -> None:
        self._waiting: deque[DueFlow] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def relist(self, flows: Iterable[DueFlow]) -> None:
        """Take a new list; flows that were waiting keep their place in the queue."""
        listed = {flow.flow_no: flow for flow in flows}
        kept = [listed.pop(flow.flow_no) for flow in self._waiting if flow.flow_no in listed]
        self._waiting = deque([*kept, *listed.values()])

    def next_shares(self, items: int, flows_max: int) -> list[Share]:
        """Take the next flows out of the queue, with their quotas."""
        turn = [self._waiting.popleft() for _ in range(min(flows_max, items, len(self._waiting)))]
        if not turn:
            return []
        quotas = split(items, [flow.weight for flow in turn])
        return [Share(flow, quota) for flow, quota in zip(turn, quotas, strict=True)]

    def served(self, shares: Iterable[Share], taken: Mapping[int, int]) -> None:
        """Put flows that used their quota at the end of the queue."""
        self._waiting.extend(
            share.flow for share in shares if taken.get(share.flow.flow_no, 0) >= share.quota
        )
