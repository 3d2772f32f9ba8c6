"""Read a domain event from a Kafka record: CloudEvents 1.0, binary or structured mode.

Both modes give the same event. An event that breaks the contract is refused with the name of the
attribute, as the sender spells it. Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, cast

import orjson

from dueledger.ledger.errors import InvalidEvent, InvalidHeader, Problem, shown_value
from dueledger.ledger.identity import TENANT_SHAPE
from dueledger.ledger.kafka.envelope import CONTENT_TYPE, SOURCE_PREFIX, SPECVERSION, TRACEPARENT
from dueledger.ledger.rules.event_rules import DomainEvent

STRUCTURED: Final = "application/cloudevents"
BATCHED: Final = "application/cloudevents-batch"
VALUE_BYTES_MAX: Final = 262_144
ATTRIBUTE_BYTES_MAX: Final = 1024
"""Source and id are in one index, whose rows Postgres limits to 2,704 bytes."""

_PREFIX: Final = "ce_"
_TENANT: Final = "duetenant"
_KNOWN: Final = frozenset(
    {"specversion", "id", "source", "type", "subject", "time", _TENANT, CONTENT_TYPE, TRACEPARENT}
)
_NUL_ESCAPE: Final = b"\\u0000"
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)

EventHeaders = Sequence[tuple[str, bytes | None]]


def parse_event(headers: EventHeaders, value: bytes | None) -> DomainEvent:
    """Read one record. An event without data has no value in Kafka.

    Raises InvalidHeader if an attribute is missing or malformed, InvalidEvent if the value is.
    Both name the field.
    """
    if value is not None and len(value) > VALUE_BYTES_MAX:
        reason = f"is larger than 256 KiB ({VALUE_BYTES_MAX:,} bytes)"
        raise _refused("data", reason, str(len(value)))
    attributes = _attributes(headers)
    content_type = attributes.get(CONTENT_TYPE, "")
    if content_type.startswith(BATCHED):
        raise InvalidHeader(
            "The record cannot be read.",
            [Problem(CONTENT_TYPE, content_type, "batched mode is not defined for Kafka")],
        )
    if content_type.startswith(STRUCTURED):
        return _structured(value or b"", attributes)
    return _event(attributes, _PREFIX, None if value is None else _json("data", value))


def is_structured(headers: EventHeaders) -> bool:
    """Return whether the value contains the whole event and not only its data."""
    return any(
        name.lower() == CONTENT_TYPE and (value or b"").startswith(STRUCTURED.encode())
        for name, value in headers
    )


def _attributes(headers: EventHeaders) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        if value is None:
            continue
        attribute = name[len(_PREFIX) :] if name.startswith(_PREFIX) else name.lower()
        if attribute not in _KNOWN:
            continue
        try:
            found[attribute] = value.decode()
        except UnicodeDecodeError:
            raise _invalid(name, shown_value(value), "is not UTF-8") from None
    return found


def _structured(value: bytes, headers: Mapping[str, str]) -> DomainEvent:
    document = _json("value", value)
    if not isinstance(document, dict):
        raise _refused("value", "is not a JSON object, as a structured event must be")
    members = cast("dict[str, Any]", document)
    if "data_base64" in members:
        raise _refused("data_base64", "has bytes, but rules read JSON: send `data`")
    attributes: dict[str, str] = {}
    for name, member in members.items():
        if name == "data" or member is None:
            continue
        if isinstance(member, (dict, list)):
            raise _invalid(name, shown_value(cast("object", member)), "must be a scalar")
        attributes[name] = member if isinstance(member, str) else orjson.dumps(member).decode()
    attributes.setdefault(TRACEPARENT, headers.get(TRACEPARENT, ""))
    return _event(attributes, "", members.get("data"))


def _event(attributes: Mapping[str, str], prefix: str, data: Any) -> DomainEvent:  # noqa: ANN401 - any JSON
    version = _required(attributes, "specversion", prefix)
    if version != SPECVERSION:
        raise _invalid(f"{prefix}specversion", shown_value(version), f"must be {SPECVERSION}")
    source = _required(attributes, "source", prefix)
    time = _required(attributes, "time", prefix)
    try:
        occurred_at = _instant(time)
    except (ValueError, OverflowError) as error:
        wanted = "2027-03-01T09:00:00Z"
        raise InvalidHeader(
            "The event cannot be read.",
            [Problem(f"{prefix}time", shown_value(time), str(error), wanted)],
        ) from None
    return DomainEvent(
        tenant=_tenant_of(attributes.get(_TENANT), source, prefix),
        source=source,
        id=_required(attributes, "id", prefix),
        type=_required(attributes, "type", prefix),
        time=occurred_at,
        subject=_optional(attributes, "subject", prefix),
        data=data,
        traceparent=attributes.get(TRACEPARENT) or None,
    )


@lru_cache(maxsize=4096)
def _tenant_of(tenant: str | None, source: str, prefix: str) -> str:
    """Return the extension's tenant, or else the first segment of a path-like source."""
    if tenant is None and source.startswith("/"):
        tenant = source.removeprefix(SOURCE_PREFIX.rstrip("/")).lstrip("/").split("/", 1)[0]
    if not tenant:
        accepted = f"an extension `{_TENANT}`, or a source that begins with /tenant/"
        raise InvalidHeader(
            "The event cannot be read.",
            [Problem(f"{prefix}{_TENANT}", "", "the event names no tenant", accepted)],
        )
    if not TENANT_SHAPE.fullmatch(tenant):
        reason = "must be 1 to 100 of A-Z, a-z, 0-9, '.', '_', '-'"
        raise _invalid(f"{prefix}{_TENANT}", shown_value(tenant), reason)
    return tenant


def _required(attributes: Mapping[str, str], name: str, prefix: str) -> str:
    text = _optional(attributes, name, prefix)
    if not text:
        raise _invalid(f"{prefix}{name}", "", "is missing")
    return text


def _optional(attributes: Mapping[str, str], name: str, prefix: str) -> str | None:
    text = attributes.get(name)
    if text is None:
        return None
    if "\x00" in text:
        raise _invalid(f"{prefix}{name}", shown_value(text), "has NUL (U+0000)")
    if len(text) * 4 > ATTRIBUTE_BYTES_MAX and len(text.encode()) > ATTRIBUTE_BYTES_MAX:
        raise _invalid(f"{prefix}{name}", shown_value(text), f"is over {ATTRIBUTE_BYTES_MAX} bytes")
    return text


@lru_cache(maxsize=4096)
def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        message = "is an instant without an offset"
        raise ValueError(message)
    if not _EARLIEST <= instant < _LATEST:
        message = "is outside 1970-2199"
        raise ValueError(message)
    return instant.astimezone(UTC)


def _json(field: str, value: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise _refused(field, f"is not JSON: {error}") from None
    if _NUL_ESCAPE in value and _contains_nul(document):
        raise _refused(field, "has NUL (U+0000), which cannot be stored")
    return document


def _contains_nul(document: Any) -> bool:  # noqa: ANN401 - any JSON
    """Search the decoded document: the same six characters may be an escaped backslash and text."""
    waiting: list[object] = [document]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            if "\x00" in found:
                return True
        elif isinstance(found, dict):
            members = cast("dict[str, object]", found)
            waiting += [*members, *members.values()]
        elif isinstance(found, list):
            waiting += cast("list[object]", found)
    return False


def _refused(field: str, reason: str, value: str = "") -> InvalidEvent:
    return InvalidEvent("The event cannot be read.", [Problem(field, value, reason)])


def _invalid(field: str, value: str, reason: str) -> InvalidHeader:
    return InvalidHeader("The event cannot be read.", [Problem(field, value, reason)])
