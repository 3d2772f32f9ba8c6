"""Standard Webhooks signatures: they prove the sender, the time, and that nothing was changed.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
KEY_PREFIX: Final = "whsec_"
KEY_BYTES_MIN: Final = 24
KEY_BYTES_MAX: Final = 64
KEYS_MAX: Final = 4


@final
@dataclass(frozen=True, slots=True)
class SigningKey:
    """A shared key. Its repr does not show it."""

    secret: bytes = field(repr=False)


def read_keys(text: str) -> tuple[SigningKey, ...]:
    """Read ``whsec_<base64>``, or several keys separated by spaces during a rotation.

    Raises ValueError, which never quotes them.
    """
    words = text.split()
    if not 1 <= len(words) <= KEYS_MAX:
        raise ValueError(f"must have 1 to {KEYS_MAX} keys as whsec_<base64>, separated by spaces")
    return tuple(_read_key(word) for word in words)


def sign(keys: Sequence[SigningKey], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of ``webhook-signature``: one signature for each key, in their order."""
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return " ".join(
        "v1," + b64encode(hmac.digest(key.secret, content, "sha256")).decode() for key in keys
    )


def _read_key(word: str) -> SigningKey:
    if not word.startswith(KEY_PREFIX):
        raise ValueError(f"a key must begin with {KEY_PREFIX}")
    try:
        secret = b64decode(word.removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a key must be {KEY_PREFIX} and base64") from None
    if not KEY_BYTES_MIN <= len(secret) <= KEY_BYTES_MAX:
        raise ValueError(f"a key must have {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")
    return SigningKey(secret)
