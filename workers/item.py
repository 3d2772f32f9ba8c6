"""The due item that a handler receives: a view of one Kafka record, parsed on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.kafka import envelope
from dueledger.ledger.kafka.record_batches import KafkaRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime
    from uuid import UUID

    from dueledger.ledger.claim_id import ClaimId


class ConsumedWorkRecord(Protocol):
    """The part of a consumed Kafka record that workers need."""

    @property
    def offset(self) -> int:
        """The record's offset in its partition."""
        ...

    @property
    def key(self) -> bytes | None:
        """The key that decides the partition."""
        ...

    @property
    def value(self) -> bytes | None:
        """The item's payload."""
        ...

    @property
    def headers(self) -> envelope.Headers:
        """The headers, in the order written."""
        ...


class _PayloadRecord(NamedTuple):
    """A record of which only the payload is left; the headers were parsed."""

    value: bytes
    offset: int = 0
    key: bytes | None = None
    headers: envelope.Headers = ()


def trace_of_items(
    items: Sequence[DueItem],
) -> tuple[list[str | None], dict[str, str | int]]:
    """Return the traces that items were emitted under, and the attributes of a span of theirs."""
    first = items[0]
    attributes: dict[str, str | int] = {"dueledger.items": len(items)}
    try:
        traceparents = [item.traceparent for item in items]
        attributes["dueledger.item"] = str(first.id)
        attributes["dueledger.tenant"] = first.tenant
        attributes["dueledger.attempt"] = first.attempt
        attributes["dueledger.fence"] = first.fence
    except InvalidHeader:
        return [None], attributes
    return traceparents, attributes


class DueItem:
    """One item to work. `position` is its place in the claim `fence`, counted from 1.

    The headers are parsed when the first of them is read, so a handler that reads none does not
    pay for parsing. Headers that break the contract raise ``ledger.errors.InvalidHeader``, and the
    item is parked with that name. `attempt` is set if it is known without parsing, `headers` if all
    are parsed.
    """

    __slots__ = ("_attempt", "_claim_id", "_headers_cache", "_record", "fence", "position")

    def __init__(
        self,
        record: ConsumedWorkRecord,
        claim_id: ClaimId,
        position: int,
        attempt: int | None = None,
        headers: envelope.WorkHeaders | None = None,
    ) -> None:
        self._record = record
        self._headers_cache = headers
        self._attempt = attempt
        self._claim_id = claim_id
        self.fence = claim_id.fence
        self.position = position

    @property
    def id(self) -> UUID:
        """The item's identity, the same in every attempt. Use it to deduplicate."""
        return self._headers().item

    @property
    def tenant(self) -> str:
        """The tenant that the item belongs to."""
        return self._headers().tenant

    @property
    def kind(self) -> str:
        """The type of work, as in ``PolicyRenewalDue``."""
        return self._headers().kind

    @property
    def business_key(self) -> str:
        """The domain's own key of the subject, as a policy number."""
        return self._headers().business_key

    @property
    def cycle(self) -> str:
        """The name of the occurrence, as in ``2027``."""
        return self._headers().cycle

    @property
    def effective_date(self) -> date:
        """The business date that the item is for."""
        return self._headers().effective_date

    @property
    def due_at(self) -> datetime:
        """When the business owes the item; an aware datetime."""
        return self._headers().due_at

    @property
    def attempt(self) -> int:
        """Which attempt this is, counted from 1; snoozes do not count."""
        return self._headers().attempt

    @property
    def retries(self) -> int:
        """The number of earlier attempts, without parsing the headers if it is known."""
        if self._attempt is not None:
            return self._attempt - 1
        try:
            return max(0, self.attempt - 1)
        except InvalidHeader:
            return 0

    @property
    def traceparent(self) -> str | None:
        """The trace that the item was emitted under."""
        return self._headers().traceparent

    @property
    def payload(self) -> bytes:
        """The payload that was emitted with the item, byte for byte."""
        return self._record.value or b""

    def json(self) -> Any:  # noqa: ANN401  # its shape is the domain's
        """Return the payload as JSON. Raises ``ValueError`` if it is not JSON."""
        return orjson.loads(self.payload)

    def __reduce__(self) -> tuple[object, ...]:
        """Return its headers and payload, for another process. Raises InvalidHeader."""
        return DueItem._of_parsed, (self._headers(), bytes(self.payload))

    @staticmethod
    def _of_parsed(headers: envelope.WorkHeaders, payload: bytes) -> DueItem:
        record = _PayloadRecord(payload)
        return DueItem(record, headers.claim_id, headers.position, headers.attempt, headers)

    def __repr__(self) -> str:
        return f"DueItem(fence={self.fence}, position={self.position})"

    def _headers(self) -> envelope.WorkHeaders:
        if self._headers_cache is None:
            record = self._record
            if isinstance(record, KafkaRecord):
                self._headers_cache = record.work_headers_at(self._claim_id, self.position)
            else:
                self._headers_cache = envelope.parse_work_headers(record.headers)
        return self._headers_cache
