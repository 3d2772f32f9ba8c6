"""What is late, for whom, and why: the open items of flows, grouped by what hinders them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dueledger.hindrance_facts import TimeText, in_utc
from dueledger.hindrance_texts import TEXTS, Hindrance
from dueledger.hindrances import Roles, find_hindrance, is_unread
from dueledger.ledger.rules.flood_pace import SHARE_MIN

_FLOW_FIELDS: Final = (
    *("tenant", "kind", "lane", "due", "due_capped", "oldest_due_at", "is_past_sla"),
    *("blocked", "blocked_capped", "claimed", "started", "retrying", "retrying_capped"),
    *("parked", "parked_capped"),
)


_ROLE_FIELDS: Final = (
    *("live", "silent", "gone", "failing", "failing_since", "failed_service", "failure"),
)


@dataclass(frozen=True, slots=True)
class FlowGroup:
    """Flows with one hindrance, the one whose item has waited longest first."""

    code: Hindrance
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
    roles: Roles

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
            "processes": [
                {"role": role, **{name: getattr(found, name) for name in _ROLE_FIELDS}}
                for role, found in self.roles.items()
                if found.live + found.silent + found.gone
            ],
            "groups": [
                {
                    "code": group.code,
                    "sentence": TEXTS[group.code].of_flow,
                    "flows": [{name: flow[name] for name in _FLOW_FIELDS} for flow in group.flows],
                }
                for group in self.groups
            ],
        }


def make_status(now: datetime, flows: Sequence[Mapping[str, Any]], roles: Roles) -> LedgerStatus:
    """Group flows as `read_status` returns them, by hindrance; groups with due items come first."""
    groups: dict[Hindrance, list[Mapping[str, Any]]] = {}
    for flow in flows:
        groups.setdefault(code_of(flow, roles), []).append(flow)
    first: Mapping[str, Any] = flows[0] if flows else {}
    return LedgerStatus(
        now=now,
        flow_count=first.get("flows", 0),
        due=first.get("all_due", 0),
        due_capped=first.get("all_due_capped", False),
        parked=first.get("all_parked", 0),
        parked_capped=first.get("all_parked_capped", False),
        groups=[FlowGroup(code, members) for code, members in groups.items()],
        roles=roles,
    )


def code_of(flow: Mapping[str, Any], roles: Roles) -> Hindrance:
    """Return what hinders the due items of a flow, or what its other open items wait for."""
    if flow["due"]:
        return find_hindrance(flow, roles)
    waits = (
        (flow["claimed"] and flow["stalled_since"] is not None, Hindrance.PARTITION_STALLED),
        (flow["blocked"], Hindrance.BEHIND),
        (flow["retrying"], Hindrance.RETRY),
        (flow["parked"], Hindrance.PARKED),
        (flow["claimed"] and is_unread(flow, roles), Hindrance.NO_WORKER),
        (flow["claimed"], Hindrance.NOT_STARTED),
    )
    return next((wait for applies, wait in waits if applies), Hindrance.RUNNING)


def late_code_of(flow: Mapping[str, Any], roles: Roles) -> Hindrance:
    """Return what the late item of a flow waits for that was due first."""
    match flow["late_wait"]:
        case "due":
            return code_of(flow, roles)
        case "blocked":
            return Hindrance.BEHIND
        case "retrying":
            return Hindrance.RETRY
        case "parked":
            return Hindrance.PARKED
        case _:  # in flight
            return code_of({**flow, "due": 0, "blocked": 0, "retrying": 0, "parked": 0}, roles)


def describe_processes(roles: Roles) -> list[str]:
    """Return a line of the processes by role, and one for each role that cannot take work."""
    counts: list[str] = []
    for role, found in roles.items():
        numbers = ((found.live, "live"), (found.silent, "silent"), (found.gone, "gone"))
        words = ", ".join(f"{number} {word}" for number, word in numbers if number)
        if words:
            counts.append(f"{role.label} {words}")
    failures = [f"! {failure}" for failure in describe_failures(roles)]
    return [f"processes: {'; '.join(counts) or 'none'}", *failures]


def describe_failures(roles: Roles, at: TimeText = in_utc) -> list[str]:
    """Return of each role with processes that cannot take work since when and why.

    Times are as `at` has them.
    """
    return [
        f"{found.failing} of {found.live} {role.label}s cannot take work since "
        f"{at(found.failing_since)}: {found.failure}"
        for role, found in roles.items()
        if found.failing_since is not None
    ]


def slowed_text(flow: Mapping[str, Any], at: TimeText = in_utc) -> str | None:
    """Return how a flow of `list_flows` is slowed and why; None if it is not.

    The time is as `at` has it.
    """
    share, since = flow["slowed_share"], flow["slowed_since"]
    if share is None:
        return None
    least = ", the least that floods have" if share <= SHARE_MIN else ""
    text = (
        f"since {at(since)} fewer of its items are claimed at once, and only {share:.0%} of the "
        f"time{least}, because "
    )
    if not flow["slowed_by"]:
        return text + "many items due at once begin slowly beside flows with a lag target"
    lag, target = flow["slowed_lag_seconds"], flow["slowed_lag_target_seconds"]
    return (
        f"{text}the lag of {flow['slowed_by']} was {_duration(lag)}, above its target of "
        f"{_duration(target)}"
    )


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"
