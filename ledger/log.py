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

    CLAIM_AMBIGUOUS = "claim.ambiguous"
    CLAIM_LATE = "claim.late"
    CLAIM_PUBLISHED = "claim.published"
    CLAIM_UNMARKED = "claim.unmarked"
    CLAIM_UNSENT = "claim.unsent"
    PROCESS_STARTED = "process.started"
    PROCESS_STOPPED = "process.stopped"
    RUN_REAPED = "run.reaped"
    TICK_COMPLETED = "tick.completed"
    TICK_FAILED = "tick.failed"
    TOPIC_REFUSED = "topic.refused"


def configure(*, json: bool, verbose: bool = False) -> None:
    """Write logs to stderr: JSON lines in production, readable ones on a terminal."""
    renderer = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbose else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def get_logger(role: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger that names the role it speaks for."""
    return structlog.get_logger().bind(role=role)
