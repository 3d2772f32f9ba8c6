"""Firing alerts: the sentence of their rule, and the list behind each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from dueledger.alerts.open_alerts import list_open_alerts
from dueledger.alerts.rules import RULES, AlertSeverity
from dueledger.ledger.metrics import Metric
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_machine_now
from dueledger.time_spans import brief_span

_METRICS: Final = {rule.name: rule.metric for rule in RULES}
_LISTS: Final[dict[Metric, dict[str, Any]]] = {
    Metric.LATE_SECONDS: {"late": True},
    Metric.OLDEST_DUE_SECONDS: {"open": True},
    Metric.PARKED_ITEMS: {"state": State.MANUAL_REVIEW.label},
    Metric.EXHAUSTED_ITEMS: {"state": State.MANUAL_REVIEW.label},
}
"""Filters of the items that an alert counts."""


class ShownAlert(NamedTuple):
    """An alert as a page shows it; `filters` are those of the items behind it, if it has any.

    `age` is by the machine's clock, as `since` is.
    """

    name: str
    summary: str
    is_page: bool
    since: datetime
    age: str
    filters: dict[str, Any] | None


async def firing_alerts(
    connection: Connection, tenants: Sequence[str] | None, *, limit: int
) -> list[ShownAlert]:
    """Return the alerts that stand longest; for some tenants of those that name one of them."""
    found = sorted(await list_open_alerts(connection, tenants), key=itemgetter("since"))
    if not found:
        return []
    now = await read_machine_now(connection)
    return [_show(each, now) for each in found[:limit]]


def _show(alert: dict[str, Any], now: datetime) -> ShownAlert:
    labels = alert["labels"]
    named = {name: labels[name] for name in ("tenant", "kind") if name in labels}
    filters = _LISTS.get(_METRICS[alert["alert"]]) if "other" not in named.values() else None
    return ShownAlert(
        alert["alert"],
        sentence_of(alert),
        alert["severity"] == AlertSeverity.PAGE,
        alert["since"],
        brief_span(now - alert["since"]),
        None if filters is None else {**named, **filters},
    )


def sentence_of(alert: Mapping[str, Any]) -> str:
    """Return what is wrong, as a sentence begins."""
    summary: str = alert["summary"]
    return summary[:1].upper() + summary[1:]
