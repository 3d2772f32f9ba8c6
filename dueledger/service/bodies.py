"""Bodies of requests: read within a size, parsed once, and refused without an end of reasons."""

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Self

from fastapi import Request
from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dueledger.ledger.error_counts import too_many_errors
from dueledger.ledger.errors import BodyTooLarge


class RequestBody(BaseModel):
    """What a route takes. Members that it does not know are refused."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="wrap")
    @classmethod
    def _bound_errors(cls, value: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:  # noqa: ANN401 - whatever was sent
        """Raise one error for too many: half a million take seconds and hundreds of megabytes."""
        try:
            return validate(value)
        except ValidationError as error:
            reason = too_many_errors(error)
            if reason is None:
                raise
        raise PydanticCustomError("too_many_errors", "{reason}", {"reason": reason})


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
