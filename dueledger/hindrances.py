"""What hinders items: their flow's limits, the processes that claim them, their topic's workers."""

from collections.abc import Mapping
from typing import Any, Final

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.store.processes import ProcessRole, RoleStatus

DIRECT: Final = "direct"
HTTP: Final = "http"
KAFKA: Final = "kafka"

Roles = Mapping[ProcessRole, RoleStatus]


def find_hindrance(flow: Mapping[str, Any], roles: Roles) -> Hindrance:
    """Return what hinders a flow, whose limits `find_blockers` and `read_status` return.

    NOT_CLAIMED if nothing is known to: the items are about to be claimed.
    """
    if flow["paused_at"] is not None:
        return Hindrance.PAUSED
    if flow["is_standby"] or flow["is_read_only"]:
        return Hindrance.READ_ONLY
    return (
        _hindrance_of_claimers(flow, roles)
        or _hindrance_of_limits(flow)
        or (None if _has_direct(flow, roles) else _hindrance_of_topic(flow, roles))
        or Hindrance.NOT_CLAIMED
    )


def claimers_of(flow: Mapping[str, Any], roles: Roles) -> RoleStatus:
    """Return the processes that claim the items of a flow."""
    workers = roles[ProcessRole.DIRECT_WORKER]
    if _is_pulled(flow, roles) and not workers.takes(flow["tenant"], flow["kind"]):
        return roles[ProcessRole.SERVICE]
    if flow["dispatch"] == DIRECT or workers.takes(flow["tenant"], flow["kind"]):
        return workers
    return roles[ProcessRole.ALLOCATOR]


def has_upkeep(roles: Roles) -> bool:
    """Return whether a live process runs upkeep."""
    return any(role.upkeep for role in roles.values())


def _has_direct(flow: Mapping[str, Any], roles: Roles) -> bool:
    workers = roles[ProcessRole.DIRECT_WORKER]
    return workers.takes(flow["tenant"], flow["kind"]) or _is_pulled(flow, roles)


def _is_pulled(flow: Mapping[str, Any], roles: Roles) -> bool:
    """Return whether pull workers ask a live service for the items of a flow."""
    return roles[ProcessRole.SERVICE].takes(flow["tenant"], flow["kind"])


def _hindrance_of_claimers(flow: Mapping[str, Any], roles: Roles) -> Hindrance | None:
    if _is_pulled(flow, roles):
        return None
    claimers = claimers_of(flow, roles)
    is_direct = flow["dispatch"] == DIRECT
    if claimers.fails:
        is_kafka = claimers.failed_service == KAFKA
        return Hindrance.KAFKA_DOWN if is_kafka else Hindrance.CLAIMS_FAIL
    if claimers.live:
        lacks_handler = is_direct and not _has_direct(flow, roles)
        return Hindrance.NO_DIRECT_HANDLER if lacks_handler else None
    if claimers.silent:
        return Hindrance.DIRECT_WORKER_SILENT if is_direct else Hindrance.ALLOCATOR_SILENT
    return Hindrance.NO_DIRECT_WORKER if is_direct else Hindrance.NO_ALLOCATOR


def _hindrance_of_limits(flow: Mapping[str, Any]) -> Hindrance | None:
    in_flight = flow["handed_out"] + flow["running"]
    waiting = in_flight if flow["settled_by"] == "topic" else flow["handed_out"]
    limits = (
        (flow["circuit"] == "open", Hindrance.CIRCUIT_OPEN),
        (flow["circuit"] == "half_open", Hindrance.CIRCUIT_PROBING),
        (_reaches(in_flight, flow["concurrency_max"]), Hindrance.CONCURRENCY),
        (flow["rate_per_second"] is not None and flow["tokens"] < 1, Hindrance.RATE),
        (_reaches(waiting, flow["window_items"]), Hindrance.WINDOW),
        (flow["silent_since"] is not None and in_flight > 0, Hindrance.SILENT_CONSUMER),
    )
    return next((each for applies, each in limits if applies), None)


def _hindrance_of_topic(flow: Mapping[str, Any], roles: Roles) -> Hindrance | None:
    if flow["topic"] in roles[ProcessRole.ALLOCATOR].unavailable_topics:
        return Hindrance.TOPIC_UNAVAILABLE
    if flow["settled_by"] == "topic":
        return None
    if flow["grants"]:
        return Hindrance.NO_CREDIT if flow["outstanding"] >= flow["granted"] else None
    return hindrance_of_workers(roles[ProcessRole.WORKER], flow["kind"])


def hindrance_of_workers(workers: RoleStatus, kind: str) -> Hindrance:
    """Return why none of the workers reads the topic of a kind."""
    if workers.fails and workers.failed_service == KAFKA:
        return Hindrance.KAFKA_DOWN
    if workers.live:
        return Hindrance.JOINING if kind in workers.kinds else Hindrance.NO_HANDLER
    return Hindrance.WORKER_SILENT if workers.silent else Hindrance.NO_WORKER


def is_unread(flow: Mapping[str, Any], roles: Roles) -> bool:
    """Return whether items of a flow lie in a topic that workers read alone, and none lives."""
    if flow["dispatch"] in {DIRECT, HTTP} or flow["settled_by"] == "topic":
        return False
    workers = roles[ProcessRole.WORKER]
    return not (workers.live or workers.silent or _has_direct(flow, roles))


def _reaches(items: int, limit: int | None) -> bool:
    return limit is not None and items >= limit
