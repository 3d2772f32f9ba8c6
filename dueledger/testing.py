"""Call handlers in a domain team's own tests: a due item without Kafka, and its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, NamedTuple, assert_never, cast

import orjson

from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.identity import item_id
from dueledger.ledger.kafka.envelope import CONTENT_TYPE_JSON, WorkHeaders
from dueledger.workers.handlers import HandlerForm
from dueledger.workers.item import DueItem
from dueledger.workers.verdicts import Completed, NotDue, Park, Retry, Snooze

if TYPE_CHECKING:
    from dueledger import Connection
    from dueledger.ledger.kafka.envelope import Headers
    from dueledger.workers.handlers import Handler, Handlers
    from dueledger.workers.verdicts import Verdict

__all__ = ["due_item", "run"]

_EFFECTIVE_DATE = date(2027, 3, 31)
_CLAIM_ID = ClaimId(1, datetime.combine(_EFFECTIVE_DATE, time(), UTC), "0" * 16)


class _MadeRecord(NamedTuple):
    """The Kafka record of a made item; its headers are parsed already."""

    value: bytes
    offset: int = 0
    key: bytes | None = None
    headers: Headers = ()


class _MadeItem(DueItem):
    """A due item that was made, not received."""

    __slots__ = ()

    def __init__(self, headers: WorkHeaders, payload: bytes) -> None:
        super().__init__(_MadeRecord(payload), headers.claim_id, headers.position, headers.attempt)
        self._headers_cache = headers


def due_item(
    kind: str,
    *,
    payload: Mapping[str, object] | Sequence[object] | str | bytes = b"{}",
    tenant: str = "test",
    business_key: str = "KEY-1",
    cycle: str = "",
    effective_date: date = _EFFECTIVE_DATE,
    due_at: datetime | None = None,
    attempt: int = 1,
) -> DueItem:
    """Return an item of `kind`, with the id that the ledger would give it.

    `payload` is JSON as text or bytes, or a value that becomes JSON. `due_at` is aware; by default
    the item is due when its effective date begins in UTC. Raises InvalidItem for a key that the
    ledger would refuse, ``ValueError`` for a `due_at` without an offset and an `attempt` below 1.
    """
    if due_at is not None and due_at.utcoffset() is None:
        raise ValueError(f"due_at must have an offset, not {due_at.isoformat()}")
    if attempt < 1:
        raise ValueError(f"attempt must be 1 or more, not {attempt}")
    headers = WorkHeaders(
        claim_id=_CLAIM_ID,
        position=1,
        kind=kind,
        tenant=tenant,
        business_key=business_key,
        cycle=cycle,
        effective_date=effective_date,
        due_at=due_at or datetime.combine(effective_date, time(), UTC),
        item=item_id(tenant, kind, business_key, cycle, effective_date),
        attempt=attempt,
        content_type=CONTENT_TYPE_JSON.decode(),
        traceparent=None,
    )
    return _MadeItem(headers, _encoded(payload))


def _encoded(payload: Mapping[str, object] | Sequence[object] | str | bytes) -> bytes:
    match payload:
        case bytes():
            return payload
        case str():
            return payload.encode()
        case _:
            return orjson.dumps(payload)


async def run(
    handlers: Handlers, item: DueItem, *, connection: Connection | None = None
) -> Verdict:
    """Call the handler of the item's kind once and return its verdict.

    A batch handler receives the item alone; a plain ``def`` runs in a thread. A transactional
    handler needs `connection`, on which the caller begins and ends the transaction. An error of the
    handler is raised. Raises ``LookupError`` for a kind without a handler, ``TimeoutError`` after
    the handler's `timeout_seconds`, and ``TypeError`` for a result that is not a verdict.
    """
    handler = handlers.find(item.kind)
    if handler is None:
        raise LookupError(f"no handler is registered for {item.kind!r}")
    async with asyncio.timeout(handler.options.timeout_seconds):
        returned = await _called(handler, item, connection)
    if handler.form is HandlerForm.BATCH:
        returned = _only_verdict(returned)
    if not isinstance(returned, Completed | Retry | Snooze | Park | NotDue):
        raise TypeError(f"{handler.name} must return a verdict, not {returned!r}")
    return returned


async def _called(handler: Handler, item: DueItem, connection: Connection | None) -> object:
    arguments: list[object]
    match handler.form:
        case HandlerForm.SINGLE:
            arguments = [item]
        case HandlerForm.BATCH:
            arguments = [[item]]
        case HandlerForm.TRANSACTION:
            if connection is None:
                raise ValueError(f"{handler.name} is transactional: pass run() a connection")
            arguments = [item, connection]
        case _:
            assert_never(handler.form)
    if handler.is_async:
        return await cast("asyncio.Future[object]", handler.function(*arguments))
    return await asyncio.to_thread(handler.function, *arguments)


def _only_verdict(returned: object) -> object:
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        raise TypeError(f"a batch handler must return a list of verdicts, not {returned!r}")
    verdicts = cast("Sequence[object]", returned)
    if len(verdicts) != 1:
        raise TypeError(
            f"a batch handler must return one verdict for each item, not {len(verdicts)}"
        )
    return verdicts[0]
