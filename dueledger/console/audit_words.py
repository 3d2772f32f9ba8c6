"""Words for what entries of the audit have of changed values."""

from collections.abc import Mapping
from typing import Any, cast


def words_of(members: Mapping[str, Any] | None) -> str | None:
    """Return members as text, as in `state: Scheduled, until: none`; None without any."""
    return (
        ", ".join(f"{name}: {value_words(each)}" for name, each in (members or {}).items()) or None
    )


def value_words(value: object) -> str:
    """Return a value as text: what is not there is `none`."""
    match value:
        case None | [] | {}:
            return "none"
        case bool():
            return "yes" if value else "no"
        case dict():
            return f"({words_of(cast('dict[str, Any]', value))})"
        case list():
            return ", ".join(value_words(each) for each in cast("list[object]", value))
        case _:
            return f"{value}"
