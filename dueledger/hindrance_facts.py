"""What the texts of hindrances are filled with: processes, times and ends, in words."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

from dueledger.hindrances import Roles
from dueledger.ledger.states import State
from dueledger.ledger.store.processes import ProcessRole, RoleStatus

Facts = dict[str, object]
TimeText = Callable[[datetime], str]
"""Returns a time as a sentence has it."""

_KINDS_MAX: Final = 6
_SKIPPED: Final = {
    "overlap": "another item of its definition (and business key) was before it, and the "
    "definition's `overlap` skips waiting items",
    "catch_up": "it was missed, and by `catch_up` of its definition it is no longer owed",
    "calendar": "{day} is not a business day of its definition's calendar",
    "gap": "{nominal} does not exist on its day, and its definition skips such a time (`gap`)",
    "merged": "its schedule owes one item at an instant, and {into} is due at the same",
}
_DATE_CHARS: Final = 10
_SUPERSEDED: Final = {
    "version": "a newer version of its definition does not owe it",
    "tzdata": "a newer tz database does not have its local time",
}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class Phrase(NamedTuple):
    """A part of a text, with facts of its own in braces."""

    text: str
    facts: Facts


def in_utc(instant: datetime) -> str:
    """Return a time as text, in UTC."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def fill(text: str, facts: Facts, at: TimeText = in_utc) -> str:
    """Return a text with its facts; times are as `at` has them."""
    return text.format_map({name: _said(fact, at) for name, fact in facts.items()})


def _said(fact: object, at: TimeText) -> object:
    match fact:
        case datetime():
            return at(fact)
        case Phrase(text, facts):
            return fill(text, facts, at)
        case _:
            return fact


# Processes.


def last_seen(name: str | None, host: str | None, seen_at: datetime | None) -> str | Phrase:
    """Return when the last process was seen that did something; rows of others are kept an hour."""
    if seen_at is None:
        return "none was seen in the last hour"
    facts: Facts = {"name": name, "host": host, "seen": seen_at}
    return Phrase("the last one, {name} on {host}, was seen at {seen}", facts)


def last_of_role(role: RoleStatus) -> str | Phrase:
    """Return when the last process of a role was seen."""
    return last_seen(role.last_name, role.last_host, role.seen_at)


def last_of_upkeep(roles: Roles) -> str | Phrase:
    """Return when the last process was seen that does upkeep by its role."""
    both = (roles[ProcessRole.ALLOCATOR], roles[ProcessRole.DIRECT_WORKER])
    seen = [role for role in both if role.seen_at is not None]
    return last_of_role(max(seen, key=lambda role: role.seen_at or _NEVER, default=both[0]))


def silent_facts(role: RoleStatus) -> Facts:
    """Return which process of a role is silent, and since when."""
    seen_at = role.silent_since or ""
    return {"name": role.silent_name, "host": role.silent_host, "seen": seen_at}


def failing_facts(role: RoleStatus) -> Facts:
    """Return which process of a role cannot take work, since when and why."""
    since = role.failing_since or ""
    return {"name": role.failing_name, "at": since, "failure": role.failure}


def kinds_in_words(role: RoleStatus) -> str:
    """Return the first kinds that live processes of a role have handlers for."""
    more = ", …" if len(role.kinds) > _KINDS_MAX else ""
    return (", ".join(role.kinds[:_KINDS_MAX]) or "no kind") + more


# Items that ended.


def end_reason(item: Mapping[str, Any], state: State) -> str:
    """Return why an item ended, from its last transition."""
    detail = item["detail"]
    if state is State.COMPLETED:  # evidence is the handler's own: a `reason` in it means nothing
        return "it is done"
    if not isinstance(detail, dict):
        return "no reason was given"
    detail = cast("dict[str, object]", detail)
    reason = detail.get("reason")
    if not isinstance(reason, str) or not reason:
        return "no reason was given"
    if state is State.SKIPPED and reason in _SKIPPED:
        nominal = _nominal(item)
        into = str(detail.get("into", "another")).replace("T", " ")
        return _SKIPPED[reason].format(nominal=nominal, day=nominal[:_DATE_CHARS], into=into)
    if state is State.SUPERSEDED:
        reason = _SUPERSEDED.get(reason, reason)
    return reason.rstrip(".")


def _nominal(item: Mapping[str, Any]) -> str:
    """Return the nominal local time of an item as text."""
    if item["nominal"] is None:
        return item["effective_date"].isoformat()
    return f"{item['nominal'].replace('T', ' ')} in {item['zone']}"
