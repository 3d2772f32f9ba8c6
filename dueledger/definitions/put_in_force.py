"""Put definitions in force: check them together, compare, write versions."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from dueledger.definitions.approval_change import check_approval
from dueledger.definitions.diff import DefinitionDiff, VersionSpan, compare
from dueledger.definitions.files import SINGLE_FILE, DefinitionFiles, location_of
from dueledger.definitions.named_calendars import add_ledger_calendars, check_reach, check_rolls
from dueledger.definitions.redaction_change import add_kept_fields, change_redaction
from dueledger.definitions.topic_rules import ANY_TOPIC, TopicRules, check_topic_uses, check_topics
from dueledger.ledger.definitions.http_dispatch import http_topic
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.definitions.policies import START_MAX, STREAK_MAX
from dueledger.ledger.errors import InvalidDefinition, InvalidInput, Problem, shown_value
from dueledger.ledger.materialise.schedule_calendars import CalendarPeriods, read_calendar_periods
from dueledger.ledger.schedule import RECURRING
from dueledger.ledger.schedule.falls_due import YEARS_SEARCHED, ever_due
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import (
    CalendarCache,
    calendar_name_of,
    calendars_of_tenant,
)
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.definitions import DefinitionVersion, define, list_versions
from dueledger.ledger.store.kinds import (
    KindPolicy,
    list_kind_policies,
    lock_reordered_flows,
    put_kind_policy,
)
from dueledger.ledger.store.lock_wait import limit_lock_wait
from dueledger.ledger.store.schedule_keys import SharedKey, list_shared_keys

_PAST_MAX: Final = timedelta(days=366)
_KIND_POLICIES_MAX: Final = 1_000
_LOCK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class DefinedDocument:
    """The result for one document. `changed` is False if the ledger had the same document."""

    tenant: str
    definition: str
    version: int
    changed: bool


@dataclass(frozen=True, slots=True)
class ChangePreview:
    """What one document would change, and which pending versions it would supersede."""

    diff: DefinitionDiff
    superseded: tuple[int, ...]


async def put_in_force(
    connection: Connection,
    definitions: Sequence[Definition],
    *,
    actor_no: int,
    effective_from: datetime | None = None,
    backfill: bool = False,
    sources: DefinitionFiles = SINGLE_FILE,
    topic_rules: TopicRules = ANY_TOPIC,
    lock_seconds: float = _LOCK_SECONDS,
    may_loosen: bool = False,
) -> list[DefinedDocument]:
    """Define all documents in one transaction. The same documents again change nothing.

    `sources` are the files that problems name, if there are several. A definition that does not
    say which fields its kind redacts gets those that the kind has.

    Raises InvalidInput if `effective_from` is outside the supported years; if a schedule would owe
    more than a year of the past without `backfill`; if `topic_rules` give a topic to somebody else;
    if two definitions of one kind, here or in the ledger, differ in how its items are handed out;
    or if two schedules of one kind have the same business key. Raises NotPermitted if a kind would
    redact less, or ask less often for a second person, without `may_loosen`; Conflict if another
    session is defining the same for more than `lock_seconds`; and InvalidDefinition if one names a
    calendar that does not exist or rolls too much onto a day, or needs days after its last.
    """
    check_topics(definitions, topic_rules, sources)
    if effective_from is not None:
        scheduled = any(one.is_schedule for one in definitions)
        earliest = await read_now(connection) - _PAST_MAX if scheduled and not backfill else None
        _check_effective_from(effective_from, earliest)
    now = await read_now(connection)
    definitions = await add_ledger_calendars(connection, definitions, sources)
    check_reach(definitions, effective_from or now, now, sources)
    check_rolls(definitions, sources)
    # Those that have ended decide nothing of their kind; those that say what it redacts are first.
    owing = [one for one in definitions if not one.ended]
    saying = sorted(owing, key=lambda one: one.redacted_fields is None)
    _check_together(saying, sources)
    policies: dict[tuple[str, str], KindPolicy] = {}
    for one in saying:
        policies.setdefault((one.tenant, one.kind), _policy(one))
    # Always in the same order, so that two sessions cannot deadlock.
    in_order = sorted(range(len(definitions)), key=lambda place: _name(definitions[place]))
    results: dict[int, DefinedDocument] = {}
    async with connection.transaction():
        await limit_lock_wait(connection, lock_seconds)
        await lock_reordered_flows(connection, policies.values())
        for kind in sorted(policies):
            put = await put_kind_policy(connection, policies[kind])
            check_approval(policies[kind], put, may_loosen=may_loosen)
            await change_redaction(
                connection, policies[kind], put, actor_no=actor_no, may_drop=may_loosen
            )
        definitions = await add_kept_fields(connection, definitions)
        owing = [one for one in definitions if not one.ended]
        for kind in sorted(policies):
            # The kind is locked: two sessions that define one kind see each other's definitions.
            await _check_against_ledger(connection, definitions, kind, sources)
        await check_topic_uses(connection, definitions, sources, topic_rules)
        for place in in_order:
            results[place] = await _define(connection, definitions[place], actor_no, effective_from)
        # No other session can have written since: the kinds are locked.
        for kind in sorted(policies):
            await _check_keys(connection, owing, kind, sources)
    return [results[place] for place in range(len(definitions))]


async def preview_change(
    connection: Connection, definition: Definition, effective_from: datetime | None
) -> ChangePreview:
    """Compare what a definition would owe, from `effective_from` or now on, with what is owed.

    The comparison begins now if that is in the past. What is materialised is as its calendar was
    then; the rest of the recorded definitions uses the newest versions of their calendars.
    """
    tenant = definition.tenant
    versions = await list_versions(
        connection, tenant, definition.definition, newest_only=True, limit=_KIND_POLICIES_MAX
    )
    named = {
        (tenant, name) for each in versions if (name := calendar_name_of(each.document)) is not None
    }
    calendars = calendars_of_tenant(
        await CalendarCache().newest_versions(connection, named), tenant
    )
    now = await read_now(connection)
    since = now if effective_from is None else effective_from
    used = await read_calendar_periods(connection, versions) if named else {}
    spans: list[tuple[int, VersionSpan]] = []
    for each in reversed(versions):
        with suppress(InvalidDefinition):  # an unreadable version owes nothing that could be shown
            read = parse_definition(each.document, source=each.name, calendars=calendars)
            spans += [
                (each.version, span) for span in _spans(each, read, used.get(each.definition_no))
            ]
    superseded = tuple(
        each.version for each in reversed(versions) if each.effective_from >= max(since, now)
    )
    # In a thread: a minute's cron against its version before takes 0.8 s of CPU.
    compared = await asyncio.to_thread(compare, spans, definition, max(since, now))
    return ChangePreview(compared, superseded)


def _spans(
    version: DefinitionVersion, newest: Definition, used: CalendarPeriods | str | None
) -> Iterator[VersionSpan]:
    """Yield a version with each calendar that placed its items; `newest` places those to come."""
    begins = version.effective_from
    materialised_until = max(version.materialised_until or begins, begins)
    if isinstance(used, list):
        last = min(materialised_until, version.superseded_at or materialised_until)
        froms = [begins, *(max(from_at, begins) for from_at, _ in used[1:]), last]
        for (_, definition), (start, end) in zip(used, pairwise(froms), strict=True):
            yield definition, start, min(end, last)
        begins = materialised_until
    yield newest, begins, version.superseded_at


def describe_idle(definition: Definition, since: datetime) -> str | None:
    """Return a note if a schedule owes nothing after an instant, else None.

    It is not refused: a file that is defined repeatedly may have schedules that have ended.
    """
    when = definition.when
    if not isinstance(when, RECURRING) or ever_due(when, definition.observance(), since):
        return None
    name = f"{definition.tenant}/{definition.definition}"
    shown = since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return f"{name}: nothing is due from {shown} on, for at least {YEARS_SEARCHED} years"


def _check_effective_from(effective_from: datetime, earliest: datetime | None) -> None:
    """Refuse a start that is probably a typing error in the year: it would flood the ledger."""
    if not DUE_MIN <= effective_from < DUE_END:
        reason = f"outside {DUE_MIN.year} to {DUE_END.year - 1}"
    elif earliest is not None and effective_from < earliest:
        reason = (
            f"more than {_PAST_MAX.days} days ago: a schedule would owe all since then. "
            "If that is intended, give --backfill"
        )
    else:
        return
    problem = Problem("--effective-from", effective_from.isoformat(), reason)
    raise InvalidInput("The definitions cannot be put in force:", [problem])


def _name(definition: Definition) -> tuple[str, str]:
    return definition.tenant, definition.definition


async def _define(
    connection: Connection, definition: Definition, actor_no: int, effective_from: datetime | None
) -> DefinedDocument:
    result = await define(
        connection,
        definition.normalised(),
        tenant=definition.tenant,
        name=definition.definition,
        kind=definition.kind,
        event_type=definition.event,
        effective_from=effective_from,
        actor_no=actor_no,
    )
    return DefinedDocument(definition.tenant, definition.definition, result.version, result.changed)


def _check_together(definitions: Sequence[Definition], sources: DefinitionFiles) -> None:
    """Refuse definitions of one kind that differ in dispatch, retries or settlement."""
    found: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for definition in definitions:
        parts = _parts(definition)
        path = sources.get(_name(definition))
        shown = definition.definition + ("" if path is None else f" in {path}")
        other, its_parts = found.setdefault((definition.tenant, definition.kind), (shown, parts))
        _check_parts(definition, parts, (other, its_parts), sources)


async def _check_against_ledger(
    connection: Connection,
    definitions: Sequence[Definition],
    kind: tuple[str, str],
    sources: DefinitionFiles,
) -> None:
    """Refuse a definition that contradicts another definition of its kind in the ledger."""
    ours = [one for one in definitions if (one.tenant, one.kind) == kind and not one.ended]
    names = [one.definition for one in definitions if one.tenant == kind[0]]
    for other in (await list_kind_policies(connection, *kind, names)).items():
        _check_parts(ours[0], _parts(ours[0]), other, sources)


async def _check_keys(
    connection: Connection,
    definitions: Sequence[Definition],
    kind: tuple[str, str],
    sources: DefinitionFiles,
) -> None:
    """Refuse a schedule with another's business key: both would owe the same items."""
    ours = {one.definition: one for one in definitions if (one.tenant, one.kind) == kind}
    shared = await list_shared_keys(connection, *kind, list(ours))
    if shared:
        places = {name: place for place, name in enumerate(ours)}
        problems = [
            Problem(
                f"{location_of(ours[each.name], sources)}.business_key",
                shown_value(each.business_key),
                f"{_shared_key_text(each)}, and the key is part of the identity of its items",
                "another key",
            )
            for each in shared
            if places[each.name] > places.get(each.other, -1)  # of two here, the later one
        ]
        raise InvalidInput("The definitions cannot be put in force:", problems)


def _shared_key_text(shared: SharedKey) -> str:
    until = f" until {shared.until_at.isoformat()}" if shared.until_at else ""
    return f"the schedule {shared.other} of this kind has this key{until}"


def _parts(definition: Definition) -> dict[str, Any]:
    """Return the parts of a definition that apply to its whole kind."""
    parts = definition.model_dump(
        mode="json",
        exclude_none=True,
        include={"dispatch", "retry", "deadlines", "order", "operations", "redacted_fields"},
    )
    for way in parts["dispatch"].values():
        way.pop("partition_key", None)
    return parts


def _check_parts(
    definition: Definition,
    parts: Mapping[str, Any],
    other: tuple[str, Mapping[str, Any]],
    sources: DefinitionFiles,
) -> None:
    name, its_parts = other
    for part, said in parts.items():
        if its_parts.get(part) not in (None, said):
            problem = Problem(
                f"{location_of(definition, sources)}.{part}",
                "",
                f"differs from the {part} that {name} has for {definition.kind}",
                f"the same {part} in both, or another kind; to change it, define both at "
                "once: `dueledger define FILE FILE`",
            )
            raise InvalidInput("The definitions cannot be put in force:", [problem])


def _policy(definition: Definition) -> KindPolicy:
    retry, deadlines = definition.retry, definition.deadlines
    kafka, http = definition.dispatch.kafka, definition.dispatch.http
    lease = None if kafka is None else kafka.lease
    topic = None if kafka is None else kafka.topic
    return KindPolicy(
        definition.tenant,
        definition.kind,
        topic=topic if http is None else http_topic(definition.tenant, definition.kind),
        dispatch=definition.dispatch.method,
        http=None if http is None else http.model_dump(mode="json", exclude_none=True),
        settled_by="worker" if kafka is None else kafka.settled_by,
        outcome_topic=None if kafka is None else kafka.outcome_topic,
        compression=None if kafka is None else kafka.compression,
        lease_seconds=None if lease is None else _whole_seconds(lease),
        attempt_max=retry.attempt_max,
        start_max=retry.start_max or max(START_MAX, retry.attempt_max),
        streak_max=retry.streak_max or STREAK_MAX,
        backoff_base_seconds=retry.base.total_seconds(),
        backoff_cap_seconds=retry.cap.total_seconds(),
        total_seconds=None if retry.deadline is None else retry.deadline.total_seconds(),
        dispatch_seconds=_whole_seconds(deadlines.dispatch),
        queue_seconds=_whole_seconds(deadlines.queue),
        queue_late=deadlines.queue_late,
        run_seconds=None if deadlines.run is None else deadlines.run.total_seconds(),
        run_late=deadlines.run_late,
        ordering="key" if definition.order.by == "partition_key" else "none",
        failure_holds=definition.order.failure == "hold",
        no_replay=retry.no_replay,
        redacted_fields=definition.redacted_fields,
        operation_approval_above=definition.operations.approval_above,
    )


def _whole_seconds(period: timedelta) -> int:
    return max(1, round(period.total_seconds()))
