"""What the audit has of a change: what it changed, and under `before` what that was."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dueledger.decisions import DecidedItem, detail_of
from dueledger.ledger.item_verbs import VERB_STATES, OperationVerb
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import InheritedRights, RevokedApiKey
from dueledger.ledger.store.flows import PauseResult, ResumeResult
from dueledger.ledger.store.items import RequestResult
from dueledger.ledger.store.operations import ChangedOperation
from dueledger.ledger.store.reviews import TakenReview

PAUSES_MAX: Final = 100
"""Ended pauses that an entry names; it counts all."""
FLOWS_MAX: Final = 100
"""Flows of which an entry has the limits before."""
DRAINED: Final[Mapping[str, Any]] = {"drain_asked": True, "before": {"drain_asked": False}}
"""Of a process, which is asked once."""
APPROVED: Final[Mapping[str, Any]] = {"approved": True, "before": {"approved": False}}
"""Of an operation or repair. An approval that does not cover a reason to ask counts as none."""
_STATE_AFTER: Final = {
    OperationVerb.PARK: State.MANUAL_REVIEW,
    OperationVerb.REDRIVE: State.SCHEDULED,
    OperationVerb.WRITE_OFF: State.WRITTEN_OFF,
    OperationVerb.SNOOZE: State.SCHEDULED,
    OperationVerb.CANCEL: State.CANCELLED,
}


def version_detail(version: int) -> dict[str, Any]:
    """Return the detail of the next version of a definition or calendar, or its first."""
    return {"version": version, "before": {"version": version - 1 or None}}


def pause_detail(paused: PauseResult, until: datetime | None) -> dict[str, Any]:
    """Return the detail of a pause: of one that was in force, which end, reason and person."""
    if paused.was is None or not paused.pauses:
        return detail_of(until)
    return {"until": None, **detail_of(until), "before": paused.was}


def resume_detail(
    resumed: ResumeResult,
    limits: Mapping[str, Any] | None = None,
    limited: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the detail of a resume: the pauses that were in force, and limits that it changed."""
    detail = dict[str, Any](before={})
    if limited:
        detail = limits_detail(limits or {}, limited)
    if resumed.was:
        detail["pauses"] = []
        detail["before"]["pauses"] = resumed.was[:PAUSES_MAX]
        if len(resumed.was) > PAUSES_MAX:
            detail["ended"] = len(resumed.was)
    return detail if detail["before"] else {}


def limits_detail(given: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the detail of changed limits of flows; by flow what they were, where that differs."""
    return {**given, "before": {name: _former_limit(name, flows) for name in given}}


def _former_limit(name: str, flows: Sequence[Mapping[str, Any]]) -> object:
    limits = {f"{each['kind']}/{each['lane']}": each["was"][name] for each in flows[:FLOWS_MAX]}
    values = list(limits.values())
    return values[0] if values.count(values[0]) == len(values) else limits


def operation_detail(changed: ChangedOperation | None) -> dict[str, Any]:
    """Return the detail of an operation that was paused, resumed or aborted."""
    return {} if changed is None else {"status": changed.status, "before": dict(changed.was)}


def resolution_detail(resolution: str) -> dict[str, Any]:
    """Return the detail of the resolution of a finding, which was open."""
    return {"resolution": resolution, "before": {"resolution": "open"}}


def successor_detail(successor: str, rights: InheritedRights) -> dict[str, Any]:
    """Return the detail of a key that expires earlier: its rights are those of its successor."""
    return {
        "successor": successor,
        "scopes": rights.scopes,
        "expires_at": rights.expires_at,
        "before": {"expires_at": rights.expired_at},
    }


def revocation_detail(revoked: RevokedApiKey) -> dict[str, Any]:
    """Return the detail of a revoked key."""
    return {"scopes": revoked.scopes, "revoked": True, "before": {"revoked": False}}


def roles_detail(
    roles: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> dict[str, Any]:
    """Return the detail of roles that were granted to a login or revoked, with all that it has."""
    return {"roles": roles, "all_roles": after, "before": {"all_roles": before}}


def taken_detail(found: Sequence[TakenReview]) -> dict[str, Any]:
    """Return who has what was taken or returned, and who had it before."""
    changed = [each for each in found if each.is_changed]
    return {
        "taken_by": _one_or_counts([each.taken_by for each in changed]),
        "before": {"taken_by": _one_or_counts([each.was_taken_by for each in changed])},
    }


def decision_detail(
    verb: OperationVerb, decided: Sequence[DecidedItem], until: datetime | None
) -> dict[str, Any]:
    """Return the detail of a decision about items that are named.

    Items in flight are counted as `requested`: they have their state until they end.
    """
    accepted = [each for each in decided if each.is_accepted]
    moved = [each for each in accepted if each.result is RequestResult.DONE]
    detail: dict[str, Any] = {"verb": verb, "items": len(accepted), **detail_of(until)}
    if len(moved) < len(accepted):
        detail["requested"] = len(accepted) - len(moved)
    if not moved:
        return detail
    after, before = dict[str, Any](), dict[str, Any]()
    if verb in _STATE_AFTER:
        [*known] = VERB_STATES[verb]
        states = [each.was.state if each.was else None for each in moved]
        named = [(state or known[0]).label for state in states]
        after["state"], before["state"] = _STATE_AFTER[verb].label, _one_or_counts(named)
    if times := [each.was.available_at for each in moved if each.was and each.was.available_at]:
        first, last = min(times), max(times)
        after["available_at"] = "at once" if until is None else until.isoformat()
        before["available_at"] = first if first == last else {"earliest": first, "latest": last}
    return {**detail, **after, "before": before}


def _one_or_counts(values: Sequence[str | None]) -> object:
    """Return the value that all have, or how many have each."""
    counts = Counter(values)
    if len(counts) == 1:
        return values[0]
    return {name or "nobody": count for name, count in counts.most_common()}
