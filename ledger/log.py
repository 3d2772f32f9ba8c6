"""Structured logs: the catalogue of events, and how they are written.

One canonical line a tick and an attempt; nothing per row at INFO. No event carries a payload,
a DSN or a secret.
"""

import logging
import sys
from enum import StrEnum

import structlog


class LogEvent(StrEnum):
    """Every event that may be logged, as ``<noun>.<past participle>``."""

    BATCH_TAKEN = "batch.taken"
    CLAIM_AMBIGUOUS = "claim.ambiguous"
    CLAIM_DETACHED = "claim.detached"
    CLAIM_LATE = "claim.late"
    CLAIM_PUBLISHED = "claim.published"
    CLAIM_UNMARKED = "claim.unmarked"
    CLAIM_UNSENT = "claim.unsent"
    DEFINITION_FAILED = "definition.failed"
    EVENT_REJECTED = "event.rejected"
    LEASE_LAPSED = "lease.lapsed"
    OFFSET_UNCOMMITTED = "offset.uncommitted"
    PROCESS_STARTED = "process.started"
    PROCESS_STOPPED = "process.stopped"
    RECORD_REJECTED = "record.rejected"
    RUN_LOST = "run.lost"
    RUN_REAPED = "run.reaped"
    SETTLE_STALE = "settle.stale"
    START_STALE = "start.stale"
    TICK_COMPLETED = "tick.completed"
    TICK_FAILED = "tick.failed"
    TOPIC_REFUSED = "topic.refused"
    WINDOW_MATERIALISED = "window.materialised"


def configure(*, json: bool, verbose: bool = False) -> None:
    """Write logs to stderr: JSON lines in production, readable ones on a terminal.

    What libraries log through the standard library comes out in the same form.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def get_logger(role: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger that names the role it speaks for; `configure` may come after."""
    return structlog.get_logger(role=role)
