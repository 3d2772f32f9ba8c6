"""Pages of lists: a cursor has the keys of the row after which the next page begins.

A cursor grants nothing: each statement takes the tenants of the caller and the filters of the
request again. It is bound to the path and the filters for which it was given.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Final, Generic, TypeVar

import orjson
from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dueledger.ledger.errors import InvalidCursor
from dueledger.service.documents import answer, members_of

LIMIT_MAX: Final = 1_000
LIMIT_DEFAULT: Final = 50
_CURSOR_CHARS_MAX: Final = 2_000
_TEXT_CHARS_MAX: Final = 1_000
_INTEGER_MAX: Final = 2**63 - 1
_YEARS: Final = range(1900, 2300)
_DIGEST_BYTES: Final = 12

Row = TypeVar("Row", bound=BaseModel)
Place = TypeVar("Place")


class Page(BaseModel, Generic[Row]):
    """A page of a list."""

    items: list[Row]
    next_cursor: Annotated[
        str | None, Field(description="`cursor` of the next page; null: this is the last")
    ]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a list is asked for."""

    limit: int
    cursor: str | None
    list_digest: bytes
    """Of the list's path and filters."""

    @property
    def rows_max(self) -> int:
        """Return how many rows to read: one more than are shown, to know whether there are more."""
        return self.limit + 1

    def after(self, *types: Any) -> Sequence[Any]:  # noqa: ANN401 - a type, as a TypeAdapter takes it
        """Return the last row's keys of the page before, of these types; of the first page None.

        Raises InvalidCursor.
        """
        if self.cursor is None:
            return [None] * len(types)
        try:
            decoded = base64.b64decode(self.cursor.encode(), b"-_", validate=True)
            digest, given = decoded[:_DIGEST_BYTES], decoded[_DIGEST_BYTES:]
            of_these: Any = tuple[types]
            keys: Sequence[Any] = TypeAdapter(of_these).validate_json(given, strict=True)
        except (ValueError, ValidationError):
            raise _not_of_this_list() from None
        if digest != self.list_digest or not all(map(_is_bounded, keys)):
            raise _not_of_this_list()
        return keys

    def place(self, named: Callable[..., Place], *types: Any) -> Place | None:  # noqa: ANN401 - as above
        """Return the place after which the page begins, of the type `named`; None: the first."""
        return None if self.cursor is None else named(*self.after(*types))

    def answer_rows(
        self, model: type[BaseModel], rows: Sequence[Mapping[str, Any]], *keys: str
    ) -> Response:
        """Return a page of rows, of which `rows_max` were read, in the order of these keys."""
        shown = rows[: self.limit]
        has_more = len(rows) > self.limit
        return self.answer(model, shown, [shown[-1][key] for key in keys] if has_more else None)

    def cursor_after(self, place: Sequence[Any] | None) -> str | None:
        """Return the cursor of the page that begins after the row with these keys; None: none."""
        if place is None:
            return None
        written = orjson.dumps(list(place), default=str)
        return base64.urlsafe_b64encode(self.list_digest + written).decode()

    def answer(
        self,
        model: type[BaseModel],
        rows: Sequence[Mapping[str, Any]],
        next_place: Sequence[Any] | None,
        **others: object,
    ) -> Response:
        """Return a page of these rows and the place after which the next page begins."""
        cursor = self.cursor_after(next_place)
        items = [members_of(model, row) for row in rows]
        return answer({"items": items, "next_cursor": cursor, **others})


def _is_bounded(value: object) -> bool:
    match value:
        case None | bool():
            return True
        case int():
            return -_INTEGER_MAX <= value <= _INTEGER_MAX
        case str():
            return len(value) <= _TEXT_CHARS_MAX and "\0" not in value
        case datetime(tzinfo=None):
            return False
        case date():
            return value.year in _YEARS
        case _:
            return True


def _not_of_this_list() -> InvalidCursor:
    message = "The cursor was not given by this list with these filters. Begin without one."
    return InvalidCursor(message)


def _page_of(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="rows of a page")] = LIMIT_DEFAULT,
    cursor: Annotated[
        str | None,
        Query(max_length=_CURSOR_CHARS_MAX, description="`next_cursor` of the page before"),
    ] = None,
) -> PageRequest:
    filters = sorted(
        each for each in request.query_params.multi_items() if each[0] not in {"limit", "cursor"}
    )
    digested = orjson.dumps([request.url.path, filters])
    return PageRequest(limit, cursor, hashlib.sha256(digested).digest()[:_DIGEST_BYTES])


CurrentPage = Annotated[PageRequest, Depends(_page_of)]
