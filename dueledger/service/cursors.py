"""Cursors of lists, sealed: what is in one can be neither read nor made outside the service.

The place in a list is of the ledger's own numbers, which grow with the items of every tenant.
"""

import base64
import binascii
import secrets
from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dueledger.ledger.errors import InvalidCursor

_NONCE_BYTES: Final = 12


@final
class CursorSeal:
    """Seals cursors under a secret of 32 bytes that all processes of a ledger's service share."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(secret)

    def seal(self, place: bytes, given_for: bytes) -> str:
        """Return a cursor of this place in the list for which it is given."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, place, given_for)
        return base64.urlsafe_b64encode(nonce + sealed).decode()

    def open(self, cursor: str, given_for: bytes) -> bytes:
        """Return the place. Raises InvalidCursor for a cursor that was not given for this list."""
        try:
            decoded = base64.b64decode(cursor.encode(), b"-_", validate=True)
            nonce, sealed = decoded[:_NONCE_BYTES], decoded[_NONCE_BYTES:]
            return self._cipher.decrypt(nonce, sealed, given_for)
        except (binascii.Error, ValueError, InvalidTag):
            message = "The cursor was not given by this list with these filters. Begin without one."
            raise InvalidCursor(message) from None
