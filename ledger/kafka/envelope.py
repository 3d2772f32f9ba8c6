"""The Kafka contract: names of topics and headers, and the parser of a work record's headers.

``docs/asyncapi.yaml`` describes it for other languages. Pure: this module does not call Kafka.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final, NamedTuple, cast
from uuid import UUID

from dueledger.ledger.claim_id import TOKEN_TEXT_CHARACTERS, ClaimId, parse_claim_id
from dueledger.ledger.errors import InvalidHeader, Problem, shown_value

OUTCOME_TOPIC: Final = "due-outcomes"
EVENT_TOPIC: Final = "domain-events"
INTAKE_GROUP: Final = "dueledger-intake"
REPAIR_TOPIC: Final = "due-repairs"
REJECTED_TOPIC: Final = "due-rejected"
WORK_TOPIC_PREFIX: Final = "due."

SPECVERSION: Final = "1.0"
SPECVERSION_BYTES: Final = SPECVERSION.encode()
CONTENT_TYPE_JSON: Final = b"application/json"
SOURCE_PREFIX: Final = "/dueledger/"

FENCE: Final = "ce_duefence"
TOKEN: Final = "ce_duetoken"  # noqa: S105  # a name of a header
POSITION: Final = "ce_dueposition"
SPECVERSION_HEADER: Final = "ce_specversion"
ID: Final = "ce_id"
SOURCE: Final = "ce_source"
TYPE: Final = "ce_type"
SUBJECT: Final = "ce_subject"
TIME: Final = "ce_time"
CONTENT_TYPE: Final = "content-type"
TENANT: Final = "ce_duetenant"
CYCLE: Final = "ce_duecycle"
EFFECTIVE: Final = "ce_dueeffective"
DUE_AT: Final = "ce_dueat"
ITEM: Final = "ce_dueitem"
ATTEMPT: Final = "ce_dueattempt"
TRACEPARENT: Final = "traceparent"
# Only on a suspect, an item whose worker died with it: how many of them may run together.
SUSPECT: Final = "ce_duesuspect"

# The order in which the allocator writes headers: first the claim's and the position, then headers
# that many items share, last an item's own. Readers must not rely on it.
WORK_HEADERS: Final = (
    FENCE,
    TOKEN,
    POSITION,
    TYPE,
    ATTEMPT,
    SPECVERSION_HEADER,
    SOURCE,
    CONTENT_TYPE,
    TENANT,
    CYCLE,
    EFFECTIVE,
    TIME,
    DUE_AT,
    ID,
    ITEM,
    SUBJECT,
)
_WORK_HEADERS_TRACED: Final = (*WORK_HEADERS, TRACEPARENT)

REJECTED_CODE: Final = "due_rejected_code"
REJECTED_FIELD: Final = "due_rejected_field"
REJECTED_REASON: Final = "due_rejected_reason"
REJECTED_ORIGIN: Final = "due_rejected_origin"
REJECTED_COUNT: Final = "due_rejected_count"

_COUNT_DIGITS_MAX: Final = 9

# `+00:00`, which isoformat() writes for UTC.
_OFFSET_CHARACTERS: Final = 6

Headers = Sequence[tuple[str, bytes | None]]


class WorkHeaders(NamedTuple):
    """The parsed headers of a work record. A tuple: a frozen dataclass costs 1 microsecond more."""

    claim_id: ClaimId
    position: int
    kind: str
    tenant: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    item: UUID
    attempt: int
    content_type: str
    traceparent: str | None
    suspects_max: int | None = None

    @property
    def fence(self) -> int:
        """The number of the claim."""
        return self.claim_id.fence


def work_topic(kind: str) -> str:
    """Return the default topic of a kind."""
    return WORK_TOPIC_PREFIX + kind


def format_instant(instant: datetime) -> bytes:
    """Return `instant` as RFC 3339 in UTC with a trailing Z."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return b"%bZ" % instant.isoformat()[:-_OFFSET_CHARACTERS].encode()


def parse_work_headers(headers: Headers) -> WorkHeaders:
    """Parse all headers of a work record, in any order; unknown ones are ignored.

    Raises InvalidHeader for the first header that is missing or malformed.
    """
    names = tuple([name for name, _ in headers])
    if names in {WORK_HEADERS, _WORK_HEADERS_TRACED}:
        values = [value for _, value in headers]
        traceparent = values[-1] if len(values) > len(WORK_HEADERS) else None
        suspects_max = None
    else:
        by_name = dict(headers)
        values = [by_name.get(name) for name in WORK_HEADERS]
        traceparent = by_name.get(TRACEPARENT)
        suspects_max = _suspects_max(by_name.get(SUSPECT))
    if None in values:
        raise _first_fault(values)
    fence, token, position, kind, attempt, version, _, content, tenant = cast(
        "list[bytes]", values[:9]
    )
    cycle, effective, _, due_at, identity, item, subject = cast("list[bytes]", values[9:16])
    if not (
        fence.isdigit()
        and position.isdigit()
        and attempt.isdigit()
        and version == SPECVERSION_BYTES
        and identity == b"%b:%b" % (item, fence)
    ):
        raise _first_fault(values)
    try:
        return WorkHeaders(
            parse_claim_id(int(fence), token.decode()),
            int(position),
            kind.decode(),
            tenant.decode(),
            subject.decode(),
            cycle.decode(),
            _date(effective),
            parse_instant(due_at),
            UUID(item.decode()),
            int(attempt),
            content.decode(),
            None if traceparent is None else traceparent.decode(),
            suspects_max,
        )
    except ValueError:
        raise _first_fault(values) from None


def rejected_headers(
    headers: Headers,
    *,
    code: str,
    field: str | None,
    reason: str,
    origin: tuple[str, int, int],
    count: int = 1,
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record for `due-rejected`: its own, then the reason and the origin.

    `origin` is the topic, partition and offset of the rejected record, and `count` how many
    successive records of the partition are rejected with it: copies of it, with the same fault.
    """
    topic, partition, offset = origin
    written: list[tuple[str, bytes | None]] = [
        *headers,
        (REJECTED_CODE, code.encode()),
        (REJECTED_REASON, reason.encode()),
        (REJECTED_ORIGIN, f"{topic}/{partition}/{offset}".encode()),
    ]
    if field is not None:
        written.append((REJECTED_FIELD, field.encode()))
    if count > 1:
        written.append((REJECTED_COUNT, str(count).encode()))
    return written


def _first_fault(values: Sequence[bytes | None]) -> InvalidHeader:
    """Return the error for the first missing or malformed header, in contract order."""
    by_name = dict(zip(WORK_HEADERS, values, strict=False))
    for header, value in by_name.items():
        fault = _fault(header, value)
        if fault is not None:
            return fault
    if by_name[ID] != b"%b:%b" % (by_name[ITEM] or b"", by_name[FENCE] or b""):
        return _refused(ID, by_name[ID], "is not its item and fence", "<item>:<fence>")
    return _refused(TRACEPARENT, values[-1], "is not UTF-8")


def _fault(header: str, value: bytes | None) -> InvalidHeader | None:
    if value is None:
        return _refused(header, value, "is missing")
    reader, accepted = _READERS.get(header, (bytes.decode, None))
    try:
        reader(value)
    except UnicodeDecodeError:
        return _refused(header, value, "is not UTF-8")
    except ValueError:
        return _refused(header, value, "is malformed", accepted)
    return None


def _refused(
    header: str, value: bytes | None, reason: str, accepted: str | None = None
) -> InvalidHeader:
    shown = "" if value is None else shown_value(value)
    return InvalidHeader(
        "the record does not follow the contract", [Problem(header, shown, reason, accepted)]
    )


def _digits(value: bytes) -> int:
    if not value.isdigit():
        raise ValueError("not a whole number in ASCII digits")
    return int(value)


def _suspects_max(value: bytes | None) -> int | None:
    """Return how many suspects may run together; one if the number cannot be read."""
    if value is None:
        return None
    return max(1, int(value)) if value.isdigit() and len(value) <= _COUNT_DIGITS_MAX else 1


@lru_cache(maxsize=4096)
def _date(value: bytes) -> date:
    return date.fromisoformat(value.decode())


@lru_cache(maxsize=4096)
def parse_instant(value: bytes) -> datetime:
    """Return an instant with its offset. Raises ValueError."""
    instant = datetime.fromisoformat(value.decode())
    if instant.tzinfo is None:
        raise ValueError("an instant without an offset")
    return instant


def _token(value: bytes) -> ClaimId:
    return parse_claim_id(0, value.decode())


def _item(value: bytes) -> UUID:
    return UUID(value.decode())


def _version(value: bytes) -> None:
    if value != SPECVERSION_BYTES:
        raise ValueError("another version of CloudEvents")


_INSTANT_ACCEPTED: Final = "an instant with its offset, as 2027-03-01T09:00:00Z"
_NUMBER_ACCEPTED: Final = "a whole number in ASCII digits"
_READERS: Final[dict[str, tuple[Callable[[bytes], object], str | None]]] = {
    FENCE: (_digits, _NUMBER_ACCEPTED),
    TOKEN: (_token, f"{TOKEN_TEXT_CHARACTERS} lower-case hex digits"),
    POSITION: (_digits, _NUMBER_ACCEPTED),
    ATTEMPT: (_digits, _NUMBER_ACCEPTED),
    SPECVERSION_HEADER: (_version, SPECVERSION),
    EFFECTIVE: (_date, "a date as 2027-03-01"),
    DUE_AT: (parse_instant, _INSTANT_ACCEPTED),
    TIME: (parse_instant, _INSTANT_ACCEPTED),
    ITEM: (_item, "a UUID"),
}
