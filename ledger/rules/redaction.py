"""Payloads as people and reading clients see them, without the fields that their kind redacts.

Handlers and the reconciler get payloads whole. Pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import orjson

REDACTED: Final = "[redacted]"
WHOLE: Final = ""
"""The JSON Pointer to all of a payload."""

_EVERY: Final = "*"
_TERMS: Final = ("expected", "actual", "terms")
_STEPS: Final = ("detail", "evidence")


@dataclass(slots=True)
class _Names:
    """What fields name at one level; `end` is the field that ends here."""

    end: str | None = None
    following: dict[str, "_Names"] = field(default_factory=dict[str, "_Names"])


def redact_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row to show, of which `redacted_fields` are its kind's; they become those found.

    Redacted are its payload, that of each side of a finding, and the one before a revision. The
    names in which both sides of a finding differ become `differing`: redacted they may be alike.
    """
    shown = dict(row)
    if "expected" in shown and "actual" in shown:
        shown["differing"] = _differing(shown["expected"], shown["actual"])
    fields = shown.pop("redacted_fields") or ()
    for name in _TERMS:
        if name in shown:
            shown[name] = _without(shown[name], fields)
    for name in _STEPS:
        if isinstance(step := shown.get(name), dict) and "before" in step:
            shown[name] = {**step, "before": _without(step["before"], fields)}
    if "payload" in shown:
        shown["payload"], shown["redacted_fields"] = redact(shown["payload"], fields)
    return shown


def redact(payload: str, fields: Sequence[str]) -> tuple[str, list[str]]:
    """Return JSON text with REDACTED in place of the fields, and those of them that it has.

    A field is a JSON Pointer (RFC 6901), in which `*` is each element of an array, and each member
    of an object. Of a name that an object has twice, the last is kept, as the pointer means it.
    Numbers stay to the letter. A payload that cannot be read, or written again, is redacted whole.
    """
    if not fields:
        return payload, []
    kept = orjson.Fragment
    try:
        read = json.loads(payload, parse_int=kept, parse_float=kept, parse_constant=_no_number)
        root = [read]
        found = _replace(root, fields)
        return orjson.dumps(root[0]).decode(), found
    except (ValueError, TypeError, RecursionError):
        return orjson.dumps(REDACTED).decode(), [WHOLE]


def members_of_side(side: object) -> dict[str, object]:
    """Return what a side of a finding says by name; what is no object has an empty one."""
    if isinstance(side, dict):
        return cast("dict[str, object]", side)
    return {} if side is None else {"": side}


def _differing(expected: object, actual: object) -> list[str]:
    sides = members_of_side(expected), members_of_side(actual)
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [each for each in names if sides[0].get(each) != sides[1].get(each)]


def dropped_fields(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the fields of `before` of which `after` would show some value."""
    kept = [_tokens(each) for each in after]
    return [each for each in before if not any(_covers(one, _tokens(each)) for one in kept)]


def _covers(field: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a field names all values that another one names, or what they are in."""
    return len(field) <= len(other) and all(
        mine in {_EVERY, its} for mine, its in zip(field, other, strict=False)
    )


def redacted_values(payload: str, fields: Sequence[str]) -> list[str] | None:
    """Return the texts and numbers that fields name, as the payload has them; None: unreadable."""
    hidden: list[object] = []
    try:
        read = json.loads(payload, parse_int=str, parse_float=str, parse_constant=_no_number)
        _replace([read], fields, hidden)
    except (ValueError, TypeError, RecursionError):
        return None
    found: list[str] = []
    while hidden:
        value = hidden.pop()
        if isinstance(value, str):
            found.append(value)
        hidden += [cast("Any", value)[name] for name in _keys(value)]
    return found


def _replace(
    root: list[Any], fields: Sequence[str], hidden: list[object] | None = None
) -> list[str]:
    """Replace what the fields name, in one walk; return those that name something.

    What is replaced is added to `hidden`.
    """
    found = set[str]()
    waiting: list[tuple[Any, Any, list[_Names]]] = [(root, 0, [_names_of(fields)])]
    while waiting:
        holder, key, names = waiting.pop()
        if ended := [each.end for each in names if each.end is not None]:
            if hidden is not None:
                hidden.append(holder[key])
            holder[key] = REDACTED
            found.update(ended)
            continue
        value = holder[key]
        for name in _keys(value):
            following = [
                each.following[wanted]
                for each in names
                for wanted in {_EVERY, str(name)}
                if wanted in each.following
            ]
            if following:
                waiting.append((value, name, following))
    return [each for each in dict.fromkeys(fields) if each in found]


def _keys(value: object) -> Iterable[Any]:
    """Return the names of an object's members, or the places of an array's elements."""
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    return range(len(cast("list[object]", value))) if isinstance(value, list) else ()


def _names_of(fields: Sequence[str]) -> _Names:
    """Return the names of the fields, those that begin alike together."""
    first = _Names()
    for each in fields:
        names = first
        for name in _tokens(each):
            names = names.following.setdefault(name, _Names())
        names.end = each
    return first


def _tokens(field: str) -> list[str]:
    """Return the names in a JSON Pointer."""
    return [each.replace("~1", "/").replace("~0", "~") for each in field.split("/")[1:]]


def _without(terms: object, fields: Sequence[str]) -> object:
    """Return terms whose payload is redacted, if they have one: it is JSON as text."""
    named = cast("dict[str, object]", terms) if isinstance(terms, dict) else {}
    payload = named.get("payload")
    return {**named, "payload": redact(payload, fields)[0]} if isinstance(payload, str) else terms


def _no_number(name: str) -> object:
    message = f"{name} is no JSON"
    raise ValueError(message)
