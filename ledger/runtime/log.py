"""Structured logs: the catalogue of log events, and the configuration that writes them.

One canonical line a tick and an attempt; nothing per row at INFO. No event carries a payload,
a DSN or a secret.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from time import monotonic
from typing import Any, Final, cast

import structlog

from dueledger.ledger.visible_text import visible, visible_lines

REPEAT_SECONDS: Final = 10.0
TEMPLATES_MAX: Final = 1_000
PASSING: Final = frozenset(
    {
        ("aiokafka.cluster", "Topic %s not found in cluster metadata"),
        ("aiokafka.consumer.fetcher", "Failed fetch offsets from %s: %s"),
        ("aiokafka.consumer.group_coordinator", "Group Coordinator Request failed: %s"),
        (
            "aiokafka.consumer.group_coordinator",
            "Heartbeat failed for group %s because it is rebalancing",
        ),
        (
            "aiokafka.consumer.group_coordinator",
            "Marking the coordinator dead (node %s)for group %s.",
        ),
    }
)
"""What a healthy Kafka client logs in passing, while a topic or a group is made or changes."""

_TRACEBACK: Final = "exception"  # the name under which structlog formats one


class LogEvent(StrEnum):
    """Every event that may be logged, as ``<noun>.<past participle>``."""

    ALERT_NOT_SENT = "alert.not_sent"
    ALERT_SENT = "alert.sent"
    BATCH_RECORDED = "batch.recorded"
    CERTIFICATE_EXPIRING = "certificate.expiring"
    CERTIFICATE_LOADED = "certificate.loaded"
    CERTIFICATE_REFUSED = "certificate.refused"
    CIRCUIT_CHANGED = "circuit.changed"
    CLAIM_AMBIGUOUS = "claim.ambiguous"
    CLAIM_EXPIRED = "claim.expired"
    CLAIM_GAP_FOUND = "claim.gap_found"
    CLAIM_MARK_POSTPONED = "claim.mark_postponed"
    CLAIM_NOT_SENT = "claim.not_sent"
    CLAIM_REAPED = "claim.reaped"
    CLAIM_REFUSED = "claim.refused"
    CONSUMER_REJOINED = "consumer.rejoined"
    CREDIT_NOT_GRANTED = "credit.not_granted"
    DEFINITION_FAILED = "definition.failed"
    DRAIN_TIMED_OUT = "drain.timed_out"
    EVENT_LOOP_BLOCKED = "event_loop.blocked"
    EVENT_LOOP_RESUMED = "event_loop.resumed"
    EVENT_REJECTED = "event.rejected"
    FAILURE_STREAK_FLAGGED = "failure_streak.flagged"
    FETCH_FAILED = "fetch.failed"
    HANDLER_POOL_STUCK = "handler_pool.stuck"
    ISOLATED_PROCESS_DIED = "isolated_process.died"
    ISOLATED_PROCESS_NOT_STARTED = "isolated_process.not_started"
    ISSUER_FAILED = "issuer.failed"
    ITEM_MISPLACED = "item.misplaced"
    ITEM_RECOVERED = "item.recovered"
    KEY_FREED = "key.freed"
    LEASE_LAPSED = "lease.lapsed"
    LEASE_LOST = "lease.lost"
    LOCK_LOST = "lock.lost"
    MEMBER_ENDED = "member.ended"
    METRICS_SERVED = "metrics.served"
    OFFSET_COMMIT_FAILED = "offset.commit_failed"
    OPERATION_FINISHED = "operation.finished"
    PARTITION_RESUMED = "partition.resumed"
    PARTITION_STALLED = "partition.stalled"
    PAUSE_ENDED = "pause.ended"
    PROCESS_ABORTED = "process.aborted"
    PROCESS_LOST = "process.lost"
    PROCESS_STARTED = "process.started"
    PROCESS_STOPPED = "process.stopped"
    RECORDS_DROPPED = "records.dropped"
    RECORD_REJECTED = "record.rejected"
    REQUEST_FAILED = "request.failed"
    RUN_REAPED = "run.reaped"
    RUN_RELEASED = "run.released"
    SERVICE_AWAITED = "service.awaited"
    SETTLEMENT_REFUSED = "settlement.refused"
    START_REFUSED = "start.refused"
    TARGET_REFUSED = "target.refused"
    TICK_COMPLETED = "tick.completed"
    TICK_FAILED = "tick.failed"
    TOPIC_UNAVAILABLE = "topic.unavailable"
    UPKEEP_STEP_FAILED = "upkeep_step.failed"
    WINDOW_MATERIALISED = "window.materialised"


class RepeatFilter(logging.Filter):
    """Let one record in `REPEAT_SECONDS` pass for each logger and message template.

    A Kafka client whose broker is away logs more than a hundred lines a second. The next record
    that passes says how many were withheld before it. Of what is `PASSING` none passes in the first
    `REPEAT_SECONDS`, nor after so long without one.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._passed: dict[tuple[str, str], tuple[float, int]] = {}
        self._last: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written. Counts a record that is withheld."""
        key, now = (record.name, str(record.msg)), self._clock()
        if key not in self._passed and len(self._passed) >= TEMPLATES_MAX:
            self._passed.clear()  # messages without a template differ each time
        passed, withheld = self._passed.get(key, (float("-inf"), 0))
        if key in PASSING:
            if now - self._last.get(key, float("-inf")) >= REPEAT_SECONDS:
                passed, withheld = now, 0
            self._last[key] = now
        if now - passed < REPEAT_SECONDS:
            self._passed[key] = passed, withheld + 1
            return False
        self._passed[key] = now, 0
        if withheld:
            record.msg = f"{record.getMessage()} ({withheld} more like it were withheld)"
            record.args = None
        return True


def configure(*, json: bool, verbose: bool = False) -> None:
    """Write logs to stderr: JSON lines in production, readable ones on a terminal.

    Libraries log through the standard library. Their records have the same form; `RepeatFilter`
    withholds repeated ones.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    rendering: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]
        if json
        else [_show_text, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RepeatFilter())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _show_text(
    _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape what a terminal would execute. JSON escapes it itself; a traceback has lines."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible_lines(value) if name == _TRACEBACK else visible(value)
    return event


def get_logger(role: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger whose lines name the role.

    They go where structlog is configured to write, by `configure` or by the program; it may be
    configured later. Where it is not, as in most programs with a worker inside, they are records of
    the standard library's logger ``dueledger.<role>``, and nothing is written to stdout.
    """
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        None, wrapper_class=cast("type", _bound), role=role
    )
    return logger


_StandardLogger: Final = structlog.make_filtering_bound_logger(logging.INFO)


def _bound(
    logger: object, processors: Iterable[structlog.typing.Processor], context: dict[str, Any]
) -> object:
    """Make a bound logger for each line, as structlog does with its `wrapper_class`."""
    if structlog.is_configured():
        configured: Callable[..., object] = structlog.get_config()["wrapper_class"]
        return configured(logger, processors=processors, context=context)
    standard = logging.getLogger(f"dueledger.{context['role']}")
    return _StandardLogger(standard, processors=[_as_record], context=context)


def _as_record(
    _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
) -> tuple[tuple[str], dict[str, Any]]:
    """Return the arguments of a standard logger's method: one line, and `fields` on the record."""
    name = str(event.pop("event"))
    line = " ".join([name, *(f"{field}={value!r}" for field, value in event.items())])
    return (visible(line),), {"extra": {"event": name, "fields": event}}
