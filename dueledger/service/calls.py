"""A call: one request with a valid key, in a transaction under the role of its route's scope."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import pydantic_core
from fastapi import Depends, Request

from dueledger.ledger.errors import (
    BodyTooLarge,
    InvalidBody,
    RequestTimeout,
)
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import SCOPE_ROLES, ApiCaller, Scope, assume_role
from dueledger.service.admission import (
    ARRIVING_BODIES,
    READ_BODIES,
    REQUESTS_MAX,
    BodyBudget,
    ConnectionShares,
    RequestShares,
)
from dueledger.service.auditing import AuditNote
from dueledger.service.bodies import ReadBody, bounded

BODY_VALUES_MAX: Final = 600_000
"""A value of JSON takes up to a hundred bytes of memory, and three of a body."""
_VALUE_BEGINS: Final = (b",", b"[", b"{")


@dataclass(frozen=True, slots=True)
class ApiCall:
    """What a route has: a connection in a transaction, whose call it is, and the raw body."""

    connection: Connection
    caller: ApiCaller
    body: bytes
    note: AuditNote = field(default_factory=AuditNote)
    on_commit: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """What is called once the transaction is committed."""

    def may_reach(self, tenant: str) -> bool:
        """Return whether the call may reach a tenant."""
        return self.tenants is None or tenant in self.tenants

    def tenants_of(self, tenant: str | None) -> Sequence[str] | None:
        """Return the call's tenants, or the one that is asked for, if it is one of them."""
        if tenant is None:
            return self.tenants
        return [tenant] if self.may_reach(tenant) else []

    def note_change(
        self,
        *,
        target: str | None = None,
        tenants: Sequence[str] | None = None,
        is_changed: bool = True,
        **detail: Any,  # noqa: ANN401 - as JSON has it
    ) -> None:
        """Add to what the audit will have of this call: whatever its path does not say.

        `tenants` are those that the change concerns; without them, that of the path, or those of
        the caller. A call that changed nothing leaves no entry.
        """
        self.note.target, self.note.tenants, self.note.is_changed = target, tenants, is_changed
        before = {**self.note.detail.get("before", {}), **detail.pop("before", {})}
        self.note.detail.update(detail, **({"before": before} if before else {}))

    @property
    def tenants(self) -> Sequence[str] | None:
        """Return the tenants to which the call is limited; None: all."""
        return self.caller.tenants


class CallerFinder(Protocol):
    """Finds who makes a request: by the key or token that it has, or by its session."""

    async def find(self, request: Request, scope: Scope) -> ApiCaller:
        """Return a caller that has the scope, or raise a `RequestRefused` or NotPermitted."""
        ...


class CallHost:
    """Opens calls on the service's pool."""

    def __init__(
        self,
        connections: ConnectionShares,
        callers: CallerFinder,
        *,
        body_bytes_max: int,
        body_seconds: float,
        requests_max: int = REQUESTS_MAX,
    ) -> None:
        self.callers = callers
        self.requests = RequestShares(requests_max)
        self.downloads = connections.downloads
        self._connections = connections
        self._arriving = BodyBudget(ARRIVING_BODIES * body_bytes_max)
        self._read = BodyBudget(READ_BODIES * body_bytes_max)
        self._body_bytes_max = body_bytes_max
        self._body_seconds = body_seconds

    @asynccontextmanager
    async def body_of(self, request: Request, caller: ApiCaller) -> AsyncGenerator[ReadBody]:
        """Read the whole body and have it for the block, before a transaction begins.

        That of a GET has no meaning (RFC 9110) and is not read. Raises BodyTooLarge, InvalidBody,
        RequestTimeout, or ServiceBusy.
        """
        if request.method == "GET":
            yield ReadBody(b"", None)
            return
        size = int(request.headers.get("content-length", "0"))  # the server checks it
        if "transfer-encoding" in request.headers:  # then a length says nothing (RFC 9112, 6.3)
            size = self._body_bytes_max
        actor_no = caller.actor_no
        async with AsyncExitStack() as arriving:
            expected = min(size, self._body_bytes_max)
            await arriving.enter_async_context(self._arriving.reserve(expected, actor_no))
            body = await self.read_bytes(request)
            async with self._read.reserve(len(body), actor_no):
                await arriving.aclose()
                yield self.parse_body(request, body)

    async def read_bytes(self, request: Request, bytes_max: int | None = None) -> bytes:
        """Read the whole body. Raises BodyTooLarge or RequestTimeout."""
        most = bytes_max or self._body_bytes_max
        try:
            async with asyncio.timeout(self._body_seconds):
                return b"".join([part async for part in bounded(request, most)])
        except TimeoutError:
            raise RequestTimeout("The body did not arrive in time. Send it faster.") from None

    def parse_body(self, request: Request, body: bytes) -> ReadBody:  # noqa: ARG002 - a form's is
        """Return the value of a body. Raises BodyTooLarge or InvalidBody."""
        if not body:
            return ReadBody(body, None)
        if sum(map(body.count, _VALUE_BEGINS)) > BODY_VALUES_MAX:
            message = f"The body has more than {BODY_VALUES_MAX:,} values. Send fewer items."
            raise BodyTooLarge(message)
        try:
            return ReadBody(body, pydantic_core.from_json(body, allow_inf_nan=False))
        except ValueError as error:
            raise InvalidBody(f"The body is no JSON that can be read: {error}.") from None

    def statement_seconds(self, body: bytes) -> float | None:  # noqa: ARG002 - a form's is
        """Return the time that each statement of a call may take; None: that of its connection."""
        return None

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Connection]:
        """Lend a connection for the block, for no caller yet."""
        async with self._connections.lend() as connection:
            yield connection

    @asynccontextmanager
    async def list_as_worker(self) -> AsyncGenerator[Connection]:
        """Open a transaction that may list what is due, of all tenants, for all who wait."""
        async with self._connections.lend() as connection, connection.transaction():
            await assume_role(connection, None, SCOPE_ROLES[Scope.WORK])
            yield connection

    @asynccontextmanager
    async def open(self, caller: ApiCaller, body: bytes) -> AsyncGenerator[ApiCall]:
        """Open a transaction for the block; it has a role when one is assumed."""
        async with _opened(self._connections.lend(caller.actor_no), caller, body) as call:
            yield call

    @asynccontextmanager
    async def open_claim(self, caller: ApiCaller) -> AsyncGenerator[ApiCall]:
        """Open a transaction beside the caller's share of connections.

        One loop claims for all who wait: a caller whose share is in use would hold up the others.
        """
        async with _opened(self._connections.lend(), caller, b"") as call:
            yield call


@asynccontextmanager
async def _opened(
    lent: AbstractAsyncContextManager[Connection], caller: ApiCaller, body: bytes
) -> AsyncGenerator[ApiCall]:
    async with lent as connection:
        call = ApiCall(connection, caller, body)
        async with connection.transaction():
            yield call
            crash_point("request.answered")
    crash_point("request.committed")
    for each in call.on_commit:
        each()


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """What a route has that waits: no connection, until it opens a call."""

    host: CallHost
    request: Request
    caller: ApiCaller
    scope: Scope
    role: str

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ApiCall]:
        """Open a call, if the key is still valid. Raises what `Callers.find` raises."""
        caller = await self.host.callers.find(self.request, self.scope)
        async with self.host.open(caller, b"") as call:
            await assume_role(call.connection, caller, self.role)
            yield call

    @asynccontextmanager
    async def open_claim(self) -> AsyncGenerator[ApiCall]:
        """Open a call as `open` does, in the loop that claims for all who wait."""
        caller = await self.host.callers.find(self.request, self.scope)
        async with self.host.open_claim(caller) as call:
            await assume_role(call.connection, caller, self.role)
            yield call

    async def until_gone(self) -> None:
        """Wait until the client has closed its connection."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


async def call_of(request: Request) -> ApiCall:
    """Return the call of a request, within its route."""
    return request.state.call


async def _waiting_call_of(request: Request) -> WaitingCall:
    return request.state.call


CurrentCall = Annotated[ApiCall, Depends(call_of)]
HeldCall = Annotated[WaitingCall, Depends(_waiting_call_of)]
