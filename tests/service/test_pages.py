"""A cursor leads to the next page of the list that gave it, and of no other; it shows nothing."""

import base64
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import pytest
from pydantic import BaseModel

from dueledger.ledger.errors import InvalidCursor
from dueledger.service import pages
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


class Place(NamedTuple):
    """The place of a row."""

    due_at: datetime
    item_no: int


@pytest.mark.parametrize("bytes_max", [0, 150, 10_000])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 50])
async def test_pages_of_large_rows_have_each_once_and_read_no_more_than_they_may_show(
    monkeypatch: pytest.MonkeyPatch, limit: int, bytes_max: int
) -> None:
    monkeypatch.setattr(pages, "LARGE_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", bytes_max)
    rows = [{"due_at": LAST, "item_no": number} for number in range(5)]
    size = len(orjson.dumps(rows[0]))
    read: list[int] = []

    async def read_some(wanted: int, after: Place | None) -> list[dict[str, Any]]:
        first = 0 if after is None else after.item_no + 1
        read.append(wanted)
        return rows[first : first + wanted]

    found: list[int] = []
    cursor: str | None = None
    while True:
        asked = PageRequest(limit, cursor, LIST, SEAL)
        read.clear()
        answer = await asked.answer_large(
            Row, read_some, Place, {"due_at": datetime, "item_no": int}
        )
        document = orjson.loads(answer.body)
        shown = [row["item_no"] for row in document["items"]]
        assert len(shown) <= min(limit, 2 + bytes_max // size + 2)
        assert max(read) <= 2
        found += shown
        if (cursor := document["next_cursor"]) is None:
            break
    assert found == list(range(5))
