"""What sends calls, and turns problems into exceptions with their codes."""

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
from pydantic import BaseModel

from dueledger.client.calls import ServiceCall
from dueledger.client.models import ProblemError

SECONDS: Final = 60.0
"""Time for an answer, beside that for which a call itself asks the service to wait."""

_PROBLEM: Final = "application/problem+json"

Answer = TypeVar("Answer", bound=BaseModel)


class ServiceProblem(Exception):
    """A request that the service refused.

    `code` is that of the command line; `errors` point at wrong members. `retry_after_seconds` is
    how long to wait, if the service says so. Without a problem document, as from a proxy, `code` is
    `HTTP_` and the status.
    """

    def __init__(self, response: httpx.Response) -> None:
        is_problem = response.headers.get("content-type", "").startswith(_PROBLEM)
        document: dict[str, Any] = response.json() if is_problem else {}
        self.status = response.status_code
        self.code: str = document.get("code", f"HTTP_{response.status_code}")
        self.detail: str = document.get("detail", response.reason_phrase)
        self.request_id: str | None = response.headers.get("x-request-id")
        self.errors = [ProblemError.model_validate(each) for each in document.get("errors", [])]
        after = response.headers.get("retry-after", "")
        self.retry_after_seconds = int(after) if after.isdigit() else None
        pointed = "".join(f"\n  {each.pointer}: {each.detail}" for each in self.errors)
        super().__init__(f"{self.code}: {self.detail}{pointed}")


class Client:
    """Sends calls to a service, over connections that it keeps until it is closed."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        seconds: float = SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Use an API key at the service's address. `transport` is httpx's, for certificates."""
        self._seconds = seconds
        self._http = httpx.Client(
            base_url=url, headers=_headers(key), timeout=seconds, transport=transport
        )

    def send(self, call: ServiceCall[Answer]) -> Answer:
        """Send a call and return its answer.

        Raises ServiceProblem, or httpx.TransportError if there is no answer.
        """
        return _answer_of(call, self._http.request(**_request_of(call, self._seconds)))

    def pages(self, call: ServiceCall[Answer]) -> Iterator[Answer]:
        """Yield the pages of a list from the one that a call asks for on."""
        following: ServiceCall[Answer] | None = call
        while following is not None:
            page = self.send(following)
            yield page
            following = following.after(page)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient:
    """As `Client`, for asyncio."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        seconds: float = SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Use an API key at the service's address. `transport` is httpx's, for certificates."""
        self._seconds = seconds
        self._http = httpx.AsyncClient(
            base_url=url, headers=_headers(key), timeout=seconds, transport=transport
        )

    async def send(self, call: ServiceCall[Answer]) -> Answer:
        """Send a call and return its answer. Raises as `Client.send`."""
        return _answer_of(call, await self._http.request(**_request_of(call, self._seconds)))

    async def pages(self, call: ServiceCall[Answer]) -> AsyncIterator[Answer]:
        """Yield the pages of a list from the one that a call asks for on."""
        following: ServiceCall[Answer] | None = call
        while following is not None:
            page = await self.send(following)
            yield page
            following = following.after(page)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _request_of(call: ServiceCall[Any], seconds: float) -> dict[str, Any]:
    headers = {name: value for name, value in call.headers.items() if value is not None}
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    limits: dict[str, Any] = {}
    if call.wait_seconds:
        limits["timeout"] = seconds + call.wait_seconds
    return limits | {
        "method": call.method,
        "url": call.path,
        "params": call.parameters(),
        "content": call.body,
        "headers": headers,
    }


def _answer_of(call: ServiceCall[Answer], response: httpx.Response) -> Answer:
    if not response.is_success:
        raise ServiceProblem(response)
    return call.answer(response.content)
