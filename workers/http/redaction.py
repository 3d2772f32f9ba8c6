"""Removes secrets from an endpoint's response, which may repeat the request."""

import html
from collections.abc import Iterable
from typing import Final, final
from urllib.parse import quote, quote_plus

import orjson

REDACTED: Final = "[redacted]"
SECRET_CHARS_MIN: Final = 8  # a shorter one would match everywhere, and could be guessed


@final
class Redactor:
    """Has the secrets of a request, and the encodings in which a response may repeat them."""

    __slots__ = ("_forms",)

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            # Of `Bearer abc…` an endpoint may repeat the second word only.
            for part in (secret, *secret.split()):
                if len(part) >= SECRET_CHARS_MIN:
                    forms |= _spellings(part)
        self._forms = sorted(forms, key=len, reverse=True)

    def redact(self, text: str) -> str:
        """Return `text` without the secrets."""
        for form in self._forms:
            text = text.replace(form, REDACTED)
        return text

    def __repr__(self) -> str:
        return "Redactor()"


def _spellings(secret: str) -> set[str]:
    escaped = orjson.dumps(secret).decode()[1:-1]
    return {
        secret,
        escaped,
        escaped.replace("/", "\\/"),
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
    }
