"""The rules of alerts: a metric, a bound and for how long, and which other alerts each inhibits.

Prometheus's rules in `deploy/prometheus` are written from these, and `evaluate` applies them to
samples.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from dueledger.ledger.metrics import Metric, Sample

DATABASE_BYTES_MAX: Final = 500e9
"""Size of the database above which DatabaseLarge stands, unless a setting says otherwise."""

CERTIFICATE_SECONDS_MIN: Final = 14 * 86_400
"""Time until a certificate expires below which CertificateExpiring stands."""

ENDED_SECONDS: Final = 30
"""An alert ended if it was not found for so long."""


class AlertSeverity(StrEnum):
    """Whether somebody is called at night."""

    PAGE = "page"
    TICKET = "ticket"


class Aggregation(StrEnum):
    """How the series of a metric become one number; `ABSENT` is 1 if there is none."""

    MAX = "max"
    MIN = "min"
    SUM = "sum"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert stands while the number of a metric is above `above`, or below `below` if given.

    `labels` are those by which series are grouped; `where` has a regular expression for the whole
    value of a label. `summary` may name labels in braces. `breakage` is what is broken then. Of the
    alerts that it `inhibits`, only those whose labels are as `inhibits_where` says, if they have
    them, and only those with equal values of the labels that both have.
    """

    name: str
    metric: Metric
    breakage: str
    summary: str
    labels: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    aggregation: Aggregation = Aggregation.MAX
    above: float = 0.0
    below: float | None = None
    for_seconds: int = 30
    severity: AlertSeverity = AlertSeverity.PAGE
    inhibits: tuple[str, ...] = ()
    inhibits_where: tuple[tuple[str, str], ...] = ()

    @property
    def anchor(self) -> str:
        """Return the place of its section in the runbook."""
        return f"runbook.md#{self.name.lower()}"

    @property
    def expression(self) -> str:
        """Return the rule in the language of Prometheus."""
        where = ",".join(f'{label}=~"{pattern}"' for label, pattern in self.where)
        series = f"{self.metric}{{{where}}}" if where else str(self.metric)
        if self.aggregation is Aggregation.ABSENT:
            return f"absent({series})"
        by = f" by ({', '.join(self.labels)})" if self.labels else ""
        bound = f"> {self.above:g}" if self.below is None else f"< {self.below:.0f}"
        return f"{self.aggregation}{by} ({series}) {bound}"

    def stands(self, value: float, above: float | None = None) -> bool:
        """Return whether the alert stands with this number; `above` is in place of its own."""
        if self.below is not None:
            return value < self.below
        return value > (self.above if above is None else above)


_OF_FLOW: Final = ("tenant", "kind", "topic", "dispatch")
_CANNOT_CLAIM: Final = (
    "ItemsLate",
    "FlowSilent",
    "WorkerMissing",
    "TopicSilent",
    "PartitionStalled",
)
RULES: Final = (
    AlertRule(
        "PostgresUnreachable",
        Metric.SERVER_UNREACHABLE,
        "Postgres is down, cut off, or refuses to be written",
        "{service} cannot use Postgres",
        labels=("service",),
        where=(("server", "postgres"),),
        inhibits=(
            *_CANNOT_CLAIM,
            "AllocatorMissing",
            "KafkaUnreachable",
            "ReconcilerSilent",
            "WatermarkStalled",
        ),
    ),
    AlertRule(
        "KafkaUnreachable",
        Metric.FAILING_PROCESSES,
        "Kafka is down, or cut off",
        "processes of the role {role} do not reach Kafka",
        labels=("role",),
        where=(("server", "kafka"),),
        inhibits=_CANNOT_CLAIM,
        inhibits_where=(("dispatch", "kafka|http|other"),),
    ),
    AlertRule(
        "AllocatorMissing",
        Metric.CLAIMERS,
        "no process lives that claims due items",
        "nothing claims due items: no allocator and no direct worker lives",
        aggregation=Aggregation.ABSENT,
        inhibits=("ItemsLate", "FlowSilent", "WorkerMissing", "TopicSilent", "WatermarkStalled"),
    ),
    AlertRule(
        "WorkerMissing",
        Metric.UNSERVED_ITEMS,
        "due items reach no worker",
        "due items of {topic} wait, and reach no worker",
        labels=("topic", "dispatch"),
        aggregation=Aggregation.SUM,
        inhibits=("ItemsLate", "FlowSilent"),
    ),
    AlertRule(
        "PartitionStalled",
        Metric.STALLED_TOPIC_SECONDS,
        "a worker hangs, or reads a partition no more",
        "a worker makes no progress with a partition of {topic}",
        labels=("topic",),
        inhibits=("ItemsLate", "FlowSilent"),
    ),
    AlertRule(
        "TopicSilent",
        Metric.SILENT_TOPIC_SECONDS,
        "a consumer reports no outcomes",
        "the consumers of {topic} report no outcomes",
        labels=("topic",),
        inhibits=("ItemsLate", "FlowSilent"),
    ),
    AlertRule(
        "FlowSilent",
        Metric.OLDEST_DUE_SECONDS,
        "items of a kind are not claimed",
        "due items of {tenant} {kind} have waited for more than five minutes",
        labels=_OF_FLOW,
        above=300,
        severity=AlertSeverity.TICKET,
    ),
    AlertRule(
        "ItemsLate",
        Metric.LATE_SECONDS,
        "items are past their SLA",
        "items of {tenant} {kind} are open, past their SLA",
        labels=_OF_FLOW,
        inhibits=("FlowSilent",),
    ),
    AlertRule(
        "RetriesExhausted",
        Metric.EXHAUSTED_ITEMS,
        "a handler fails in each attempt",
        "items of {tenant} {kind} failed in each attempt and wait for a person",
        labels=("tenant", "kind"),
        inhibits=("ItemsParked",),
    ),
    AlertRule(
        "ItemsParked",
        Metric.PARKED_ITEMS,
        "a handler parks items",
        "items of {tenant} {kind} wait for a person",
        labels=("tenant", "kind"),
        severity=AlertSeverity.TICKET,
    ),
    AlertRule(
        "ItemsStuck",
        Metric.OPEN_FINDINGS,
        "items are handed out and never end",
        "the reconciler found items that do not move on ({type})",
        labels=("type",),
        where=(("type", "STUCK|HELD_KEY|PUBLISHED_NO_OUTCOME"),),
        aggregation=Aggregation.SUM,
        inhibits=("FindingsOpen",),
    ),
    AlertRule(
        "FindingsOpen",
        Metric.OPEN_FINDINGS,
        "what happened differs from what was expected",
        "the reconciler has open findings of the type {type}",
        labels=("type",),
        where=(("severity", "error|critical"),),
        aggregation=Aggregation.SUM,
        severity=AlertSeverity.TICKET,
    ),
    AlertRule(
        "ReconcilerSilent",
        Metric.RECONCILED_SECONDS,
        "no reconciler makes passes",
        "no pass of the reconciler for ten minutes",
        above=600,
        severity=AlertSeverity.TICKET,
        inhibits=("WatermarkStalled",),
    ),
    AlertRule(
        "WatermarkStalled",
        Metric.WATERMARK_AGE_SECONDS,
        "a kind is not complete for hours",
        "{tenant} {kind} is not complete up to two hours ago",
        labels=("tenant", "kind"),
        above=7200,
        severity=AlertSeverity.TICKET,
    ),
    AlertRule(
        "TransactionOld",
        Metric.OLDEST_TRANSACTION_SECONDS,
        "a transaction is open for long",
        "a transaction has been open for more than ten minutes",
        above=600,
        severity=AlertSeverity.TICKET,
    ),
    AlertRule(
        "DatabaseLarge",
        Metric.DATABASE_BYTES,
        "the disk of Postgres fills",
        "the database is larger than the bound that is set for its disk",
        above=DATABASE_BYTES_MAX,
        severity=AlertSeverity.TICKET,
    ),
    AlertRule(
        "CertificateExpiring",
        Metric.CERTIFICATE_EXPIRY_SECONDS,
        "a certificate of the service is not renewed",
        "a certificate of the service expires in less than 14 days, or has expired",
        aggregation=Aggregation.MIN,
        below=CERTIFICATE_SECONDS_MIN,
        severity=AlertSeverity.TICKET,
    ),
)
"""All alerts, those that inhibit before those that are inhibited."""


class AlertKey(NamedTuple):
    """An alert and the values of its labels."""

    name: str
    labels: tuple[str, ...] = ()


Alerts: TypeAlias = Mapping[AlertKey, float]


def evaluate(
    samples: Iterable[Sample], *, database_bytes_max: float = DATABASE_BYTES_MAX
) -> dict[AlertKey, float]:
    """Return the alerts that stand, with the number."""
    bounds = {Metric.DATABASE_BYTES: database_bytes_max}
    by_metric: dict[Metric, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    return {
        AlertKey(rule.name, labels): value
        for rule in RULES
        for labels, value in _numbers(rule, by_metric.get(rule.metric, []))
        if rule.stands(value, bounds.get(rule.metric))
    }


_REDUCE: Final = {Aggregation.MAX: max, Aggregation.MIN: min, Aggregation.SUM: sum}


def _numbers(rule: AlertRule, samples: Iterable[Sample]) -> list[tuple[tuple[str, ...], float]]:
    names = rule.metric.labels
    wanted = [(names.index(label), re.compile(pattern)) for label, pattern in rule.where]
    groups = [names.index(label) for label in rule.labels]
    found = [
        (tuple(sample.labels[group] for group in groups), sample.value)
        for sample in samples
        if all(pattern.fullmatch(sample.labels[place]) for place, pattern in wanted)
    ]
    if rule.aggregation is Aggregation.ABSENT:
        return [] if found else [((), 1.0)]
    reduce_ = _REDUCE[rule.aggregation]
    grouped = groupby(sorted(found), key=lambda each: each[0])
    return [(labels, float(reduce_(value for _, value in each))) for labels, each in grouped]


def without_inhibited(alerts: Alerts) -> dict[AlertKey, float]:
    """Return the alerts that no other one inhibits, as Alertmanager does by the rules written.

    Where both have a label, only those with an equal value inhibit.
    """
    return {
        key: value
        for key, value in alerts.items()
        if not any(_inhibits(other, key) for other in alerts)
    }


_BY_NAME: Final = {rule.name: rule for rule in RULES}


def _inhibits(other: AlertKey, key: AlertKey) -> bool:
    rule, inhibited = _BY_NAME[other.name], _BY_NAME[key.name]
    if key.name not in rule.inhibits:
        return False
    values = dict(zip(rule.labels, other.labels, strict=True))
    own = dict(zip(inhibited.labels, key.labels, strict=True))
    return all(values[label] == own[label] for label in values.keys() & own.keys()) and all(
        re.fullmatch(pattern, own[label]) for label, pattern in rule.inhibits_where if label in own
    )
