"""The evidence of a response: bounded, storable, and without secrets."""

import json
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.definitions.http_url import read_url
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import Outcome
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.http.exchange import (
    RETRY_AFTER_SECONDS_MAX,
    RETRY_AFTER_SECONDS_MIN,
    SNIPPET_CHARS_MAX,
    HttpRequest,
    HttpResponse,
    body_text,
    evidence_of,
    reason_of,
    retry_after_seconds,
)
from dueledger.workers.http.redaction import Redactor
from dueledger.workers.verdict_outcomes import (
    EVIDENCE_BYTES_MAX,
    EVIDENCE_REFUSED,
    outcome_of_verdict,
)
from dueledger.workers.verdicts import Completed

from .conftest import make_item

NOW = datetime(2027, 3, 1, 9, 0, 0, tzinfo=UTC)
REQUEST = HttpRequest(
    "POST", read_url("https://hooks.example.com/due?token=hunter22"), {}, b"{}", 15.0
)
SECRET = "s3cret/+value=="  # noqa: S105
NOBODY = Redactor([])


def response(body: bytes = b"", status: int = 200, **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, named, body, is_whole=True, address="93.184.215.14")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 120 ", 120.0),
        ("0", RETRY_AFTER_SECONDS_MIN),
        ("999999999999", RETRY_AFTER_SECONDS_MAX),
        ("Mon, 01 Mar 2027 09:02:00 GMT", 120.0),
        ("Mon, 01 Mar 2027 09:02:00 -0000", 120.0),
        ("Monday, 01-Mar-27 09:02:00 GMT", 120.0),
        ("Mon Mar  1 09:02:00 2027", 120.0),
        ("Mon, 01 Mar 2027 08:00:00 GMT", RETRY_AFTER_SECONDS_MIN),
        ("Mon, 01 Mar 2100 08:00:00 GMT", RETRY_AFTER_SECONDS_MAX),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("\u0661\u0662", None),
        ("Mon, 01 Mar 2027 09:00:00 +99999999999999999999", None),
        ("Mon, 31 Feb 2027 09:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_within_bounds(
    value: str, seconds: float | None
) -> None:
    assert retry_after_seconds(response(retry_after=value), NOW) == seconds


def test_an_endpoint_that_does_not_say_leaves_it_to_the_backoff() -> None:
    assert retry_after_seconds(response(), NOW) is None


@given(st.text() | st.text("0123456789 :,-+GMTMonar"))
def test_no_retry_after_is_too_odd_to_be_read(value: str) -> None:
    seconds = retry_after_seconds(response(retry_after=value), NOW)
    assert seconds is None or RETRY_AFTER_SECONDS_MIN <= seconds <= RETRY_AFTER_SECONDS_MAX


def test_the_evidence_has_the_response_and_its_address() -> None:
    answered = response(
        b'{"ok":true}',
        content_type="application/json",
        x_request_id="r-1",
        set_cookie="session=1",
        location="https://user:word@elsewhere.example/a?token=hunter22#x",
    )
    assert evidence_of(REQUEST, answered, NOBODY, seconds=0.12345) == {
        "status": 200,
        "method": "POST",
        "url": "https://hooks.example.com/due",
        "address": "93.184.215.14",
        "seconds": 0.123,
        "headers": {
            "content-type": "application/json",
            "location": "elsewhere.example/a",
            "x-request-id": "r-1",
        },
        "body": '{"ok":true}',
        "body_is_whole": True,
    }


def test_a_reason_is_one_line_without_a_query() -> None:
    reason = reason_of(REQUEST, response(b"no\r\n  such\tpolicy", 404), NOBODY)
    assert reason == "404 from POST https://hooks.example.com/due: no such policy"
    moved = response(b"", 307, location="/other?token=hunter22")
    assert reason_of(REQUEST, moved, NOBODY) == (
        "307 to /other from POST https://hooks.example.com/due"
    )


@given(st.binary(max_size=5000), st.text(max_size=300))
def test_the_evidence_of_any_response_can_be_stored(body: bytes, header: str) -> None:
    answered = response(body, content_type=header, location=header, retry_after=header)
    evidence = evidence_of(REQUEST, answered, NOBODY, seconds=0.1)
    ending = outcome_of_verdict(Completed(evidence), make_item(), HandlerOptions())
    assert isinstance(ending, Outcome)
    assert ending.event is TransitionEvent.COMPLETED
    assert EVIDENCE_REFUSED not in json.loads(ending.detail or "{}")
    assert len(str(evidence)) < EVIDENCE_BYTES_MAX
    assert len(str(evidence["body"])) <= SNIPPET_CHARS_MAX


def test_a_compressed_body_is_recorded_by_its_size() -> None:
    packed = response(b"\x1f\x8b\x08\x00", content_encoding="gzip")
    assert body_text(packed, NOBODY, 100) == "[4 bytes encoded as gzip]"


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        SECRET.replace("/", "\\/"),
        f"Bearer {SECRET}",
        f"{SECRET}{SECRET}",
    ],
)
def test_a_secret_that_comes_back_is_taken_out_however_it_is_spelled(said: str) -> None:
    redactor = Redactor([f"Bearer {SECRET}"])
    answered = response(f"you sent {said}".encode(), 401, server=f"proxy {said}")
    shown = str(evidence_of(REQUEST, answered, redactor, seconds=0.1))
    shown += reason_of(REQUEST, answered, redactor)
    assert "s3cret" not in shown
    assert "value==" not in shown
    assert "[redacted]" in shown


def test_a_secret_across_the_cut_is_taken_out_before_it() -> None:
    answered = response(b"x" * (SNIPPET_CHARS_MAX - 5) + SECRET.encode())
    assert "s3c" not in body_text(answered, Redactor([SECRET]), SNIPPET_CHARS_MAX)


def test_a_redactor_does_not_show_what_it_hides() -> None:
    assert SECRET not in repr(Redactor([SECRET]))
