"""A cursor leads to the next page of the list that gave it, and of no other."""

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from dueledger.ledger.errors import InvalidCursor
from dueledger.service.pages import PageRequest

DIGEST = b"twelve bytes"
LAST = datetime(2027, 3, 1, 9, 0, 0, 123456, UTC)


class Row(BaseModel):
    """A row of a list."""

    due_at: datetime
    item_no: int


def page(cursor: str | None, *, list_digest: bytes = DIGEST) -> PageRequest:
    return PageRequest(2, cursor, list_digest)


def cursor_of(*keys: object, digest: bytes = DIGEST) -> str:
    return base64.urlsafe_b64encode(digest + orjson.dumps(keys)).decode()


def test_a_cursor_holds_the_keys_of_the_last_row_shown_and_the_last_page_has_none() -> None:
    rows = [{"due_at": LAST, "item_no": number} for number in range(3)]
    first: dict[str, Any] = orjson.loads(
        page(None).answer_rows(Row, rows, "due_at", "item_no").body
    )
    assert [row["item_no"] for row in first["items"]] == [0, 1]
    assert page(first["next_cursor"]).after(datetime, int) == (LAST, 1)
    last = orjson.loads(page(None).answer_rows(Row, rows[:2], "due_at", "item_no").body)
    assert last["next_cursor"] is None
    assert page(None).after(datetime, int) == [None, None]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        "ü",
        cursor_of(LAST, 1, digest=b"other filter"),
        cursor_of(LAST),
        cursor_of(LAST, 1, 2),
        cursor_of(LAST, "1"),
        cursor_of(LAST, 2**63),
        cursor_of("2027-03-01T09:00:00", 1),
        cursor_of("9999-12-31T23:59:59-23:00", 1),
        cursor_of(LAST, 1)[:-4],
    ],
)
def test_a_cursor_that_the_list_did_not_give_is_a_problem(cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        page(cursor).after(datetime, int)
