"""Why an item has not happened yet: one sentence, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, assert_never, cast

from dueledger.hindrances import DIRECT, Hindrance, find_hindrance
from dueledger.ledger.states import State
from dueledger.time_spans import span

_BY_LABEL = {state.label: state for state in State}
_SKIPPED: Final = {
    "overlap": "another item of its definition (and business key) was before it, and the "
    "definition's `overlap` skips waiting items",
    "catch_up": "it was missed, and by `catch_up` of its definition it is no longer owed",
    "calendar": "{day} is not a business day of its definition's calendar",
    "gap": "{nominal} does not exist on its day, and its definition skips such a time (`gap`)",
    "merged": "its schedule owes one item at an instant, and {into} is due at the same",
}
_DATE_CHARS: Final = 10
_SUPERSEDED: Final = {
    "version": "a newer version of its definition does not owe it",
    "tzdata": "a newer tz database does not have its local time",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason. `code` is stable; `remedy` is None if one can only wait."""

    code: str
    sentence: str
    remedy: str | None


def explain(
    item: Mapping[str, Any],
    blockers: Mapping[str, Any] | None = None,
    stalled: Mapping[str, Any] | None = None,
) -> Explanation:
    """Explain an item as `ledger.store.items.show_item` returns it.

    `blockers` is the result of `ledger.store.flows.find_blockers` for a pending item, `stalled` of
    `ledger.store.topic_partitions.find_stalled_partition` for a claimed one.
    """
    state = _BY_LABEL[item["state"]]
    match state:
        case (
            State.COMPLETED | State.CANCELLED | State.SUPERSEDED | State.SKIPPED | State.WRITTEN_OFF
        ):
            ended = f"It ended as {state.label} at {_at(item['ended_at'])}"
            reason = _end_reason(item, state)
            return Explanation("ENDED", f"{ended}: {reason}." if reason else f"{ended}.", None)
        case State.MANUAL_REVIEW:
            return Explanation(
                "PARKED",
                f"It waits for a person: {item['review_reason']}.",
                f"`dueledger redrive {item['id']} --reason …`, or `dueledger write-off`.",
            )
        case State.SCHEDULED | State.RETRYABLE_FAILURE:
            return _waiting(item, state, blockers or {})
        case State.CLAIMED:
            if stalled is not None:
                return _explain_stall(item, stalled)
            return Explanation(
                "NOT_STARTED",
                f"It was handed out to {item['topic']} (claim {item['fence']}, position "
                f"{item['position']}), and no worker has started it.",
                f"Check that a worker for {item['kind']} runs: `dueledger work module:handlers`. "
                "When the claim's deadline passes it is handed out again.",
            )
        case State.RUNNING:
            return Explanation(
                "RUNNING",
                f"A worker runs it now (run {item['run_no']}).",
                None,
            )
        case _:
            assert_never(state)


def _explain_stall(item: Mapping[str, Any], stalled: Mapping[str, Any]) -> Explanation:
    partition = f"partition {stalled['partition']} of {stalled['topic']}"
    offset = stalled["next_offset"]
    read_from = "" if offset is None else f" from offset {offset} on"
    if stalled["waits_for_handlers"]:
        return Explanation(
            "PARTITION_STALLED",
            f"It was handed out to {partition} (claim {item['fence']}), and the worker that has it "
            f"has begun nothing{read_from} since {_at(stalled['stalled_at'])}.",
            "Look in the worker's log for handlers that hang, or start more workers. When the "
            "claim's deadline passes the item is handed out again.",
        )
    return Explanation(
        "PARTITION_STALLED",
        f"It was handed out to {partition} (claim {item['fence']}), and the worker that has it has "
        f"read nothing{read_from} since {_at(stalled['stalled_at'])}.",
        "Check that the worker reaches the brokers: `dueledger doctor` in its environment. It "
        "joins its group anew by itself; when the claim's deadline passes the item is handed out "
        "again.",
    )


def _end_reason(item: Mapping[str, Any], state: State) -> str | None:
    """Return why an item ended, from its last transition; None if that has no reason."""
    detail = item["detail"]
    if state is State.COMPLETED or not isinstance(detail, dict):
        return None  # evidence is the handler's own: a member `reason` means nothing here
    detail = cast("dict[str, object]", detail)
    reason = detail.get("reason")
    if not isinstance(reason, str) or not reason:
        return None
    if state is State.SKIPPED and reason in _SKIPPED:
        nominal = _nominal(item)
        into = str(detail.get("into", "another")).replace("T", " ")
        return _SKIPPED[reason].format(nominal=nominal, day=nominal[:_DATE_CHARS], into=into)
    if state is State.SUPERSEDED:
        reason = _SUPERSEDED.get(reason, reason)
    return reason.rstrip(".")


def _nominal(item: Mapping[str, Any]) -> str:
    """Return the nominal local time of an item as text."""
    if item["nominal"] is None:
        return item["effective_date"].isoformat()
    return f"{item['nominal'].replace('T', ' ')} in {item['zone']}"


def _waiting(item: Mapping[str, Any], state: State, blockers: Mapping[str, Any]) -> Explanation:
    now, available_at = item["now"], item["available_at"]
    if item["paused_at"] is not None:
        return Explanation(
            "PAUSED",
            f"Its flow is paused since {_at(item['paused_at'])}: "
            f"{item['pause_reason'] or 'no reason given'}.",
            "`dueledger flow pauses` shows by whom; `dueledger resume` ends it.",
        )
    if blockers.get("blocked"):
        behind = blockers.get("behind")
        return Explanation(
            "BEHIND",
            "It waits until another item of its key ends"
            + (f": {behind}." if behind else "; the next pass of upkeep unblocks it."),
            f"`dueledger why {behind}` explains that one." if behind else None,
        )
    if state is State.RETRYABLE_FAILURE and available_at > now:
        return Explanation(
            "RETRY",
            f"Attempt {item['attempt']} failed; the next is not before {_at(available_at)}, "
            f"{span(available_at - now)} from now.",
            None,
        )
    if item["due_at"] > now:
        return Explanation(
            "NOT_DUE",
            f"It is not due before {_at(item['due_at'])}, {span(item['due_at'] - now)} from now.",
            None,
        )
    if available_at > now:
        return _explain_delay(item, available_at, now, snoozed=blockers.get("snoozed", True))
    return _explain_hindrance(item, blockers) if blockers else _explain_unclaimed(item, blockers)


def _explain_hindrance(item: Mapping[str, Any], blockers: Mapping[str, Any]) -> Explanation:
    """Explain an item by what hinders its flow."""
    flow = f"{item['tenant']} {item['kind']}" + (f" --lane {item['lane']}" if item["lane"] else "")
    in_flight = blockers["handed_out"] + blockers["running"]
    by_topic = blockers["settled_by"] == "topic"
    hindrance = find_hindrance(blockers)
    match hindrance:
        case Hindrance.PAUSED | Hindrance.NO_CLAIMER | Hindrance.NOT_CLAIMED:
            return _explain_unclaimed(item, blockers)
        case Hindrance.CIRCUIT_OPEN:
            sentence = (
                "Its flow failed too often: the circuit is "
                f"{blockers['circuit'].replace('_', '-')} since {_at(blockers['circuit_at'])}."
            )
            remedy = (
                f"A probe is allowed {blockers['circuit_rest_seconds']:g} seconds after it "
                f"opened; `dueledger flow set {flow} --circuit none` removes the circuit."
            )
        case Hindrance.CONCURRENCY:
            sentence = (
                f"Its flow may have {blockers['concurrency_max']} items handed out and running at "
                f"once, and has {in_flight}."
            )
            remedy = f"`dueledger flow set {flow} --concurrency COUNT` changes that."
        case Hindrance.RATE:
            sentence = (
                f"Its flow is limited to {blockers['rate_per_second']:g} items a second, and "
                "others are before it."
            )
            remedy = f"`dueledger flow set {flow} --rate NUMBER` changes that."
        case Hindrance.WINDOW:
            sentence = (
                f"Its flow may have {blockers['window_items']} items handed out and not "
                f"{'settled' if by_topic else 'started'}, and has "
                f"{in_flight if by_topic else blockers['handed_out']}."
            )
            remedy = (
                f"Check that its consumers keep up, or `dueledger flow set {flow} --window COUNT`."
            )
        case Hindrance.SILENT_CONSUMER:
            sentence = (
                f"No outcomes are reported for {item['topic']}, so since "
                f"{_at(blockers['silent_since'])} its flow is handed one item at a time."
            )
            remedy = (
                f"Check that the consumer of {item['topic']} runs, and `dueledger work "
                "--outcomes`: the next reported outcome ends the limit."
            )
        case Hindrance.NO_CONSUMER:
            sentence = (
                f"No live worker grants credit for {item['topic']}, so the item is not handed out."
            )
            remedy = (
                f"Check that a worker for {item['kind']} runs: `dueledger work module:handlers`."
            )
        case _:
            assert_never(hindrance)
    return Explanation(hindrance.value, sentence, remedy)


def _explain_unclaimed(item: Mapping[str, Any], blockers: Mapping[str, Any]) -> Explanation:
    is_direct = blockers.get("dispatch") == DIRECT
    claimer = "worker in direct mode" if is_direct else "allocator"
    command = "dueledger work --direct module:handlers" if is_direct else "dueledger allocate"
    due = f"It is due since {_at(item['due_at'])}"
    if blockers.get("claimers"):
        return Explanation(
            "NOT_CLAIMED",
            f"{due}, and no {claimer} has claimed it; {blockers['claimers']} of them live.",
            "Look in their logs for `tick.failed` and `claim.refused`.",
        )
    seen_at = blockers.get("claimer_seen_at")
    last = f"the last one was seen at {_at(seen_at)}" if seen_at else "none was seen in a week"
    return Explanation(
        "NO_CLAIMER", f"{due}, and no {claimer} runs: {last}.", f"Start one: `{command}`."
    )


def _explain_delay(
    item: Mapping[str, Any], available_at: datetime, now: datetime, *, snoozed: bool
) -> Explanation:
    until = f"{_at(available_at)}, {span(available_at - now)} from now"
    if snoozed:
        return Explanation("SNOOZED", f"Its handler snoozed it until {until}.", None)
    return Explanation(
        "EXPIRED",
        "It was handed out, and no worker started it before its queue deadline; it is handed out "
        f"again at {until}.",
        f"Check that the workers for {item['kind']} keep up, and `dueledger doctor`.",
    )


def _at(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
