"""What handlers write is shown without the redacted values of the payload that it quotes."""

import json
from typing import Any

import pytest

from dueledger.ledger.rules.quoted_values import QuotedValues

SECRET = "123-45-6789"  # noqa: S105 - what nothing shown has
PAYLOAD: dict[str, Any] = {
    "ssn": SECRET,
    "card": 4111111111111111,
    "name": 'O\'Neil "J\u00fcrgen"',
    "deep": {"list": ["value-1", {"x": "value-2", "n": 12.50}], "yes": True, "none": None},
    "short": "ab",
    "open": "open-1",
}
FIELDS = ["/ssn", "/card", "/name", "/deep", "/short", "/no"]


def hidden(row: dict[str, object], payload: object = PAYLOAD) -> dict[str, object]:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return QuotedValues.of(text, FIELDS).hide_in(row)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"invalid literal for int(): '{SECRET}'", "invalid literal for int(): '[redacted]'"),
        (f"{SECRET}{SECRET} at open-1", "[redacted][redacted] at open-1"),
        ("card 4111111111111111", "card [redacted]"),
        ("value-1, value-2 and 12.5", "[redacted], [redacted] and [redacted]"),
        (repr(PAYLOAD["name"]), "'[redacted]'"),
        (json.dumps(PAYLOAD["name"]), '"[redacted]"'),
        (json.dumps(PAYLOAD["name"], ensure_ascii=False), '"[redacted]"'),
        ("ab True None", "ab True None"),
    ],
)
def test_what_a_text_quotes_of_redacted_fields_is_hidden(said: str, shown: str) -> None:
    row: dict[str, object] = {"reason": said, "detail": {"message": said, "of": [said, 1, None]}}
    assert hidden(row) == {"reason": shown, "detail": {"message": shown, "of": [shown, 1, None]}}


def test_a_number_is_hidden_and_what_handlers_did_not_write_stays() -> None:
    terms = {"payload": f'{{"card":{PAYLOAD["card"]}}}'}
    row: dict[str, object] = {
        "evidence": {"card": PAYLOAD["card"], "n": 12},
        "business_key": SECRET,
        "detail": None,
    }
    shown = {**row, "evidence": {"card": "[redacted]", "n": 12}}
    assert hidden(row) == shown
    assert hidden({"detail": {"before": terms}}) == {"detail": {"before": terms}}


@pytest.mark.parametrize("payload", ["{", {"deep": [f"v-{n}" for n in range(1_001)]}])
def test_texts_are_hidden_whole_where_the_values_are_not_known_or_too_many(payload: object) -> None:
    row: dict[str, object] = {"reason": "bad", "detail": {"n": 1, "is": True, "message": "v"}}
    assert hidden(row, payload) == {
        "reason": "[redacted]",
        "detail": {"n": "[redacted]", "is": "[redacted]", "message": "[redacted]"},
    }


def test_without_redacted_fields_all_is_shown() -> None:
    assert QuotedValues.of("{", []).hide_in({"reason": SECRET}) == {"reason": SECRET}
