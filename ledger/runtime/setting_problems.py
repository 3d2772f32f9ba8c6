"""Settings read from the environment and from options, and what is wrong with them."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsError

from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.runtime.dsn_file import DSN_ACCEPTED

_SETTING: Final = re.compile(r'field "(\w+)"')

_ACCEPTED: Final = {
    "dsn": DSN_ACCEPTED,
    "bootstrap_servers": "host:port, or several with commas between them",
    "worker_topics": '["due.PolicyRenewalDue"]',
    "topic_tenants": '{"acme.": "acme"}',
}

_S = TypeVar("_S", bound=BaseSettings)


def read_settings(settings: type[_S], **options: object) -> _S:
    """Read settings from the environment; options override it, unless they are None.

    Raises InvalidSetting, which names the settings and not their values.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return settings(**given)  # pyright: ignore[reportArgumentType] - fields are checked by pydantic
    except ValidationError as error:
        problems = [_problem_of(found) for found in error.errors(include_input=False)]
        raise InvalidSetting("Settings are missing or wrong:", problems) from None
    except SettingsError as error:
        named = _SETTING.search(str(error))
        setting = named[1] if named else ""
        problem = _problem((setting,), "it is not JSON, as a list or a map must be")
        raise InvalidSetting("Settings are missing or wrong:", [problem]) from None


def require_known(names: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidSetting for names that are no setting.

    The environment may have those of others, a call may not.
    """
    problems = [
        Problem(
            name, "", "there is no such setting", ", ".join(get_close_matches(name, known, n=1))
        )
        for name in names
        if name not in known
    ]
    if problems:
        raise InvalidSetting("Settings are missing or wrong:", problems)


def _problem_of(found: ErrorDetails) -> Problem:
    context = found.get("ctx", {})
    if "variable" in context:  # settings that contradict each other
        return Problem(context["variable"], "", context["reason"], context["accepted"])
    return _problem(found["loc"], found["msg"])


def _problem(location: tuple[int | str, ...], reason: str) -> Problem:
    """Name the variable, not the value, which may be a secret."""
    name = str(location[0]) if location else ""
    variable = f"DUELEDGER_{name.removeprefix('DUELEDGER_').removeprefix('dueledger_')}".upper()
    return Problem(variable, "", reason, _ACCEPTED.get(name))
