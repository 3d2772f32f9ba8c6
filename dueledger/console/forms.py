"""Forms: their fields, and the token by which each belongs to a session."""

import hmac
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Any, Final, TypeVar, get_origin
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError

from dueledger.console.sessions import cookie_session_id, csrf_token_of, require_same_site
from dueledger.ledger.errors import InvalidBody, NotPermitted
from dueledger.service.bodies import ReadBody
from dueledger.service.calls import CallHost
from dueledger.service.routes.fields import Taken, Text, within_years, written

FIELDS_MAX: Final = 2_000
TOKEN_FIELD: Final = "csrf"  # noqa: S105 - the name of the field
STATEMENT_SECONDS: Final = 2.0
"""Time of each statement of a page; more than a page needs on any ledger."""
ACTION_SECONDS: Final = 30.0
"""Time of each statement of an action, which may count the items of a large ledger."""
SMALL_FORM_BYTES: Final = 16 * 1024
"""Of forms that need no session."""
_MINUTE: Final = len("2027-03-01T09:00")


def blank(value: object) -> object:
    """Return None for a field that was left empty."""
    return None if value == "" else value


Filter = Annotated[str | None, Text, BeforeValidator(blank)]
"""A parameter that filters a list."""
TAKEN_CHOICES: Final = ("mine", "nobody")
TAKEN_FILTERS: Final = ("tenant", "kind", "taken")
"""Parameters that filter the lists of what waits for a person."""
TakenFilter = Annotated[Taken, BeforeValidator(blank)]
"""A parameter that filters a list by who has taken what it lists."""
_Written = Annotated[datetime, BeforeValidator(written), AfterValidator(within_years)]
Moment = Annotated[_Written | None, BeforeValidator(blank)]
"""A time of a field: without a zone, as browsers send it, it is in the reader's (`in_zone`)."""
FormFields = Sequence[tuple[str, str]]
Form = TypeVar("Form", bound=BaseModel)


def in_zone(given: datetime | None, zone: tzinfo) -> datetime | None:
    """Return a time; one without a zone, as fields give it, is in the reader's."""
    return given.replace(tzinfo=zone) if given is not None and given.tzinfo is None else given


def minutes(given: str) -> str:
    """Return a time as a field of a form shows it, to the minute."""
    return given[:_MINUTE]


class FormHost(CallHost):
    """Opens calls whose bodies are forms, and limits the time of each of their statements."""

    def parse_body(self, request: Request, body: bytes) -> ReadBody:
        """Return the fields of a form.

        Raises InvalidBody; NotPermitted for one that is not of the session.
        """
        fields = read_fields(body)
        check_form(request, fields)
        request.state.form = fields
        return ReadBody(body, dict(fields))

    def statement_seconds(self, body: bytes) -> float:
        """Return the time of each statement of a page, or of an action, which has a form."""
        return ACTION_SECONDS if body else STATEMENT_SECONDS


def read_fields(raw: bytes) -> FormFields:
    """Return the fields of a form that a browser sent. Raises InvalidBody."""
    try:
        return parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise InvalidBody(f"The form cannot be read: {error}.") from None


def form_of(model: type[Form]) -> Callable[[Request], Coroutine[Any, Any, Form]]:
    """Return a dependency that reads the fields of a model; an empty field is an absent one.

    A field of several values takes all of its name, others the last. It raises
    RequestValidationError.
    """

    async def read(request: Request) -> Form:
        fields: FormFields = request.state.form
        given: dict[str, Any] = {}
        for name, field in model.model_fields.items():
            values = [value for each, value in fields if each == name and value]
            if values:
                given[name] = values if get_origin(field.annotation) is list else values[-1]
        try:
            return model.model_validate(given)
        except ValidationError as error:
            found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
            raise RequestValidationError(found) from None

    return read


def check_form(request: Request, fields: FormFields) -> None:
    """Raise NotPermitted for a form that this console did not give to the session of its cookie."""
    require_same_site(request)
    expected = csrf_token_of(cookie_session_id(request))
    given = next((value for name, value in fields if name == TOKEN_FIELD), "")
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise NotPermitted("The form is of another session. Load the page again, and repeat it.")
