"""Routes that need a key with one scope, each with the call that its function has."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, TypeVar, cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import BaseRoute

from dueledger.ledger.errors import InvalidInput, NotFound, Problem
from dueledger.ledger.store.api_keys import SCOPE_ROLES, ApiCaller, Scope, assume_role
from dueledger.service.auditing import AuditedRequest, audit_call, resource_of
from dueledger.service.bodies import ReadBody, ReadRequest
from dueledger.service.calls import ApiCall, CallHost, WaitingCall
from dueledger.service.idempotency import (
    PARAMETER,
    answer_under_key,
    digest_of,
    idempotency_key_of,
)
from dueledger.service.problems import PROBLEM_TYPE, ProblemDocument, request_id_of
from dueledger.service.query_parameters import check_query, query_parameters

_KEY_SCHEME: Final = "key"
SECURITY_SCHEMES: Final = {
    _KEY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, made by `dueledger key create`, or a token of the issuer.",
    }
}

PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    code: {"model": ProblemDocument, "content": {PROBLEM_TYPE: {}}, "description": "Problem"}
    for code in (422, "default")
}

_Answering = TypeVar("_Answering", bound=Callable[..., Coroutine[Any, Any, Response]])


class CallRoute(APIRoute):
    """A route that needs a key with its scope. It commits before its response is sent."""

    scope: ClassVar[Scope]
    role: ClassVar[str]
    takes_idempotency_key: ClassVar[bool]
    is_audited: ClassVar[bool]
    target: ClassVar[str | None] = None
    """What it changes, as the audit has it; without one, its path says it."""
    waits: ClassVar[bool] = False
    takes_form: ClassVar[bool] = False
    """Its function reads the body by itself."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that opens a call around the route's function."""
        answer = super().get_route_handler()
        parameters = frozenset(query_parameters(self.dependant))

        async def handle(request: Request) -> Response:
            host: CallHost = request.app.state.calls
            caller = await host.callers.find(request, self.scope)
            check_query(request, parameters)
            key = idempotency_key_of(request) if self.takes_idempotency_key else None
            with host.requests.admit(caller.actor_no):
                async with host.body_of(request, caller) as body:
                    if self.body_field is None and not self.takes_form:
                        _check_none(body)
                    return await respond(request, caller, key, body)

        async def respond(
            request: Request, caller: ApiCaller, key: str | None, body: ReadBody
        ) -> Response:
            host: CallHost = request.app.state.calls
            if self.waits:
                request.state.call = WaitingCall(host, request, caller, self.scope, self.role)
                return await answer(ReadRequest(request, body))
            async with host.open(caller, body.raw) as call:
                _check_tenant(request, call)
                request.state.call = call

                async def run() -> Response:
                    seconds = host.statement_seconds(body.raw)
                    request.state.now = await assume_role(
                        call.connection, caller, self.role, statement_seconds=seconds
                    )
                    response = await answer(ReadRequest(request, body))
                    if self.is_audited:
                        await self._audit(request, call, body)
                    return response

                if key is None:
                    return await run()
                digested = (key, digest_of(request, body.raw))
                return await answer_under_key(call.connection, caller, digested, run)

        return handle

    async def _audit(self, request: Request, call: ApiCall, body: ReadBody) -> None:
        audited = AuditedRequest(
            self.operation_id or "",
            self.target or resource_of(self.path),
            request.path_params,
            body.value,
            request_id_of(request),
        )
        await audit_call(call.connection, call.caller, audited, call.note)


def _check_none(body: ReadBody) -> None:
    """Raise InvalidInput for a body with members, which would change nothing."""
    if body.value not in (None, {}):
        problem = Problem("", "", "the route takes no body", "none")
        raise InvalidInput("The request has a body that the route does not take.", [problem])


def _check_tenant(request: Request, call: ApiCall) -> None:
    """Raise NotFound if the path names a tenant of others: it is as unknown as one without any."""
    tenant: str | None = request.path_params.get("tenant")
    if tenant is not None and not call.may_reach(tenant):
        raise NotFound(f"The key knows no tenant {tenant}.", tenant=tenant)


class ScopedRoutes:
    """Makes routes that need a key with one scope."""

    page_route: ClassVar[type[CallRoute]] = CallRoute

    def __init__(
        self, scope: Scope, tag: str, *, role: str | None = None, waits: bool = False
    ) -> None:
        """Group the routes under `tag` in the OpenAPI document.

        They run under `role`; without one, under that of the scope. Routes that wait have a
        `HeldCall`, which has no connection yet.
        """
        self._security = {"security": [{_KEY_SCHEME: [scope.value]}]}
        self._members = {"scope": scope, "role": role or SCOPE_ROLES[scope], "waits": waits}
        self._router = APIRouter(tags=[tag], responses=PROBLEMS)

    @property
    def routes(self) -> list[BaseRoute]:
        """Return the routes made so far."""
        return self._router.routes

    def add(
        self,
        method: str,
        path: str,
        operation_id: str,
        model: type[BaseModel] | None = None,
        *,
        text_type: str = "",
        status: int = 200,
        takes_idempotency_key: bool = False,
        is_audited: bool | None = None,
    ) -> Callable[[_Answering], _Answering]:
        """Make a route of a function; its first sentence is the summary.

        `operation_id` is what generated clients call it, for ever. `model` describes the answer,
        which without one is a text of the media type `text_type`; `status` is that of its success.
        A route that would have another effect if it were repeated takes an Idempotency-Key. Routes
        that change something are audited, unless `is_audited` is False: if each row that they write
        names the actor, or if they only compute.
        """
        members = {
            **self._members,
            "takes_idempotency_key": takes_idempotency_key,
            "is_audited": method != "GET" if is_audited is None else is_audited,
        }
        route_class = cast("type[CallRoute]", type("ScopedRoute", (CallRoute,), members))
        parameters = {"parameters": [PARAMETER]} if takes_idempotency_key else {}
        text: dict[int | str, dict[str, Any]] = {
            status: {"content": {text_type: {"schema": {"type": "string"}}}}
        }

        def decorate(function: _Answering) -> _Answering:
            self._router.add_api_route(
                path,
                function,
                methods=[method],
                operation_id=operation_id,
                summary=(function.__doc__ or "").partition("\n")[0].rstrip("."),
                status_code=status,
                response_model=model,
                response_class=JSONResponse if model else Response,
                responses=None if model else text,
                openapi_extra={**self._security, **parameters},
                route_class_override=route_class,
            )
            return function

        return decorate

    def add_page(
        self, method: str, path: str, operation_id: str | None = None, target: str | None = None
    ) -> Callable[[_Answering], _Answering]:
        """Make a route for people: it is no part of the OpenAPI document.

        With the `operation_id` of the route that does the same by REST, the audit has its calls.
        """
        members = {
            **self._members,
            "takes_idempotency_key": False,
            "is_audited": operation_id is not None,
            "takes_form": True,
            "target": target,
        }
        route_class = cast("type[CallRoute]", type("ScopedRoute", (self.page_route,), members))

        def decorate(function: _Answering) -> _Answering:
            self._router.add_api_route(
                path,
                function,
                methods=[method],
                operation_id=operation_id,
                response_model=None,
                include_in_schema=False,
                route_class_override=route_class,
            )
            return function

        return decorate
