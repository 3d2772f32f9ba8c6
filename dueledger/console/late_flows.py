"""What is late, for whom and why, in a few lines: for the beginning of the first page."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from dueledger.console.cells import flow_of, time_of
from dueledger.console.clock import NEVER
from dueledger.console.flow_sentences import flow_sentence
from dueledger.console.view import View
from dueledger.flow_status import LedgerStatus, late_code_of
from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.states import State
from dueledger.ledger.visible_text import visible

Flow = Mapping[str, Any]

REASONS_MAX: Final = 4
FLOWS_MAX: Final = 3
"""Late flows that are named for each reason."""
_WAITS: Final = {
    State.SCHEDULED.label: "snoozed",
    State.RETRYABLE_FAILURE.label: "retrying",
    State.MANUAL_REVIEW.label: "parked",
    State.CLAIMED.label: "in_flight",
    State.RUNNING.label: "in_flight",
}
"""What a late item waits for that may not be claimed now, as `read_status` has it."""
_WORDS: Final = {
    "due": "may be claimed",
    "snoozed": "is snoozed",
    "blocked": "waits for another item of its key",
    "retrying": "waits for its next attempt",
    "parked": "waits for a person",
    "in_flight": "is handed out or running",
}


class Verdict(NamedTuple):
    """Whether anything is late, as a sentence with its tone, and why the first of it is."""

    tone: str
    sentence: str
    reason: str | None = None


class LateReason(NamedTuple):
    """What late flows wait for, the first of them, and how many more there are."""

    sentence: str | None
    flows: Sequence[Markup]
    more: int


class LateReasons(NamedTuple):
    """The reasons of the flows that have waited longest, and how many others there are."""

    shown: Sequence[LateReason]
    more: int


def mark_late(flows: Sequence[Flow], items: Sequence[Flow], now: datetime) -> list[Flow]:
    """Return the flows of `read_status`, late also by these late items, the first due first.

    It reads few of the items of a flow that cannot be claimed now.
    """
    first: dict[tuple[str, str, str], Flow] = {}
    for item in items:
        first.setdefault(name_of(item), item)
    return [_marked(flow, first.get(name_of(flow)), now) for flow in flows]


def _marked(flow: Flow, item: Flow | None, now: datetime) -> Flow:
    if item is None or (flow["is_past_sla"] and flow["late_due_at"] <= item["due_at"]):
        return flow
    late = {"is_past_sla": True, "late_due_at": item["due_at"], "late_wait": _wait(item, now)}
    return {**flow, **late}


def _wait(item: Flow, now: datetime) -> str:
    at = item["available_at"]
    if at == NEVER:
        return "blocked"
    return "due" if at is not None and at <= now else _WAITS[item["state"]]


def late_flows(flows: Sequence[Flow]) -> list[Flow]:
    """Return the flows with late items, the one whose item was due first before the others."""
    return sorted((flow for flow in flows if flow["is_past_sla"]), key=itemgetter("late_due_at"))


def name_of(row: Flow) -> tuple[str, str, str]:
    """Return the tenant, kind and lane of a flow, or of an item."""
    return row["tenant"], row["kind"], row["lane"]


def make_verdict(
    view: View,
    status: LedgerStatus,
    late: Sequence[Flow],
    items: Sequence[Flow],
    findings: str | None,
) -> Verdict:
    """Return the answer whether anything is late. `findings` are those open, in words."""
    if late:
        flows = "1 flow is" if len(late) == 1 else f"{len(late)} flows are"
        sentence = Markup("{} late. {} has waited longest, due {}.").format(
            flows, _link(view, late[0]), _time(view, late[0]["late_due_at"])
        )
        return Verdict("bad", sentence, _reason(view, status, late[0]))
    if items:
        first = items[0]
        count = "1 item is" if len(items) == 1 else f"{len(items)} items are"
        sentence = Markup("{} late. {}, due {}, {}.").format(
            count,
            visible(" ".join(filter(None, name_of(first)))),
            _time(view, first["due_at"]),
            _WORDS[_wait(first, status.now)],
        )
        return Verdict("bad", sentence)
    if findings is not None:
        return Verdict("warn", f"Nothing is late, but {visible(findings)}.")
    if status.due:
        return Verdict("good", "Items are due, and none is late.")
    if status.groups:
        return Verdict("good", "Nothing is due now, and nothing is late.")
    return Verdict("good", "Nothing is due, and nothing is late.")


def late_reasons(view: View, status: LedgerStatus, late: Sequence[Flow]) -> LateReasons:
    """Return what several late flows wait for, with the names of some; none of one flow."""
    if len(late) == 1:
        return LateReasons([], 0)
    groups: dict[Hindrance | None, list[Flow]] = {}
    for flow in late:
        groups.setdefault(_code(status, flow), []).append(flow)
    shown = [
        LateReason(
            _reason(view, status, flows[0]),
            [_link(view, flow) for flow in flows[:FLOWS_MAX]],
            max(0, len(flows) - FLOWS_MAX),
        )
        for flows in list(groups.values())[:REASONS_MAX]
    ]
    return LateReasons(shown, len(groups) - len(shown))


def _code(status: LedgerStatus, flow: Flow) -> Hindrance | None:
    return None if flow["late_wait"] == "snoozed" else late_code_of(flow, status.roles)


def _reason(view: View, status: LedgerStatus, flow: Flow) -> str | None:
    code = _code(status, flow)
    return "They are snoozed." if code is None else flow_sentence(view, code)


def _time(view: View, instant: datetime) -> Markup:
    return Markup(time_of(view.clock, instant))  # noqa: S704 - it is made of a time


def _link(view: View, flow: Flow) -> Markup:
    href = view.url(f"/flows/{flow['tenant']}/{flow['kind']}", lane=flow["lane"] or None)
    return Markup('<a href="{}">{}</a>').format(href, Markup(flow_of(flow)))  # noqa: S704 - it is escaped there
