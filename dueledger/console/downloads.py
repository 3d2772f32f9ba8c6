"""Lists as files: read page after page by the list's own cursor, and sent as they are read."""

import csv
import io
from asyncio import sleep
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlencode

import orjson
from fastapi import Request, Response

from dueledger.console.listing import Listing
from dueledger.ledger.errors import RateExceeded, ServiceBusy
from dueledger.service.downloads import Download
from dueledger.service.query_parameters import query_parameters
from dueledger.service.scoped_routes import CallRoute

if TYPE_CHECKING:
    from dueledger.service.calls import CallHost

DOWNLOAD_ROWS_MAX: Final = 100_000
"""Rows of a file; the last row of one that was cut says so, and where the next ones are."""
PART_ROWS: Final = 1_000
"""Rows that are read at a time, in a transaction that ends before they are sent."""
FILE_FORMATS: Final = frozenset({"csv", "json"})
_TRIES_MAX: Final = 5
_ROW_END: Final = b"\r\n"

FileFormat: TypeAlias = Literal["csv", "json"]
Handle: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class ListPart(Response):
    """Rows of a list as a file: with a `note` some are left out, with a next cursor it goes on."""

    def __init__(self, listing: Listing, form: FileFormat, next_address: str) -> None:
        headers = {"Content-Disposition": f'attachment; filename="dueledger.{form}"'}
        if listing.next_cursor is not None:
            headers["Link"] = f'<{next_address}>; rel="next"'
        if form == "csv":
            header, row_end, self.content = listing.csv().encode().partition(_ROW_END)
            self.begin, self.end, media_type = header + row_end, b"", "text/csv; charset=utf-8"
        else:
            rows = orjson.dumps(listing.documents(), default=str, option=orjson.OPT_UTC_Z)
            self.begin, self.content, self.end = b"[", rows[1:-1], b"]"
            media_type = "application/json"
        self.form: FileFormat = form
        self.rows = len(listing.rows)
        self.note, self.next_cursor = listing.note, listing.next_cursor
        body = self.begin + self.content
        if self.note is not None:
            body += self.last_row(self.note, {"note": self.note}, is_first=not self.rows)
        super().__init__(body + self.end, 200, headers, media_type)

    def next_rows(self, *, is_first: bool) -> bytes:
        """Return the rows as they follow others, unless they are the first ones."""
        return self.content if self.form == "csv" or is_first else b"," + self.content

    def last_row(self, text: str, document: Mapping[str, object], *, is_first: bool) -> bytes:
        """Return a row after those of the list, which says what is left out."""
        if self.form == "json":
            return (b"" if is_first else b",") + orjson.dumps(document)
        row = io.StringIO()
        csv.writer(row).writerow([text, *[""] * self.begin.count(b",")])
        return row.getvalue().encode()


class PageRoute(CallRoute):
    """A route of pages. A list asked for as a file, without `limit`, is sent to its end."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that reads a list page after page, each as a request of its own."""
        handle = super().get_route_handler()
        if "limit" not in query_parameters(self.dependant):
            return handle

        async def answer(request: Request) -> Response:
            query = request.query_params
            if query.get("format") not in FILE_FORMATS or "limit" in query:
                return await handle(request)
            first = await handle(_part_of(request, query.get("cursor"), PART_ROWS))
            if not isinstance(first, ListPart) or first.next_cursor is None:
                return first
            host: CallHost = request.app.state.calls
            return Download(
                request,
                _parts(request, handle, first),
                shares=host.downloads,
                actor_no=request.state.call.caller.actor_no,
                headers={"Content-Disposition": first.headers["Content-Disposition"]},
                media_type=first.headers["Content-Type"],
            )

        return answer


async def _parts(request: Request, handle: Handle, first: ListPart) -> AsyncGenerator[bytes]:
    """Yield a file in parts: the first one, and those after it, up to the most rows."""
    yield first.begin + first.content
    rows, cursor, note = first.rows, first.next_cursor, first.note
    while cursor is not None and rows < DOWNLOAD_ROWS_MAX:
        limit = min(PART_ROWS, DOWNLOAD_ROWS_MAX - rows)
        part = await _read(handle, _part_of(request, cursor, limit))
        if part.rows:
            yield part.next_rows(is_first=not rows)
        rows, cursor, note = rows + part.rows, part.next_cursor, note or part.note
    if note is not None:
        yield first.last_row(note, {"note": note}, is_first=not rows)
    if cursor is not None:
        address = f"{request.url.path}?{_query_of(request, cursor=cursor)}"
        text = f"Cut after {rows:,} rows. The next ones: {address}"
        yield first.last_row(text, {"cut_after_rows": rows, "next": address}, is_first=False)
    yield first.end


async def _read(handle: Handle, request: Request) -> ListPart:
    """Read a part. A caller whose rate is used up waits for it; raises what remains."""
    tries = 1
    while True:
        try:
            part = await handle(request)
        except (RateExceeded, ServiceBusy) as error:
            if tries == _TRIES_MAX:
                raise
            tries += 1
            await sleep(error.seconds)
        else:
            assert isinstance(part, ListPart)  # noqa: S101 - as the first one
            return part


def _part_of(request: Request, cursor: str | None, limit: int) -> Request:
    """Return the request for rows of the same list after a cursor."""
    query = _query_of(request, limit=limit, **({} if cursor is None else {"cursor": cursor}))
    return Request({**request.scope, "query_string": query.encode()}, request.receive)


def _query_of(request: Request, **changes: object) -> str:
    given = [each for each in request.query_params.multi_items() if each[0] not in changes]
    return urlencode([*given, *changes.items()])
