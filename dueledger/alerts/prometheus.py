"""The files of `deploy/prometheus`: rules, inhibitions for Alertmanager, and a dashboard."""

import json
from typing import Any, Final

import yaml

from dueledger.alerts.rules import ENDED_SECONDS, RULES, AlertRule
from dueledger.ledger.metrics import Metric, MetricType

HEADER: Final = "# `make schema` writes this file from dueledger/alerts/rules.py.\n"
RUNBOOK: Final = "docs/"
PANEL_HEIGHT: Final = 7
PANEL_WIDTH: Final = 8
DASHBOARD_WIDTH: Final = 24


def _alert(rule: AlertRule) -> dict[str, Any]:
    summary = rule.summary
    for label in rule.labels:
        summary = summary.replace(f"{{{label}}}", f"{{{{ $labels.{label} }}}}")
    return {
        "alert": f"Dueledger{rule.name}",
        "expr": rule.expression,
        "for": f"{rule.for_seconds}s",
        **({"keep_firing_for": f"{seconds}s"} if (seconds := _kept_seconds(rule)) else {}),
        "labels": {"severity": str(rule.severity)},
        "annotations": {"summary": summary, "runbook": RUNBOOK + rule.anchor},
    }


def _kept_seconds(rule: AlertRule) -> int:
    """Return how long an alert fires after it was last found: longer than those that it inhibits.

    What follows from it may end a moment later, and would fire alone then.
    """
    inhibited = [_kept_seconds(each) for each in RULES if each.name in rule.inhibits]
    return ENDED_SECONDS + max(inhibited) if inhibited else 0


def rules_file() -> str:
    """Return the rules of Prometheus."""
    group = {"name": "dueledger", "interval": "15s", "rules": [_alert(rule) for rule in RULES]}
    return HEADER + yaml.safe_dump({"groups": [group]}, sort_keys=False, width=120)


def inhibitions_file() -> str:
    """Return `inhibit_rules` of Alertmanager: which alert silences which others."""
    by_name = {rule.name: rule for rule in RULES}
    rules: list[dict[str, Any]] = []
    for rule in RULES:
        groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for name in rule.inhibits:
            own = by_name[name].labels
            equal = tuple(label for label in rule.labels if label in own)
            where = tuple(
                f'{label}=~"{text}"' for label, text in rule.inhibits_where if label in own
            )
            groups.setdefault((equal, where), []).append(name)
        rules += [
            {
                "source_matchers": [f'alertname="Dueledger{rule.name}"'],
                "target_matchers": [f'alertname=~"Dueledger({"|".join(names)})"', *where],
                **({"equal": list(equal)} if equal else {}),
            }
            for (equal, where), names in groups.items()
        ]
    return HEADER + yaml.safe_dump({"inhibit_rules": rules}, sort_keys=False, width=120)


_PANELS: Final = (
    ("Due items", "short", ("sum by (tenant, kind) ({DUE_ITEMS})",)),
    ("Oldest due item", "s", ("max by (tenant, kind) ({OLDEST_DUE_SECONDS})",)),
    ("Late", "s", ("max by (tenant, kind) ({LATE_SECONDS})",)),
    ("Outcomes", "ops", ("sum by (outcome) (rate({OUTCOMES}[1m]))",)),
    (
        "Start lag",
        "s",
        (
            "histogram_quantile(0.5, sum by (le) (rate({START_LAG_SECONDS}_bucket[5m])))",
            "histogram_quantile(0.99, sum by (le) (rate({START_LAG_SECONDS}_bucket[5m])))",
        ),
    ),
    (
        "Completion lag",
        "s",
        (
            "histogram_quantile(0.5, sum by (le) (rate({COMPLETION_LAG_SECONDS}_bucket[5m])))",
            "histogram_quantile(0.99, sum by (le) (rate({COMPLETION_LAG_SECONDS}_bucket[5m])))",
        ),
    ),
    ("In flight", "short", ("sum ({CLAIMED_ITEMS})", "sum ({RUNNING_ITEMS})")),
    (
        "Wait for a retry or a person",
        "short",
        ("sum ({RETRYING_ITEMS})", "sum by (tenant, kind) ({PARKED_ITEMS})"),
    ),
    ("Not served", "short", ("sum by (topic) ({UNSERVED_ITEMS})",)),
    ("Open findings", "short", ("sum by (type) ({OPEN_FINDINGS})",)),
    ("Age of the watermark", "s", ("max by (tenant, kind) ({WATERMARK_AGE_SECONDS})",)),
    ("Processes", "short", ("sum by (role, status) ({PROCESSES})",)),
    ("Credit", "short", ("sum by (topic) ({CREDIT_ITEMS})",)),
    (
        "Time in statements",
        "percentunit",
        ("topk(10, sum by (statement) (rate({STATEMENT_SECONDS}[1m])))",),
    ),
    (
        "Connections in use",
        "short",
        ('sum by (instance) ({POOL_CONNECTIONS}{{state="in_use"}})',),
    ),
    ("Stalled partitions", "s", ("max by (topic, partition) ({PARTITION_STALLED_SECONDS})",)),
    ("Failed passes", "ops", ("sum by (service, error) (rate({PASS_FAILURES}[1m]))",)),
    ("Database", "bytes", ("max ({DATABASE_BYTES})",)),
)
"""Titles, units and expressions; names of metrics are those of the catalogue's members."""


def dashboard_file() -> str:
    """Return the dashboard for Grafana, with a variable for its data source."""
    names = {metric.name: str(metric) for metric in Metric}
    source = {"type": "prometheus", "uid": "${source}"}
    columns = DASHBOARD_WIDTH // PANEL_WIDTH
    panels: list[dict[str, Any]] = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {
                "x": number % columns * PANEL_WIDTH,
                "y": number // columns * PANEL_HEIGHT,
                "w": PANEL_WIDTH,
                "h": PANEL_HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + place), "datasource": source, "expr": text.format(**names)}
                for place, text in enumerate(expressions)
            ],
        }
        for number, (title, unit, expressions) in enumerate(_PANELS)
    ]
    dashboard: dict[str, Any] = {
        "uid": "dueledger",
        "title": "Dueledger",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": panels,
    }
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def exposed_names() -> set[str]:
    """Return the names of series that processes expose."""
    suffixes = {MetricType.HISTOGRAM: ("_bucket", "_count", "_sum")}
    return {f"{metric}{suffix}" for metric in Metric for suffix in suffixes.get(metric.type, ("",))}
