"""Where the documents of AWS, SAM and Terraform have schedules.

A schedule is any object with an expression, or a `Schedule` event of a function. Expressions in
other places are found too, so that none vanishes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from dueledger.importers.source_job import hashed_name

EXPRESSION: Final = re.compile(r"\s*(?P<kind>cron|rate|at)\((?P<inner>[^()]{1,200})\)\s*", re.ASCII)

_WORDS: Final = re.compile(r"(?:^|_)([a-z0-9])")
_SCHEDULE_ARN: Final = re.compile(r"arn:aws[a-z-]{0,20}:scheduler:", re.ASCII)
_EVENT_TYPES: Final = frozenset(("Schedule", "ScheduleV2"))
_PLAN: Final = "planned_values"
_RESOURCE: Final = re.compile(r"AWS::[A-Za-z]+::[A-Za-z]+|aws_[a-z0-9_]+", re.ASCII)
_OF_EVENTBRIDGE: Final = frozenset(
    (
        *("AWS::Events::Rule", "AWS::Scheduler::Schedule"),
        *("aws_cloudwatch_event_rule", "aws_scheduler_schedule"),
    )
)
_OF_SAM: Final = "AWS::Serverless::"
"""Its functions have schedules as events."""


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """An object with an expression, its fields as AWS names them, and the key that leads to it.

    `function` is the one whose event it is, `foreign` the type of a resource of another service. Of
    an expression outside a schedule, `stray` is true.
    """

    where: str
    key: str
    fields: Mapping[str, object]
    function: str | None = None
    foreign: str | None = None
    stray: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    where: str
    key: str = ""
    function: str | None = None
    foreign: str | None = None
    in_list: bool = False


def find_schedules(document: object, where: str) -> Iterator[FoundSchedule]:
    """Yield each schedule, those that were listed without their expression, and rules for events.

    `document` nests no deeper than `read_documents` permits.
    """
    yield from _walk(document, _Place(where))


def block_fields(value: object) -> dict[str, object]:
    """Return a block: Terraform has it as a list of one, and names it in another way."""
    if isinstance(value, list):
        members = cast("list[object]", value)
        value = members[0] if members else None
    if not isinstance(value, dict):
        return {}
    block = cast("dict[object, object]", value)
    return {_pascal(name): each for name, each in block.items() if isinstance(name, str)}


def _pascal(name: str) -> str:
    """Return a field as AWS names it: Terraform has `schedule_expression`."""
    return _WORDS.sub(lambda found: found[1].upper(), name) if name.islower() else name


def _walk(value: object, at: _Place) -> Iterator[FoundSchedule]:
    if isinstance(value, str) and EXPRESSION.fullmatch(value):
        yield FoundSchedule(at.where, at.key, {}, stray=True)
    elif isinstance(value, list):
        for place, member in enumerate(cast("list[object]", value)):
            inner = replace(at, where=f"{at.where}[{place}]", in_list=True)
            yield from _walk(member, inner)
    elif isinstance(value, dict):
        yield from _walk_object(cast("dict[object, object]", value), at)


def _walk_object(members: Mapping[object, object], at: _Place) -> Iterator[FoundSchedule]:
    fields = block_fields(members)
    foreign = _other_service(fields.get("Type")) or at.foreign
    event = block_fields(members.get("Properties"))
    if at.function and fields.get("Type") in _EVENT_TYPES:
        event.setdefault("ScheduleExpression", event.get("Schedule"))
        yield FoundSchedule(at.where, at.key, event, at.function)
        return
    if {"ScheduleExpression", "EventPattern"} & fields.keys() or _is_listed(fields):
        key = hashed_name(at.key or "schedule", repr(members)) if at.in_list else at.key
        yield FoundSchedule(at.where, key, fields, foreign=foreign)
        return
    if _PLAN in members:  # Terraform's plan has each resource several times
        members = {_PLAN: members[_PLAN]}
    named = members.get("name") or members.get("logicalId")
    for name, member in members.items():
        # Terraform's `values`, CloudFormation's `Properties`: the key above is the name.
        inner = at.key if name in {"Properties", "values"} else str(name)
        if name == "values" and isinstance(named, str):
            inner = named
        if isinstance(member, str) and at.key:
            inner = f"{at.key}.{name}"  # of an expression outside a schedule
        if name == "Events" and isinstance(member, dict):
            for event_name, each in cast("dict[object, object]", member).items():
                # SAM names it in this way, too.
                yield from _walk(each, _Place(at.where, f"{at.key}{event_name}", at.key))
        else:
            of = _other_service(name) or foreign
            yield from _walk(member, _Place(at.where, inner, foreign=of))


def _other_service(name: object) -> str | None:
    """Return the type of a resource if EventBridge does not have it."""
    if not isinstance(name, str) or not _RESOURCE.fullmatch(name):
        return None
    return None if name in _OF_EVENTBRIDGE or name.startswith(_OF_SAM) else name


def _is_listed(fields: Mapping[str, object]) -> bool:
    arn = fields.get("Arn")
    return isinstance(arn, str) and bool(_SCHEDULE_ARN.match(arn)) and "Target" in fields
