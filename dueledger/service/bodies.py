"""Bodies of requests: read within a size, and parsed once."""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from fastapi import Request

from dueledger.ledger.errors import BodyTooLarge


class ReadBody(NamedTuple):
    """A body that was read: its bytes, and its value, None without any."""

    raw: bytes
    value: object


class ReadRequest(Request):
    """A request whose body was read, which is parsed once however large it is."""

    def __init__(self, request: Request, body: ReadBody) -> None:
        super().__init__(request.scope)
        self._read = body

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        return self._read.raw

    async def json(self) -> object:
        """Return the value of the body."""
        return self._read.value


async def bounded(request: Request, bytes_max: int) -> AsyncGenerator[bytes]:
    """Yield the parts of a body. Raises BodyTooLarge for one that is larger, or says so."""
    size = 0
    announced = int(request.headers.get("content-length", "0"))  # the server checks it
    async for part in request.stream():
        size += len(part)
        if max(size, announced) > bytes_max:
            message = f"The body is larger than {bytes_max:,} bytes. Send fewer items."
            raise BodyTooLarge(message)
        yield part
