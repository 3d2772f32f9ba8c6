"""A cursor leads to the next page of the list that gave it, and of no other; it shows nothing."""

import base64
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from dueledger.ledger.errors import InvalidCursor
from dueledger.service.cursors import CursorSeal
from dueledger.service.pages import PageRequest

LIST = b"path and filters"
SEAL = CursorSeal(b"32 bytes that nobody else knows.")
LAST = datetime(2027, 3, 1, 9, 0, 0, 123456, UTC)


class Row(BaseModel):
    """A row of a list."""

    due_at: datetime
    item_no: int


def page(cursor: str | None, *, given_for: bytes = LIST, seal: CursorSeal = SEAL) -> PageRequest:
    return PageRequest(2, cursor, given_for, seal)


def given() -> str:
    rows = [{"due_at": LAST, "item_no": number} for number in range(3)]
    first: dict[str, Any] = orjson.loads(
        page(None).answer_rows(Row, rows, "due_at", "item_no").body
    )
    assert [row["item_no"] for row in first["items"]] == [0, 1]
    return first["next_cursor"]


def test_a_cursor_holds_the_keys_of_the_last_row_shown_and_the_last_page_has_none() -> None:
    assert page(given()).after(datetime, int) == (LAST, 1)
    rows = [{"due_at": LAST, "item_no": number} for number in range(2)]
    last = orjson.loads(page(None).answer_rows(Row, rows, "due_at", "item_no").body)
    assert last["next_cursor"] is None
    assert page(None).after(datetime, int) == [None, None]


def test_a_cursor_shows_nothing_and_no_two_are_alike() -> None:
    assert b"2027" not in base64.urlsafe_b64decode(given())
    assert given() != given()


@pytest.mark.parametrize(
    "asked",
    [
        page(""),
        page("nonsense"),
        page("ü"),
        page(given()[:-4]),
        page("A" + given()[1:] if given()[0] != "A" else "B" + given()[1:]),
        page(given(), given_for=b"other filter"),
        page(given(), seal=CursorSeal(bytes(32))),
        page(base64.urlsafe_b64encode(LIST + orjson.dumps([LAST, 1])).decode()),
    ],
)
def test_a_cursor_that_the_list_did_not_give_is_a_problem(asked: PageRequest) -> None:
    with pytest.raises(InvalidCursor):
        asked.after(datetime, int)
