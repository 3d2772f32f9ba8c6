"""What hinders claims of the items of a flow that are due: for one item, and for all of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Hindrance(StrEnum):
    """The strictest hindrance of a flow's due items, as `dueledger why` and `status` name it."""

    PAUSED = "PAUSED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    CONCURRENCY = "CONCURRENCY"
    RATE = "RATE"
    WINDOW = "WINDOW"
    SILENT_CONSUMER = "SILENT_CONSUMER"
    NO_CONSUMER = "NO_CONSUMER"
    NO_CLAIMER = "NO_CLAIMER"
    NOT_CLAIMED = "NOT_CLAIMED"


DIRECT: Final = "direct"


def find_hindrance(flow: Mapping[str, Any]) -> Hindrance:
    """Return what hinders a flow, whose limits `find_blockers` and `read_status` return.

    NOT_CLAIMED if nothing is known to: the items are about to be claimed.
    """
    in_flight = flow["handed_out"] + flow["running"]
    is_by_topic = flow["settled_by"] == "topic"
    waiting = in_flight if is_by_topic else flow["handed_out"]
    needs_credit = not is_by_topic and flow["dispatch"] != DIRECT
    hindrances = (
        (flow.get("paused_at") is not None, Hindrance.PAUSED),
        (flow["circuit"] != "closed", Hindrance.CIRCUIT_OPEN),
        (_reaches(in_flight, flow["concurrency_max"]), Hindrance.CONCURRENCY),
        (flow["rate_per_second"] is not None and flow["tokens"] < 1, Hindrance.RATE),
        (_reaches(waiting, flow["window_items"]), Hindrance.WINDOW),
        (flow["silent_since"] is not None and in_flight > 0, Hindrance.SILENT_CONSUMER),
        (needs_credit and flow["granted"] == 0, Hindrance.NO_CONSUMER),
        (not flow["claimers"], Hindrance.NO_CLAIMER),
    )
    return next((each for applies, each in hindrances if applies), Hindrance.NOT_CLAIMED)


def _reaches(items: int, limit: int | None) -> bool:
    return limit is not None and items >= limit
