"""The identity of a due item: the same five fields always give the same id.

`docs/identity.md` gives the rule in words and `docs/identity-vectors.json` its test vectors; tests
check the SQL function against the same vectors.
"""

import re
from datetime import date
from hashlib import sha256
from typing import Final
from uuid import UUID

from dueledger.ledger.errors import InvalidItem, Problem, shown_value

TENANT_SHAPE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""What a tenant, and the name of a kind, may be: the table `kind` refuses others."""
SEPARATOR: Final = "\x1f"
NUL: Final = "\x00"

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS_MAX: Final = date(2200, 1, 1).toordinal() - _EPOCH
_HASH_BYTES: Final = 13
_HASH_BITS: Final = 8 * _HASH_BYTES
_LOW_122_BITS: Final = ~((0xF << 76) | (0x3 << 62))
_VERSION_AND_VARIANT: Final = (0x8 << 76) | (0x2 << 62)
_FIELDS: Final = ("tenant", "kind", "business_key", "cycle")
_SEPARATORS: Final = len(_FIELDS)


def item_id(tenant: str, kind: str, business_key: str, cycle: str, effective_date: date) -> UUID:
    """Return the item's UUIDv8 (RFC 9562, section 5.8).

    Three bytes of the effective date (days since 1970-01-01), then the first 13 bytes of SHA-256
    over the five fields in UTF-8, the date in ISO form, joined by U+001F, with version and variant
    set. Raises InvalidItem with the field that contains U+001F, U+0000 or a lone surrogate, or a
    date outside 1970 to 2199.
    """
    text = f"{tenant}\x1f{kind}\x1f{business_key}\x1f{cycle}\x1f{effective_date.isoformat()}"
    if text.count(SEPARATOR) != _SEPARATORS or NUL in text:
        raise _unusable_key((tenant, kind, business_key, cycle))
    try:
        digest = sha256(text.encode()).digest()
    except UnicodeEncodeError:
        raise _unusable_key((tenant, kind, business_key, cycle)) from None
    days = effective_date.toordinal() - _EPOCH
    if not 0 <= days < _DAYS_MAX:
        raise InvalidItem(
            "The item id cannot be computed.",
            [Problem("effective_date", str(effective_date), "is outside 1970 to 2199")],
        )
    bits = days << _HASH_BITS | int.from_bytes(digest[:_HASH_BYTES], "big")
    return UUID(int=(bits & _LOW_122_BITS) | _VERSION_AND_VARIANT)


def total_of(id_bytes: bytes) -> int:
    """Return what an item adds to a control total: the last 8 bytes of its id, a hash."""
    return int.from_bytes(id_bytes[8:])


def unusable_reason(text: str) -> str | None:
    """Return why `text` cannot be part of a key, or None if it can."""
    if NUL in text:
        return "contains NUL (U+0000), which is not allowed in a key"
    if SEPARATOR in text:
        return "contains U+001F, which separates the fields of an identity"
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        return "contains a lone surrogate, which UTF-8 cannot encode"
    return None


def _unusable_key(values: tuple[str, str, str, str]) -> InvalidItem:
    problems = [
        Problem(field, shown_value(value), reason)
        for field, value in zip(_FIELDS, values, strict=True)
        if (reason := unusable_reason(value))
    ]
    return InvalidItem("The item id cannot be computed.", problems)
