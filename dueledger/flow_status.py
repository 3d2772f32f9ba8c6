"""What is late, for whom, and why: the open items of flows, grouped by what hinders them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from dueledger.hindrances import Hindrance, find_hindrance


class Wait(StrEnum):
    """What the open items of a flow wait for, if none of them is due. `why` has the same codes."""

    PARTITION_STALLED = "PARTITION_STALLED"
    BEHIND = "BEHIND"
    RETRY = "RETRY"
    PARKED = "PARKED"
    NOT_STARTED = "NOT_STARTED"
    RUNNING = "RUNNING"


SENTENCES: Final[Mapping[Hindrance | Wait, str]] = {
    Hindrance.PAUSED: "Paused. `dueledger flow pauses` shows by whom and why.",
    Hindrance.CIRCUIT_OPEN: "Too many items failed: the circuit is open.",
    Hindrance.CONCURRENCY: "As many items are in flight as `flow set --concurrency` allows.",
    Hindrance.RATE: "More items are due than `flow set --rate` allows.",
    Hindrance.WINDOW: "As many items are handed out as `flow set --window` allows.",
    Hindrance.SILENT_CONSUMER: "No outcomes are reported: one item is handed out at a time.",
    Hindrance.NO_CONSUMER: "No live worker takes them: `dueledger work module:handlers`.",
    Hindrance.NO_CLAIMER: "No process claims them: `dueledger allocate`, or `work --direct`.",
    Hindrance.NOT_CLAIMED: "Nothing known hinders them: they are about to be claimed.",
    Wait.PARTITION_STALLED: "Handed out, and the worker gets no further: `dueledger doctor`.",
    Wait.BEHIND: "They wait until another item of their key ends.",
    Wait.RETRY: "They wait for their next attempt.",
    Wait.PARKED: "They wait for a person: `dueledger reviews`.",
    Wait.NOT_STARTED: "Handed out, and not started yet.",
    Wait.RUNNING: "Running.",
}


_FLOW_FIELDS: Final = (
    *("tenant", "kind", "lane", "due", "due_capped", "oldest_due_at", "is_past_sla"),
    *("blocked", "blocked_capped", "claimed", "started", "retrying", "retrying_capped"),
    *("parked", "parked_capped"),
)


@dataclass(frozen=True, slots=True)
class FlowGroup:
    """Flows with one hindrance, the one whose item has waited longest first."""

    code: Hindrance | Wait
    flows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """The flows that have open items at `now`, at most as many as were asked for, in groups.

    The totals are of all `flow_count` flows; one that is capped is the least that it can be.
    """

    now: datetime
    flow_count: int
    due: int
    due_capped: bool
    parked: int
    parked_capped: bool
    groups: Sequence[FlowGroup]

    @property
    def shown_count(self) -> int:
        """Return the number of flows in the groups."""
        return sum(len(group.flows) for group in self.groups)

    def document(self) -> dict[str, object]:
        """Return the document of ``status --json``; its names are stable."""
        return {
            "now": self.now,
            "flows": self.flow_count,
            "shown": self.shown_count,
            "due": self.due,
            "due_capped": self.due_capped,
            "parked": self.parked,
            "parked_capped": self.parked_capped,
            "groups": [
                {
                    "code": group.code,
                    "sentence": SENTENCES[group.code],
                    "flows": [{name: flow[name] for name in _FLOW_FIELDS} for flow in group.flows],
                }
                for group in self.groups
            ],
        }


def make_status(now: datetime, flows: Sequence[Mapping[str, Any]]) -> LedgerStatus:
    """Group flows as `read_status` returns them; groups with due items come first."""
    groups: dict[Hindrance | Wait, list[Mapping[str, Any]]] = {}
    for flow in flows:
        groups.setdefault(code_of(flow), []).append(flow)
    first: Mapping[str, Any] = flows[0] if flows else {}
    return LedgerStatus(
        now=now,
        flow_count=first.get("flows", 0),
        due=first.get("all_due", 0),
        due_capped=first.get("all_due_capped", False),
        parked=first.get("all_parked", 0),
        parked_capped=first.get("all_parked_capped", False),
        groups=[FlowGroup(code, members) for code, members in groups.items()],
    )


def code_of(flow: Mapping[str, Any]) -> Hindrance | Wait:
    """Return what hinders the due items of a flow, or what its other open items wait for."""
    if flow["due"]:
        return find_hindrance(flow)
    waits = (
        (flow["claimed"] and flow["stalled_since"] is not None, Wait.PARTITION_STALLED),
        (flow["blocked"], Wait.BEHIND),
        (flow["retrying"], Wait.RETRY),
        (flow["parked"], Wait.PARKED),
        (flow["claimed"], Wait.NOT_STARTED),
    )
    return next((wait for applies, wait in waits if applies), Wait.RUNNING)
