"""The body: the payload as it is, or what paths pick, and nothing that runs."""

import json

import pytest

from dueledger.workers.http.body_template import BODY_BYTES_MAX, BodyFailed, BodyTemplate

from .conftest import ITEM, make_item

PAYLOAD = b'{ "premium": "123.45", "lines": [1, 2] }'


def test_without_a_body_the_payload_is_sent_byte_for_byte() -> None:
    assert BodyTemplate(None).render(make_item(PAYLOAD)) == PAYLOAD
    assert BodyTemplate(None).render(make_item(b"\x00 not json")) == b"\x00 not json"


def test_a_map_picks_from_the_item_and_its_payload() -> None:
    paths = {
        "id": "item.id",
        "who": "item.[tenant, kind, business_key, cycle]",
        "when": "item.[effective_date, due_at]",
        "attempt": "item.attempt",
        "premium": "payload.premium",
        "total": "sum(payload.lines)",
        "type": '`"renewal.due"`',
        "nothing": "payload.nothing",
    }
    assert json.loads(BodyTemplate(paths).render(make_item(PAYLOAD, attempt=3))) == {
        "id": ITEM,
        "who": ["acme", "RenewalDue", "P-1", "2027"],
        "when": ["2027-03-31", "2027-03-01T09:00:00+00:00"],
        "attempt": 3,
        "premium": "123.45",
        "total": 3,
        "type": "renewal.due",
        "nothing": None,
    }


def test_one_path_gives_the_whole_body() -> None:
    assert BodyTemplate("payload.lines").render(make_item(PAYLOAD)) == b"[1,2]"


DOUBLED = "|".join(["[@,@]"] * 60)


@pytest.mark.parametrize(
    ("paths", "payload", "reason"),
    [
        ("payload.nothing", PAYLOAD, r"payload\.nothing \(as body\) is missing or null"),
        ({"total": "sum(payload.premium)"}, PAYLOAD, r"as body\.total\)"),
        ({"total": "payload.premium"}, b"not json", "the payload is not JSON"),
        ("payload." + DOUBLED, PAYLOAD, "more than 100,000 values"),
        ("join('', [payload.big, payload.big])", b'{"big":"%b"}' % (b"x" * 600_000), "over"),
    ],
)
def test_a_body_that_cannot_be_made_says_why(
    paths: str | dict[str, str], payload: bytes, reason: str
) -> None:
    with pytest.raises(BodyFailed, match=reason):
        BodyTemplate(paths).render(make_item(payload))
    assert BODY_BYTES_MAX == 1_048_576
