"""Why an item has not happened yet: one sentence, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import Any, Final, assert_never
from uuid import UUID

from dueledger.hindrance_facts import (
    Facts,
    Phrase,
    TimeText,
    end_reason,
    failing_facts,
    fill,
    in_utc,
    kinds_in_words,
    last_of_role,
    last_of_upkeep,
    last_seen,
    silent_facts,
)
from dueledger.hindrance_texts import TEXTS, Hindrance
from dueledger.hindrances import (
    DIRECT,
    HTTP,
    Roles,
    claimers_of,
    find_hindrance,
    has_upkeep,
    hindrance_of_workers,
)
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.flows import find_blockers, find_handed_out
from dueledger.ledger.store.operations import OperationProgress, find_operation_of_item
from dueledger.ledger.store.processes import ProcessRole, ProcessStatus, RoleStatus, read_roles
from dueledger.tenant_hindrances import text_for_tenants
from dueledger.time_spans import span

_BY_LABEL = {state.label: state for state in State}
_WORK_COMMANDS: Final = {
    DIRECT: "dueledger work --direct module:handlers",
    HTTP: "dueledger work --http",
}
_DELAYS: Final = frozenset(
    {
        *(Hindrance.NOT_DUE, Hindrance.RETRY, Hindrance.SNOOZED, Hindrance.PUT_OFF),
        *(Hindrance.RELEASED, Hindrance.EXPIRED, Hindrance.PARKED),
    }
)
"""Hindrances that an operation may end."""

_Found = tuple[Hindrance, Facts]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason. `remedy` is None if one can only wait. `behind` is the item it waits for."""

    code: Hindrance
    sentence: str
    remedy: str | None
    behind: UUID | None = None


async def explain(
    connection: Connection,
    item: Mapping[str, Any],
    *,
    for_tenants: bool = False,
    at: TimeText = in_utc,
) -> Explanation:
    """Explain an item as `ledger.store.items.show_item` returned it, by four reads at most.

    The ledger may change between them. `for_tenants`: in a text for a caller of some tenants, which
    names no process, and nothing of others. Its times are as `at` has them.
    """
    roles = await read_roles(connection)
    code, facts = await _find(connection, item, roles)
    if code in _DELAYS:
        operation = await find_operation_of_item(connection, item["item_no"])
        if operation is not None:
            code, facts = _of_operation(operation, roles)
    text = TEXTS[code]
    sentence, remedy = text_for_tenants(code) if for_tenants else (text.sentence, text.remedy)
    facts = _of_item(item) | facts
    remedy = None if remedy is None else fill(remedy, facts, at)
    behind = facts.get("behind")
    named = behind if isinstance(behind, UUID) else None
    return Explanation(code, fill(sentence, facts, at), remedy, named)


async def _find(connection: Connection, item: Mapping[str, Any], roles: Roles) -> _Found:
    state = _BY_LABEL[item["state"]]
    match state:
        case (
            State.COMPLETED | State.CANCELLED | State.SUPERSEDED | State.SKIPPED | State.WRITTEN_OFF
        ):
            reason = end_reason(item, state)
            return Hindrance.ENDED, {
                "state": state.label,
                "at": item["ended_at"],
                "reason": reason,
            }
        case State.MANUAL_REVIEW:
            reason = item["review_reason"]
            return Hindrance.PARKED, {"at": item["parked_at"], "reason": reason}
        case State.SCHEDULED | State.RETRYABLE_FAILURE:
            blockers = await find_blockers(connection, item["item_no"])
            return _waiting(item, state, blockers, roles) if blockers else _moved(item)
        case State.CLAIMED | State.RUNNING:
            handed_out = await find_handed_out(connection, item)
            return _handed_out(item, state, handed_out, roles) if handed_out else _moved(item)
        case _:
            assert_never(state)


def _of_item(item: Mapping[str, Any]) -> Facts:
    work = _WORK_COMMANDS.get(item["dispatch"], "dueledger work module:handlers")
    lane = f" --lane {quote(item['lane'])}" if item["lane"] else ""
    return {
        "id": item["id"],
        "kind": item["kind"],
        "topic": item["topic"],
        "due": item["due_at"],
        "work": work,
        "claim": work if item["dispatch"] == DIRECT else "dueledger allocate",
        "flow": f"{item['tenant']} {item['kind']}{lane}",
    }


def _moved(item: Mapping[str, Any]) -> _Found:
    """Explain an item that moved on between two reads."""
    return Hindrance.MOVED, {"state": item["state"]}


def _of_operation(operation: OperationProgress, roles: Roles) -> _Found:
    facts: Facts = {
        "operation": operation.operation_no,
        "verb": operation.verb,
        "done": f"{operation.done:,}",
        "matched": f"{operation.matched:,}{'+' if operation.matched_capped else ''}",
        "last": last_of_upkeep(roles),
    }
    if operation.awaits_approval:
        return Hindrance.OPERATION_UNAPPROVED, facts
    if operation.is_paused:
        return Hindrance.OPERATION_PAUSED, facts
    return Hindrance.OPERATION_RUNS if has_upkeep(roles) else Hindrance.OPERATION_WAITS, facts


# Items that wait.


def _waiting(
    item: Mapping[str, Any], state: State, blockers: Mapping[str, Any], roles: Roles
) -> _Found:
    if blockers["paused_at"] is not None:
        return Hindrance.PAUSED, _of_pause(item, blockers)
    if blockers["blocked"]:
        return _of_key(blockers, roles)
    if item["available_at"] > item["now"]:
        return _delayed(item, state, blockers)
    code = find_hindrance(blockers, roles)
    return code, _of_processes(code, blockers, roles) | _of_limits(code, item, blockers)


def _delayed(item: Mapping[str, Any], state: State, blockers: Mapping[str, Any]) -> _Found:
    now, available_at = item["now"], item["available_at"]
    facts: Facts = {"until": available_at, "wait": span(available_at - now)}
    if blockers["is_simulated"] and available_at <= blockers["machine_now"]:
        return Hindrance.CLOCK_BEHIND, facts | {"now": now, "database": blockers["database"]}
    if state is State.RETRYABLE_FAILURE:
        return Hindrance.RETRY, facts | {"attempt": item["attempt"]}
    return _scheduled(item, blockers, facts)


def _scheduled(item: Mapping[str, Any], blockers: Mapping[str, Any], facts: Facts) -> _Found:
    last_event = None if blockers["has_expired"] else blockers["last_event"]
    reason = (blockers["last_reason"] or "no reason was given").rstrip(".")
    match last_event:
        case TransitionEvent.SNOOZED if blockers["put_off_by"] is not None:
            return Hindrance.PUT_OFF, facts | {"by": blockers["put_off_by"], "reason": reason}
        case _ if item["due_at"] > item["now"]:
            return Hindrance.NOT_DUE, facts
        case TransitionEvent.SNOOZED:
            return Hindrance.SNOOZED, facts
        case TransitionEvent.RELEASED:
            return Hindrance.RELEASED, facts | {"reason": reason}
        case _:
            return Hindrance.EXPIRED, facts


def _of_pause(item: Mapping[str, Any], blockers: Mapping[str, Any]) -> Facts:
    kind, lane = blockers["paused_kind"], blockers["paused_lane"]
    scope = blockers["paused_tenant"] or item["tenant"]
    scope += f" {kind}" if kind is not None else ""
    scope += f" --lane {quote(lane)}" if lane is not None else ""
    reason = item["pause_reason"] or "no reason was given"
    by = blockers["paused_by"] or "a person"
    until = blockers["paused_until"]
    end = (
        "until somebody resumes it" if until is None else Phrase("until {until}", {"until": until})
    )
    since = blockers["paused_at"]
    return {"at": since, "by": by, "end": end, "reason": reason, "scope": scope}


def _of_key(blockers: Mapping[str, Any], roles: Roles) -> _Found:
    facts: Facts = {"behind": blockers["behind"], "reason": blockers["behind_reason"]}
    if blockers["behind"] is None:
        if has_upkeep(roles):
            return Hindrance.KEY_FREE, facts
        what = "It waited for its key, which is free now"
        return Hindrance.NO_UPKEEP, {"what": what, "last": last_of_upkeep(roles)}
    if blockers["behind_reason"] is not None:
        return Hindrance.BEHIND_PARKED, facts
    if blockers["behind_until"] is not None:
        return Hindrance.BEHIND_RETRY, facts | {"until": blockers["behind_until"]}
    return Hindrance.OVERLAP if blockers["is_overlap"] else Hindrance.BEHIND, facts


def _of_processes(code: Hindrance, blockers: Mapping[str, Any], roles: Roles) -> Facts:
    """Return what the text of a hindrance says of processes and servers."""
    workers, claimers = roles[ProcessRole.WORKER], claimers_of(blockers, roles)
    facts: Facts = {
        "name": claimers.last_name,
        "kinds": kinds_in_words(claimers),
        "last": last_of_role(claimers),
        "database": blockers["database"],
    }
    match code:
        case Hindrance.READ_ONLY:
            standby = "it is a standby" if blockers["is_standby"] else None
            facts["reason"] = standby or "default_transaction_read_only is on"
        case Hindrance.ALLOCATOR_SILENT | Hindrance.DIRECT_WORKER_SILENT:
            facts |= silent_facts(claimers)
        case Hindrance.KAFKA_DOWN | Hindrance.CLAIMS_FAIL:
            facts |= failing_facts(claimers if claimers.fails else workers)
        case Hindrance.TOPIC_UNAVAILABLE:
            reasons = roles[ProcessRole.ALLOCATOR].unavailable_topics
            facts["reason"] = reasons[blockers["topic"]]
        case Hindrance.NO_WORKER | Hindrance.WORKER_SILENT:
            facts |= {"last": last_of_role(workers)} | silent_facts(workers)
        case Hindrance.NO_HANDLER | Hindrance.NO_DIRECT_HANDLER:
            of_role = workers if code is Hindrance.NO_HANDLER else claimers
            handler = (blockers[f"handler_{name}"] for name in ("name", "host", "seen_at"))
            facts |= {"kinds": kinds_in_words(of_role), "last": last_seen(*handler)}
        case _:
            pass
    return facts


def _of_limits(code: Hindrance, item: Mapping[str, Any], blockers: Mapping[str, Any]) -> Facts:
    """Return what the text of a hindrance says of the flow, its topic and its backlog."""
    in_flight = blockers["handed_out"] + blockers["running"]
    capped = "+" if blockers["before_capped"] else ""
    facts: Facts = {
        "before": f"{blockers['before']:,}{capped}",
        "in_flight": f"{in_flight:,}",
        "granted": f"{blockers['granted']:,}",
        "outstanding": f"{blockers['outstanding']:,}",
    }
    match code:
        case Hindrance.CIRCUIT_OPEN | Hindrance.CIRCUIT_PROBING:
            rest = f"{blockers['circuit_rest_seconds']:g}"
            facts |= {"at": blockers["circuit_at"], "rest": rest}
        case Hindrance.CONCURRENCY:
            facts["limit"] = f"{blockers['concurrency_max']:,}"
        case Hindrance.RATE:
            rate = blockers["rate_per_second"]
            wait = timedelta(seconds=(blockers["before"] + 1 - blockers["tokens"]) / rate)
            start = item["now"] + wait
            later = Phrase("{start} or later", {"start": start})
            facts |= {"limit": f"{rate:g}", "until": later if capped else start}
        case Hindrance.WINDOW:
            by_topic = blockers["settled_by"] == "topic"
            facts |= {
                "limit": f"{blockers['window_items']:,}",
                "settled": "settled" if by_topic else "started",
                "in_flight": f"{in_flight if by_topic else blockers['handed_out']:,}",
                "more": 2 * blockers["window_items"],
            }
        case Hindrance.SILENT_CONSUMER:
            facts["at"] = blockers["silent_since"]
        case Hindrance.NO_CREDIT:
            last_at = blockers["outstanding_at"]
            last = Phrase(", the last of them since {at}", {"at": last_at})
            facts["since"] = "" if last_at is None else last
        case _:
            pass
    return facts


# Items that are handed out.


def _handed_out(
    item: Mapping[str, Any], state: State, claim: Mapping[str, Any], roles: Roles
) -> _Found:
    if item["withdrawal_requested"]:
        return Hindrance.WITHDRAWN, {
            "by": item["withdrawal_by"],
            "at": item["withdrawal_at"],
            "reason": item["withdrawal_reason"],
        }
    place: Facts = {
        "partition": claim["partition"],
        "offset": claim["offset"],
        "before": f"{claim['before']:,}",
        "until": claim["lease_until"] if state is State.RUNNING else claim["deadline"],
        "at": claim["published_at"] or claim["claimed_at"],
    }
    if state is State.RUNNING:
        return _running(item, claim, roles, place)
    if claim["is_past_deadline"]:
        passed = Phrase("The deadline of its claim passed at {until}", place)
        return _lapsed(passed, roles)
    return _claimed(item, claim, roles, place)


def _claimed(
    item: Mapping[str, Any], claim: Mapping[str, Any], roles: Roles, place: Facts
) -> _Found:
    if claim["is_suspect"] and claim["partition"] < 0:
        return _suspect_without_kafka(roles[ProcessRole.DIRECT_WORKER], place)
    if claim["published_at"] is None:
        name, status = claim["claimer"] or "a process", claim["claimer_status"] or "unknown"
        return Hindrance.NOT_PUBLISHED, place | {"name": name, "status": status}
    if claim["stalled_at"] is not None:
        offset = claim["next_offset"]
        next_ = "" if offset is None else f" from offset {offset} on"
        waits = claim["waits_for_handlers"]
        code = Hindrance.HANDLERS_STALLED if waits else Hindrance.PARTITION_STALLED
        return code, place | {"at": claim["stalled_at"], "next": next_}
    if claim["readers"]:
        return Hindrance.SUSPECT if claim["is_suspect"] else Hindrance.NOT_STARTED, place
    return _unread(item["kind"], roles[ProcessRole.WORKER], place)


def _suspect_without_kafka(workers: RoleStatus, place: Facts) -> _Found:
    if workers.live:
        return Hindrance.SUSPECT, place
    if workers.silent:
        return Hindrance.DIRECT_WORKER_SILENT, silent_facts(workers)
    return Hindrance.NO_DIRECT_WORKER, {"last": last_of_role(workers)}


def _unread(kind: str, workers: RoleStatus, place: Facts) -> _Found:
    code = hindrance_of_workers(workers, kind)
    match code:
        case Hindrance.KAFKA_DOWN:
            return code, failing_facts(workers)
        case Hindrance.WORKER_SILENT:
            return code, silent_facts(workers)
        case Hindrance.JOINING:
            return code, place
        case Hindrance.NO_HANDLER:
            others = f"those that live have handlers for {kinds_in_words(workers)}"
            return Hindrance.UNREAD, place | {"last": others}
        case _:
            return Hindrance.UNREAD, place | {"last": last_of_role(workers)}


def _running(
    item: Mapping[str, Any], claim: Mapping[str, Any], roles: Roles, place: Facts
) -> _Found:
    if claim["is_past_lease"]:
        return _lapsed(Phrase("Its lease ended at {until}", place), roles)
    if claim["is_settled_by_topic"]:
        intake = roles[ProcessRole.OUTCOME_INTAKE]
        if not intake.live:
            return Hindrance.NO_OUTCOME_INTAKE, place | {"last": last_of_role(intake)}
        return Hindrance.AWAITS_OUTCOME, place
    facts = place | {
        "name": claim["worker"] or "A worker",
        "host": claim["worker_host"],
        "run": item["run_no"],
        "at": claim["started_at"],
    }
    if claim["worker_status"] in {None, ProcessStatus.LIVE}:
        return Hindrance.RUNNING, facts
    facts["seen"] = claim["worker_seen_at"]
    is_silent = claim["worker_status"] == ProcessStatus.SILENT
    return Hindrance.RUN_SILENT if is_silent else Hindrance.RUN_LOST, facts


def _lapsed(what: Phrase, roles: Roles) -> _Found:
    if has_upkeep(roles):
        return Hindrance.LAPSED, {"what": what}
    return Hindrance.NO_UPKEEP, {"what": what, "last": last_of_upkeep(roles)}
