"""Why an item has not happened yet: one sentence, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any, Final, assert_never, cast

from dueledger.hindrances import (
    DIRECT,
    HTTP,
    TEXTS,
    Hindrance,
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


_WORK_COMMANDS: Final = {
    DIRECT: "dueledger work --direct module:handlers",
    HTTP: "dueledger work --http",
}
_KINDS_MAX: Final = 6
_DELAYS: Final = frozenset(
    {
        *(Hindrance.NOT_DUE, Hindrance.RETRY, Hindrance.SNOOZED),
        *(Hindrance.RELEASED, Hindrance.EXPIRED, Hindrance.PARKED),
    }
)
"""Hindrances that an operation may end."""

_Facts = dict[str, object]
_Found = tuple[Hindrance, _Facts]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason. `remedy` is None if one can only wait."""

    code: Hindrance
    sentence: str
    remedy: str | None


async def explain(
    connection: Connection, item: Mapping[str, Any], *, for_tenants: bool = False
) -> Explanation:
    """Explain an item as `ledger.store.items.show_item` returned it, by four reads at most.

    The ledger may change between them. `for_tenants`: in a text for a caller of some tenants, which
    names no process, and nothing of others.
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
    remedy = None if remedy is None else remedy.format_map(facts)
    return Explanation(code, sentence.format_map(facts), remedy)


async def _find(connection: Connection, item: Mapping[str, Any], roles: Roles) -> _Found:
    state = _BY_LABEL[item["state"]]
    match state:
        case (
            State.COMPLETED | State.CANCELLED | State.SUPERSEDED | State.SKIPPED | State.WRITTEN_OFF
        ):
            reason = _end_reason(item, state)
            return Hindrance.ENDED, {
                "state": state.label,
                "at": _at(item["ended_at"]),
                "reason": reason,
            }
        case State.MANUAL_REVIEW:
            reason = item["review_reason"]
            return Hindrance.PARKED, {"at": _at(item["parked_at"]), "reason": reason}
        case State.SCHEDULED | State.RETRYABLE_FAILURE:
            blockers = await find_blockers(connection, item["item_no"])
            return _waiting(item, state, blockers, roles) if blockers else _moved(item)
        case State.CLAIMED | State.RUNNING:
            handed_out = await find_handed_out(connection, item)
            return _handed_out(item, state, handed_out, roles) if handed_out else _moved(item)
        case _:
            assert_never(state)


def _of_item(item: Mapping[str, Any]) -> _Facts:
    work = _WORK_COMMANDS.get(item["dispatch"], "dueledger work module:handlers")
    lane = f" --lane {quote(item['lane'])}" if item["lane"] else ""
    return {
        "id": item["id"],
        "kind": item["kind"],
        "topic": item["topic"],
        "due": _at(item["due_at"]),
        "work": work,
        "claim": work if item["dispatch"] == DIRECT else "dueledger allocate",
        "flow": f"{item['tenant']} {item['kind']}{lane}",
    }


def _moved(item: Mapping[str, Any]) -> _Found:
    """Explain an item that moved on between two reads."""
    return Hindrance.MOVED, {"state": item["state"]}


def _of_operation(operation: OperationProgress, roles: Roles) -> _Found:
    facts: _Facts = {
        "operation": operation.operation_no,
        "verb": operation.verb,
        "done": f"{operation.done:,}",
        "matched": f"{operation.matched:,}{'+' if operation.matched_capped else ''}",
        "last": _last_of_upkeep(roles),
    }
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
    facts: _Facts = {"until": _at(available_at), "wait": span(available_at - now)}
    if blockers["is_simulated"] and available_at <= blockers["machine_now"]:
        return Hindrance.CLOCK_BEHIND, facts | {"now": _at(now), "database": blockers["database"]}
    if state is State.RETRYABLE_FAILURE:
        return Hindrance.RETRY, facts | {"attempt": item["attempt"]}
    if item["due_at"] > now:
        return Hindrance.NOT_DUE, facts
    match blockers["last_event"]:
        case TransitionEvent.SNOOZED:
            return Hindrance.SNOOZED, facts
        case TransitionEvent.RELEASED:
            reason = blockers["last_reason"] or "no reason was given"
            return Hindrance.RELEASED, facts | {"reason": reason.rstrip(".")}
        case _:
            return Hindrance.EXPIRED, facts


def _of_pause(item: Mapping[str, Any], blockers: Mapping[str, Any]) -> _Facts:
    kind, lane = blockers["paused_kind"], blockers["paused_lane"]
    scope = blockers["paused_tenant"] or item["tenant"]
    scope += f" {kind}" if kind is not None else ""
    scope += f" --lane {quote(lane)}" if lane is not None else ""
    reason = item["pause_reason"] or "no reason was given"
    by = blockers["paused_by"] or "a person"
    return {"at": _at(blockers["paused_at"]), "by": by, "reason": reason, "scope": scope}


def _of_key(blockers: Mapping[str, Any], roles: Roles) -> _Found:
    facts: _Facts = {"behind": blockers["behind"], "reason": blockers["behind_reason"]}
    if blockers["behind"] is None:
        if has_upkeep(roles):
            return Hindrance.KEY_FREE, facts
        what = "It waited for its key, which is free now"
        return Hindrance.NO_UPKEEP, {"what": what, "last": _last_of_upkeep(roles)}
    if blockers["behind_reason"] is not None:
        return Hindrance.BEHIND_PARKED, facts
    if blockers["behind_until"] is not None:
        return Hindrance.BEHIND_RETRY, facts | {"until": _at(blockers["behind_until"])}
    return Hindrance.OVERLAP if blockers["is_overlap"] else Hindrance.BEHIND, facts


def _of_processes(code: Hindrance, blockers: Mapping[str, Any], roles: Roles) -> _Facts:
    """Return what the text of a hindrance says of processes and servers."""
    workers, claimers = roles[ProcessRole.WORKER], claimers_of(blockers, roles)
    facts: _Facts = {
        "name": claimers.last_name,
        "kinds": _kinds(claimers),
        "last": _last(claimers),
        "database": blockers["database"],
    }
    match code:
        case Hindrance.READ_ONLY:
            standby = "it is a standby" if blockers["is_standby"] else None
            facts["reason"] = standby or "default_transaction_read_only is on"
        case Hindrance.ALLOCATOR_SILENT | Hindrance.DIRECT_WORKER_SILENT:
            facts |= _silent(claimers)
        case Hindrance.KAFKA_DOWN | Hindrance.CLAIMS_FAIL:
            facts |= _failing(claimers if claimers.fails else workers)
        case Hindrance.TOPIC_UNAVAILABLE:
            reasons = roles[ProcessRole.ALLOCATOR].unavailable_topics
            facts["reason"] = reasons[blockers["topic"]]
        case Hindrance.NO_WORKER | Hindrance.NO_HANDLER | Hindrance.WORKER_SILENT:
            facts |= {"kinds": _kinds(workers), "last": _last(workers)} | _silent(workers)
        case _:
            pass
    return facts


def _of_limits(code: Hindrance, item: Mapping[str, Any], blockers: Mapping[str, Any]) -> _Facts:
    """Return what the text of a hindrance says of the flow, its topic and its backlog."""
    in_flight = blockers["handed_out"] + blockers["running"]
    capped = "+" if blockers["before_capped"] else ""
    facts: _Facts = {
        "before": f"{blockers['before']:,}{capped}",
        "in_flight": f"{in_flight:,}",
        "granted": f"{blockers['granted']:,}",
        "outstanding": f"{blockers['outstanding']:,}",
    }
    match code:
        case Hindrance.CIRCUIT_OPEN | Hindrance.CIRCUIT_PROBING:
            rest = f"{blockers['circuit_rest_seconds']:g}"
            facts |= {"at": _at(blockers["circuit_at"]), "rest": rest}
        case Hindrance.CONCURRENCY:
            facts["limit"] = f"{blockers['concurrency_max']:,}"
        case Hindrance.RATE:
            rate = blockers["rate_per_second"]
            wait = timedelta(seconds=(blockers["before"] + 1 - blockers["tokens"]) / rate)
            start = _at(item["now"] + wait)
            facts |= {"limit": f"{rate:g}", "until": f"{start} or later" if capped else start}
        case Hindrance.WINDOW:
            by_topic = blockers["settled_by"] == "topic"
            facts |= {
                "limit": f"{blockers['window_items']:,}",
                "settled": "settled" if by_topic else "started",
                "in_flight": f"{in_flight if by_topic else blockers['handed_out']:,}",
                "more": 2 * blockers["window_items"],
            }
        case Hindrance.SILENT_CONSUMER:
            facts["at"] = _at(blockers["silent_since"])
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
            "at": _at(item["withdrawal_at"]),
            "reason": item["withdrawal_reason"],
        }
    place: _Facts = {
        "partition": claim["partition"],
        "offset": claim["offset"],
        "before": f"{claim['before']:,}",
        "until": _at(claim["lease_until"] if state is State.RUNNING else claim["deadline"]),
        "at": _at(claim["published_at"] or claim["claimed_at"]),
    }
    if state is State.RUNNING:
        return _running(item, claim, roles, place)
    if claim["is_past_deadline"]:
        return _lapsed(f"The deadline of its claim passed at {_at(claim['deadline'])}", roles)
    return _claimed(item, claim, roles, place)


def _claimed(
    item: Mapping[str, Any], claim: Mapping[str, Any], roles: Roles, place: _Facts
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
        return code, place | {"at": _at(claim["stalled_at"]), "next": next_}
    if claim["readers"]:
        return Hindrance.SUSPECT if claim["is_suspect"] else Hindrance.NOT_STARTED, place
    return _unread(item["kind"], roles[ProcessRole.WORKER], place)


def _suspect_without_kafka(workers: RoleStatus, place: _Facts) -> _Found:
    if workers.live:
        return Hindrance.SUSPECT, place
    if workers.silent:
        return Hindrance.DIRECT_WORKER_SILENT, _silent(workers)
    return Hindrance.NO_DIRECT_WORKER, {"last": _last(workers)}


def _unread(kind: str, workers: RoleStatus, place: _Facts) -> _Found:
    code = hindrance_of_workers(workers, kind)
    match code:
        case Hindrance.KAFKA_DOWN:
            return code, _failing(workers)
        case Hindrance.WORKER_SILENT:
            return code, _silent(workers)
        case Hindrance.JOINING:
            return code, place
        case Hindrance.NO_HANDLER:
            others = f"those that live have handlers for {_kinds(workers)}"
            return Hindrance.UNREAD, place | {"last": others}
        case _:
            return Hindrance.UNREAD, place | {"last": _last(workers)}


def _running(
    item: Mapping[str, Any], claim: Mapping[str, Any], roles: Roles, place: _Facts
) -> _Found:
    if claim["is_past_lease"]:
        return _lapsed(f"Its lease ended at {place['until']}", roles)
    if claim["is_settled_by_topic"]:
        intake = roles[ProcessRole.OUTCOME_INTAKE]
        if not intake.live:
            return Hindrance.NO_OUTCOME_INTAKE, place | {"last": _last(intake)}
        return Hindrance.AWAITS_OUTCOME, place
    facts = place | {
        "name": claim["worker"] or "A worker",
        "host": claim["worker_host"],
        "run": item["run_no"],
        "at": _at(claim["started_at"]),
    }
    if claim["worker_status"] in {None, ProcessStatus.LIVE}:
        return Hindrance.RUNNING, facts
    facts["seen"] = _at(claim["worker_seen_at"])
    is_silent = claim["worker_status"] == ProcessStatus.SILENT
    return Hindrance.RUN_SILENT if is_silent else Hindrance.RUN_LOST, facts


def _lapsed(what: str, roles: Roles) -> _Found:
    if has_upkeep(roles):
        return Hindrance.LAPSED, {"what": what}
    return Hindrance.NO_UPKEEP, {"what": what, "last": _last_of_upkeep(roles)}


# Processes in words.


def _last(role: RoleStatus) -> str:
    if role.seen_at is None:
        return "none was seen in a week"
    return f"the last one, {role.last_name} on {role.last_host}, was seen at {_at(role.seen_at)}"


def _last_of_upkeep(roles: Roles) -> str:
    both = (roles[ProcessRole.ALLOCATOR], roles[ProcessRole.DIRECT_WORKER])
    seen = [role for role in both if role.seen_at is not None]
    return _last(max(seen, key=lambda role: role.seen_at or _NEVER, default=both[0]))


def _silent(role: RoleStatus) -> _Facts:
    seen = "" if role.silent_since is None else _at(role.silent_since)
    return {"name": role.silent_name, "host": role.silent_host, "seen": seen}


def _failing(role: RoleStatus) -> _Facts:
    since = "" if role.failing_since is None else _at(role.failing_since)
    return {"name": role.failing_name, "at": since, "failure": role.failure}


def _kinds(role: RoleStatus) -> str:
    more = ", …" if len(role.kinds) > _KINDS_MAX else ""
    return (", ".join(role.kinds[:_KINDS_MAX]) or "no kind") + more


# Items that ended.


def _end_reason(item: Mapping[str, Any], state: State) -> str:
    """Return why an item ended, from its last transition."""
    detail = item["detail"]
    if state is State.COMPLETED:  # evidence is the handler's own: a `reason` in it means nothing
        return "it is done"
    if not isinstance(detail, dict):
        return "no reason was given"
    detail = cast("dict[str, object]", detail)
    reason = detail.get("reason")
    if not isinstance(reason, str) or not reason:
        return "no reason was given"
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


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def _at(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
