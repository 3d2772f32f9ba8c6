"""Pages of lists: a cursor has the keys of the row after which the next page begins.

A cursor grants nothing: each statement takes the tenants of the caller and the filters of the
request again. It is sealed, for the path and the filters for which it was given.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

import orjson
from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, Field, TypeAdapter

from dueledger.service.cursors import CursorSeal
from dueledger.service.documents import answer, encoded, members_of

LIMIT_MAX: Final = 1_000
LIMIT_DEFAULT: Final = 50
LARGE_ROWS_AT_ONCE: Final = 32
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""After so many bytes a page of large rows ends: of payloads, evidence or documents."""
_CURSOR_CHARS_MAX: Final = 2_000
_NO_FILTERS: Final = frozenset({"limit", "cursor", "sort", "table"})
"""Parameters that leave no row out. A page of the console sorts tables beside its list by two."""

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
    given_for: bytes
    """The list's path and filters."""
    seal: CursorSeal

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
        of_these: Any = tuple[types]
        place = self.seal.open(self.cursor, self.given_for)
        keys: Sequence[Any] = TypeAdapter(of_these).validate_json(place, strict=True)
        return keys

    def place(self, named: Callable[..., Place], *types: Any) -> Place | None:  # noqa: ANN401 - as above
        """Return the place after which the page begins, of the type `named`; None: the first."""
        return None if self.cursor is None else named(*self.after(*types))

    def answer_rows(
        self, model: type[BaseModel], rows: Sequence[Mapping[str, Any]], *keys: str
    ) -> Response:
        """Return a page of rows, of which `rows_max` were read, in the order of these keys."""
        items = [members_of(model, row) for row in rows[: self.limit]]
        return answer({"items": items, "next_cursor": self.cursor_of(rows, *keys)})

    def cursor_of(self, rows: Sequence[Mapping[str, Any]], *keys: str) -> str | None:
        """Return the cursor of the page after rows, of which `rows_max` were read; None: none."""
        if len(rows) <= self.limit:
            return None
        return self.cursor_after([rows[self.limit - 1][key] for key in keys])

    async def answer_large(
        self,
        model: type[BaseModel],
        read: Callable[[int, Place | None], Awaitable[Sequence[Mapping[str, Any]]]],
        named: Callable[..., Place],
        keys: Mapping[str, Any],
    ) -> Response:
        """Return a page of rows that may be large, fewer than `limit` if all are of that size.

        `read` reads so many after a place, which is `named` by the `keys` of a row, of these types.
        """
        place, last = self.place(named, *keys.values()), list[Any]()
        items: list[orjson.Fragment] = []
        size = 0
        while True:
            wanted = min(LARGE_ROWS_AT_ONCE, self.rows_max - len(items))
            rows = await read(wanted, place)
            shown = rows[: self.limit - len(items)]
            for row in shown:
                document = encoded(members_of(model, row))
                items.append(orjson.Fragment(document))
                size += len(document)
                last = [row[key] for key in keys]
                place = named(*last)
            has_more = len(rows) == wanted
            if not has_more or len(shown) < len(rows) or size > PAGE_BYTES_MAX:
                break
        cursor = self.cursor_after(last if has_more else None)
        return answer({"items": items, "next_cursor": cursor})

    def cursor_after(self, place: Sequence[Any] | None) -> str | None:
        """Return the cursor of the page that begins after the row with these keys; None: none."""
        if place is None:
            return None
        written = orjson.dumps(list(place), default=str)
        return self.seal.seal(written, self.given_for)

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


async def _page_of(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="rows of a page")] = LIMIT_DEFAULT,
    cursor: Annotated[
        str | None,
        Query(max_length=_CURSOR_CHARS_MAX, description="`next_cursor` of the page before"),
    ] = None,
) -> PageRequest:
    filters = sorted(
        each for each in request.query_params.multi_items() if each[0] not in _NO_FILTERS
    )
    given_for = orjson.dumps([request.url.path, filters])
    return PageRequest(limit, cursor, given_for, request.app.state.cursors)


CurrentPage = Annotated[PageRequest, Depends(_page_of)]
