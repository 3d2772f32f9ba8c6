"""Alerts that stand: the sentence of their rule, and the list behind each."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from dueledger.alerts.rules import RULES, AlertRule, AlertSeverity
from dueledger.ledger.metrics import Metric
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection
from dueledger.ledger.store.alerts import FiringAlert, list_firing_alerts
from dueledger.time_spans import brief_span

_READ_MAX: Final = 200
_RULES: Final = {rule.name: rule for rule in RULES}
_LISTS: Final[dict[Metric, dict[str, Any]]] = {
    Metric.LATE_SECONDS: {"late": True},
    Metric.OLDEST_DUE_SECONDS: {"open": True},
    Metric.PARKED_ITEMS: {"state": State.MANUAL_REVIEW.label},
    Metric.EXHAUSTED_ITEMS: {"state": State.MANUAL_REVIEW.label},
}
"""Filters of the items that an alert counts."""


class ShownAlert(NamedTuple):
    """An alert as a page shows it; `filters` are those of the items behind it, if it has any."""

    name: str
    summary: str
    is_page: bool
    age: str
    filters: dict[str, Any] | None


async def firing_alerts(
    connection: Connection, tenants: Sequence[str] | None, *, limit: int
) -> list[ShownAlert]:
    """Return alerts that stand; for some tenants only those that name one of them."""
    rows = await list_firing_alerts(connection, limit=_READ_MAX)
    shown = [(row, _RULES[row.name]) for row in rows if _is_known(row)]
    return [
        _show(row, rule)
        for row, rule in shown
        if tenants is None or _labels(row, rule).get("tenant") in tenants
    ][:limit]


def _is_known(row: FiringAlert) -> bool:
    rule = _RULES.get(row.name)
    return rule is not None and len(rule.labels) == len(row.labels)


def _labels(row: FiringAlert, rule: AlertRule) -> dict[str, str]:
    return dict(zip(rule.labels, row.labels, strict=True))


def _show(row: FiringAlert, rule: AlertRule) -> ShownAlert:
    labels = _labels(row, rule)
    named = {name: labels[name] for name in ("tenant", "kind") if name in labels}
    filters = _LISTS.get(rule.metric) if "other" not in named.values() else None
    summary = rule.summary.format(**labels)
    return ShownAlert(
        row.name,
        summary[:1].upper() + summary[1:],
        rule.severity is AlertSeverity.PAGE,
        brief_span(timedelta(seconds=row.age_seconds)),
        None if filters is None else {**named, **filters},
    )
