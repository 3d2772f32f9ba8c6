"""Files that are sent in parts, and how one ends that cannot be completed."""

from collections.abc import AsyncIterator, Callable, Mapping
from traceback import format_tb

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from dueledger.failures import describe
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.service.admission import DownloadShares
from dueledger.service.problems import request_id_of


class Download(StreamingResponse):
    """A file in parts. It ends when the client has gone; an error closes the connection.

    The client then has no end of the body: what it received cannot be taken for the whole file.
    """

    def __init__(
        self,
        request: Request,
        parts: AsyncIterator[str | bytes],
        *,
        shares: DownloadShares,
        actor_no: int,
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        super().__init__(parts, 200, headers, media_type)
        self._request, self._shares, self._actor_no = request, shares, actor_no

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts. Raises ServiceBusy before the first one."""
        with self._shares.admit(self._actor_no):
            try:
                await super().__call__(scope, receive, send)
            except Exception as error:
                abort: Callable[[], None] | None = getattr(self._request.state, "abort", None)
                if abort is None:
                    raise
                failure = describe(error)
                get_logger("service").error(
                    LogEvent.REQUEST_FAILED,
                    request_id=request_id_of(self._request),
                    code="INTERNAL" if failure is None else failure.code,
                    error=type(error).__name__,
                    traceback="".join(format_tb(error.__traceback__)),
                )
                abort()
