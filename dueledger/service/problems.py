"""Errors as problem documents (RFC 9457), with the codes that commands print."""

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from traceback import format_tb
from typing import Annotated, Any, Final, cast

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from dueledger.failures import KINDS, Failure, describe
from dueledger.ledger.errors import (
    Conflict,
    DueledgerError,
    InvalidDefinition,
    InvalidEvent,
    InvalidHeader,
    InvalidInput,
    NotPermitted,
    Problem,
    RateExceeded,
    ServiceBusy,
    TooManyAttempts,
)
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.visible_text import visible

PROBLEM_TYPE: Final = "application/problem+json"
ERRORS_MAX: Final = 100
TEXT_CHARS_MAX: Final = 500

_INTERNAL: Final = Failure(
    1, "INTERNAL", "A defect in Dueledger. Its log has the error under this request's id.", {}
)
_ROLE_MISSING: Final = "ROLE_MISSING"
_BY_STATUS: Final = {
    HTTPStatus.NOT_FOUND: ("NOT_FOUND", "There is no such route. /openapi.json lists all."),
    HTTPStatus.METHOD_NOT_ALLOWED: (
        "METHOD_NOT_ALLOWED",
        "The route has no such method. The header Allow lists those it has.",
    ),
}
_PLACES: Final = frozenset({"body", "query", "path", "header"})
_DEFINITION_NAME: Final = re.compile(r"^\([^)]*\)\.?")
_POINTER_ESCAPES: Final = re.compile("[~/]")


class ProblemError(BaseModel):
    """One thing that is wrong, and where."""

    pointer: Annotated[
        str, Field(description="JSON Pointer (RFC 6901) into the body, or the parameter's name")
    ]
    detail: str
    accepted: Annotated[str | None, Field(description="what to write instead")] = None


class ProblemDocument(BaseModel):
    """A problem (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems#NOT_FOUND",
                    "title": "Not found",
                    "status": 404,
                    "detail": "There is no item 01234567-89ab-8cde-8123-456789abcdef.",
                    "code": "NOT_FOUND",
                    "request_id": "5e1f0c52b8f94f3d",
                    "errors": [],
                }
            ]
        }
    )

    type: Annotated[str, Field(description="names the code; /problems lists all")]
    title: Annotated[str, Field(description="the same for each problem of a code")]
    status: int
    detail: Annotated[str, Field(description="what happened, where, and what to do")]
    code: Annotated[str, Field(description="stable; commands print the same")]
    request_id: Annotated[str, Field(description="also in X-Request-Id and in the log")]
    errors: list[ProblemError]


ProblemAnswer = Callable[[Request, ProblemDocument, Mapping[str, str]], Response]
"""Makes the response of a problem, with these headers."""


def answer_document(_: Request, problem: ProblemDocument, headers: Mapping[str, str]) -> Response:
    """Answer with the document of a problem."""
    return Response(_encoded(problem), problem.status, dict(headers), PROBLEM_TYPE)


def handle_errors(app: FastAPI, answer: ProblemAnswer = answer_document) -> None:
    """Let an app answer every error as a problem."""
    app.state.answer_problem = answer
    app.add_exception_handler(DueledgerError, _of_error)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_status)
    app.add_exception_handler(ClientDisconnect, _of_gone)
    app.add_exception_handler(Exception, _of_defect)


def request_id_of(request: Request) -> str:
    """Return the id of a request, which its answer and the log have."""
    return request.scope["request_id"]


async def _of_error(request: Request, error: Exception) -> Response:
    failure = describe(error) or _INTERNAL
    has_problems = isinstance(error, InvalidInput | NotPermitted | Conflict)
    problems = error.problems if has_problems else ()
    errors = [_error_of(problem) for problem in problems[:ERRORS_MAX]]
    if isinstance(error, InvalidDefinition | InvalidEvent | InvalidHeader):
        errors = [_in_document(each) for each in errors]
    headers: dict[str, str] = {}
    if failure.code == "KEY_MISSING":
        headers["WWW-Authenticate"] = "Bearer"
    if failure.code == "TOKEN_INVALID":
        headers["WWW-Authenticate"] = 'Bearer error="invalid_token"'
    if isinstance(error, RateExceeded | ServiceBusy | TooManyAttempts):
        headers["Retry-After"] = str(error.seconds)
    return _answer(request, failure.code, failure.message, errors, headers)


async def _of_validation(request: Request, error: Exception) -> Response:
    found = cast("RequestValidationError", error).errors()
    errors = [_validation_error(each) for each in found[:ERRORS_MAX]]
    return _answer(request, "INVALID_INPUT", "The request has wrong or missing values.", errors)


async def _of_status(request: Request, error: Exception) -> Response:
    refused = cast("HTTPException", error)
    code, detail = _BY_STATUS.get(
        HTTPStatus(refused.status_code), ("REQUEST_INVALID", "The request cannot be read.")
    )
    headers = refused.headers or {}
    if code == "METHOD_NOT_ALLOWED":
        headers = {"Allow": ", ".join(_methods_of(request))}
    return _answer(request, code, detail, [], headers)


def _methods_of(request: Request) -> list[str]:
    """Return the methods of all routes at a path; the framework knows those of the first alone."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.path_regex.match(request.url.path):
            found |= route.methods or set()
    return sorted(found)


async def _of_gone(_: Request, __: Exception) -> Response:
    """Answer a client that closed its connection while it sent the body: nobody reads it."""
    return Response(status_code=HTTPStatus.BAD_REQUEST)


async def _of_defect(request: Request, error: Exception) -> Response:
    """Answer what no route expected, and log it."""
    failure = describe(error) or _INTERNAL
    if failure.code == "NOT_PERMITTED" and not _is_of_caller(error):
        failure = _role_missing(error)
    get_logger("service").error(
        LogEvent.REQUEST_FAILED,
        request_id=request_id_of(request),
        code=failure.code,
        error=type(error).__name__,
        # Its message is left out: Postgres and its client quote values.
        traceback="".join(format_tb(error.__traceback__)),
    )
    is_shown = failure.code == _ROLE_MISSING or (
        KINDS[failure.code].status != HTTPStatus.INTERNAL_SERVER_ERROR
    )
    return _answer(request, failure.code, failure.message if is_shown else _INTERNAL.message)


def _is_of_caller(error: Exception) -> bool:
    """Return whether the database refuses a tenant of the caller, and not the service's login."""
    return getattr(error, "column_name", None) == "tenant"


def _role_missing(error: Exception) -> Failure:
    said = visible(str(error).partition("\n")[0])
    message = (
        f"The service lacks a right that this needs ({said}), and changed nothing. Whoever runs it "
        "gives the role to its login: `dueledger grant ROLE TO LOGIN`."
    )
    return Failure(1, _ROLE_MISSING, message, {})


def _answer(
    request: Request,
    code: str,
    detail: str,
    errors: Sequence[ProblemError] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    answer: ProblemAnswer = request.app.state.answer_problem
    return answer(request, _document(request_id_of(request), code, detail, errors), headers or {})


def problem_of(request_id: str, code: str, detail: str) -> bytes:
    """Return a problem document as JSON."""
    return _encoded(_document(request_id, code, detail, ()))


def _document(
    request_id: str, code: str, detail: str, errors: Sequence[ProblemError]
) -> ProblemDocument:
    return ProblemDocument(
        type=f"/problems#{code}",
        title=KINDS[code].title,
        status=KINDS[code].status,
        detail=detail,
        code=code,
        request_id=request_id,
        errors=list(errors),
    )


def _encoded(problem: ProblemDocument) -> bytes:
    return orjson.dumps(problem.model_dump(exclude_none=True))


def _error_of(problem: Problem) -> ProblemError:
    return ProblemError(
        pointer=problem.field, detail=visible(problem.reason), accepted=problem.accepted
    )


def _in_document(error: ProblemError) -> ProblemError:
    """Point into the document of a definition, whose fields are named with dots."""
    path = _DEFINITION_NAME.sub("", error.pointer).partition(" (")[0].split(".")
    pointer = "".join(f"/{_POINTER_ESCAPES.sub(_escaped, each)}" for each in path)
    return error.model_copy(update={"pointer": pointer})


def _validation_error(found: Mapping[str, Any]) -> ProblemError:
    place, *path = found["loc"]
    reason = visible(str(found["msg"]))[:TEXT_CHARS_MAX]
    if place == "body":
        pointer = "".join(f"/{_POINTER_ESCAPES.sub(_escaped, str(each))}" for each in path)
    else:
        pointer = ".".join(str(each) for each in (path if place in _PLACES else found["loc"]))
    return ProblemError(pointer=visible(pointer)[:TEXT_CHARS_MAX], detail=reason)


def _escaped(found: re.Match[str]) -> str:
    return "~0" if found[0] == "~" else "~1"
