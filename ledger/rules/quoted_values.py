"""Texts of handlers, without the redacted values of the payload that they quote. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast

from dueledger.ledger.rules.redaction import REDACTED, redacted_values

QUOTED_CHARS_MIN: Final = 3
"""Shorter values are in any text."""

_VALUES_MAX: Final = 1_000
"""With more, texts are redacted whole: it would take seconds to search them."""

_TEXTS: Final = ("detail", "evidence", "reason", "review_reason")
_TERMS: Final = "before"
"""The member of a step that has terms, whose payload is redacted by itself."""


@dataclass(frozen=True, slots=True)
class QuotedValues:
    """What texts about an item may quote of its payload; None: not known, so that none is shown."""

    forms: Sequence[str] | None = ()

    @classmethod
    def of(cls, payload: str, fields: Sequence[str]) -> Self:
        """Return the values of the fields of a payload, as it, JSON and Python write them."""
        values = redacted_values(payload, fields) if fields else []
        if values is None or len(values) > _VALUES_MAX:
            return cls(None)
        forms = {form for value in values for form in _forms(value)}
        return cls(sorted(forms, key=lambda form: (-len(form), form)))

    def hide_in(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row without these values in what handlers wrote, as errors and evidence."""
        shown = dict(row)
        if self.forms is None or self.forms:
            for name in _TEXTS:
                if name in shown:
                    shown[name] = self._hidden(shown[name])
        return shown

    def _hidden(self, value: object) -> object:
        match value:
            case str():
                return self._hidden_text(value)
            case dict():
                members = cast("dict[str, object]", value).items()
                return {
                    name: each if name == _TERMS else self._hidden(each) for name, each in members
                }
            case list():
                return [self._hidden(each) for each in cast("list[object]", value)]
            case int() | float() if self.forms is None or str(value) in self.forms:
                return REDACTED
            case _:
                return value

    def _hidden_text(self, text: str) -> str:
        if self.forms is None:
            return REDACTED
        for form in self.forms:
            if form in text:
                text = text.replace(form, REDACTED)
        return text


def _forms(value: str) -> Iterator[str]:
    if len(value) >= QUOTED_CHARS_MIN:
        yield value
        yield json.dumps(value)[1:-1]
        yield json.dumps(value, ensure_ascii=False)[1:-1]
        yield repr(value)[1:-1]
