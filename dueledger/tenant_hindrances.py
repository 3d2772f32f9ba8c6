"""What a text for a caller of some tenants says of a hindrance: nothing of processes and others."""

from collections.abc import Mapping
from string import Formatter
from typing import Final

from dueledger.hindrance_texts import TEXTS, Hindrance

PRIVATE_FACTS: Final = frozenset(
    {
        *("name", "host", "last", "kinds", "failure", "database"),
        *("granted", "outstanding", "operation", "done", "matched"),
    }
)
"""Facts about processes, and counts that include items of other tenants."""

_PLACE: Final = "It lies in partition {partition} of {topic} at offset {offset} since {at}"

TENANT_SENTENCES: Final[Mapping[Hindrance, str]] = {
    Hindrance.OPERATION_RUNS: "An operation ({verb}) is to change it.",
    Hindrance.OPERATION_WAITS: "An operation ({verb}) is to change it, and no process carries "
    "operations out.",
    Hindrance.OPERATION_PAUSED: "An operation ({verb}) is to change it, and is paused.",
    Hindrance.OPERATION_UNAPPROVED: "An operation ({verb}) is to change it, and waits until a "
    "second person approves it.",
    Hindrance.READ_ONLY: "The database accepts no writes: {reason}.",
    Hindrance.NO_ALLOCATOR: "It is due since {due}, and no allocator runs.",
    Hindrance.ALLOCATOR_SILENT: "It is due since {due}, and no allocator responds since "
    "{seen}: it is stopped, or hangs.",
    Hindrance.NO_DIRECT_WORKER: "It is due since {due}, and no direct worker runs.",
    Hindrance.DIRECT_WORKER_SILENT: "It is due since {due}, and no direct worker responds "
    "since {seen}: it is stopped, or hangs.",
    Hindrance.NO_DIRECT_HANDLER: "It is due since {due}, and no live direct worker has a handler "
    "for {kind}.",
    Hindrance.KAFKA_DOWN: "Kafka has not responded since {at}.",
    Hindrance.CLAIMS_FAIL: "No process can claim it; the attempts fail since {at}.",
    Hindrance.NO_WORKER: "It is due since {due}, and no worker runs that could take it.",
    Hindrance.WORKER_SILENT: "No worker responds since {seen}: it is stopped, or hangs.",
    Hindrance.NO_HANDLER: "It is due since {due}, and no live worker reads {topic}.",
    Hindrance.NO_CREDIT: "The workers of {topic} have as many items as they want.",
    Hindrance.NO_UPKEEP: "{what}, and no process runs upkeep, which would release it.",
    Hindrance.NOT_PUBLISHED: "It was claimed at {at}, and Kafka has not acknowledged it. It is "
    "claimed again if that does not happen until {until}.",
    Hindrance.UNREAD: f"{_PLACE}, and no live worker reads it.",
    Hindrance.NOT_STARTED: f"{_PLACE}. It is handed out again if no worker starts it until "
    "{until}.",
    Hindrance.NO_OUTCOME_INTAKE: f"{_PLACE}, and no process records outcomes.",
    Hindrance.RUN_LOST: "Its worker is gone, last seen at {seen}; its lease ends at {until}, or "
    "earlier if it lost its lock, and then it runs again.",
    Hindrance.RUN_SILENT: "Its worker has been silent since {seen}: it is stopped, or hangs. Its "
    "lease ends at {until}, and then it runs again.",
    Hindrance.RUNNING: "A worker runs it now, since {at} (run {run}).",
}
"""Instead of those sentences that have private facts."""


def facts_named(text: str) -> set[str]:
    """Return the facts that a text has in braces."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def text_for_tenants(code: Hindrance) -> tuple[str, str | None]:
    """Return the sentence and the remedy; a remedy that has private facts is the operator's."""
    text = TEXTS[code]
    is_private = text.remedy is None or facts_named(text.remedy) & PRIVATE_FACTS
    return TENANT_SENTENCES.get(code, text.sentence), None if is_private else text.remedy
