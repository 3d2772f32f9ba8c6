"""Routes of definitions: read, change, pause, trigger."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import Body, Path, Query, Response

from dueledger.audited_changes import pause_detail, resume_detail, version_detail
from dueledger.definitions.change import (
    DefinitionRequest,
    PlannedChanges,
    doubts,
    plan_changes,
)
from dueledger.definitions.named_calendars import add_ledger_calendars
from dueledger.definitions.second_opinion import check_agreement
from dueledger.definitions.topic_rules import TopicSettings
from dueledger.definitions.trigger import trigger_definition
from dueledger.items import page_executions
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidDefinition, NotFound, PreconditionFailed, Problem
from dueledger.ledger.schedule import ScheduleWindow
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.definitions import (
    DefinitionVersion,
    VersionPlace,
    list_versions,
)
from dueledger.ledger.store.flows import FlowScope, pause_flows, resume_flows
from dueledger.ledger.store.item_lists import ItemPlace
from dueledger.preview.occurrences import preview_definition, preview_document, preview_smears
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer
from dueledger.service.pages import PAGE_BYTES_MAX, CurrentPage
from dueledger.service.routes.definition_documents import (
    EXAMPLE,
    DefinitionChangeDocument,
    DefinitionDocument,
    DefinitionPage,
    ExecutionDocument,
    ExecutionPage,
    Occurrences,
    PauseChange,
    PauseRequest,
    TriggeredItem,
    TriggerRequest,
)
from dueledger.service.routes.fields import Instant, OldestFirst, TenantPath, Text
from dueledger.service.schedule_times import DAYS_AHEAD
from dueledger.service.scoped_routes import ScopedRoutes
from dueledger.service.versions import IfMatch, IfNoneMatch, answer_version, check_match

read = ScopedRoutes(Scope.READ, "definitions")
operate = ScopedRoutes(Scope.OPERATE, "definitions")

OCCURRENCES_MAX = 100
_EXAMINED_MAX = 5_000
_PATH = "/v1/definitions/{tenant}/{name}"
_VERSION_KEYS = {"tenant": str, "definition": str, "version": int}
"""The keys of a row by which a page goes on."""

NamePath = Annotated[str, Path(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


@read.add("GET", "/v1/definitions", "listDefinitions", DefinitionPage)
async def list_definitions(
    call: CurrentCall,
    page: CurrentPage,
    *,
    tenant: Annotated[str | None, Text] = None,
    kind: Annotated[str | None, Text] = None,
) -> Response:
    """List the versions of definitions that are in force or to come, by tenant and name."""

    async def read_some(limit: int, after: VersionPlace | None) -> list[dict[str, Any]]:
        versions = await list_versions(
            call.connection,
            tenant,
            None,
            newest_only=True,
            limit=limit,
            tenants=call.tenants,
            kind=kind,
            after=after,
        )
        return [_version_row(each) for each in versions]

    return await page.answer_large(DefinitionDocument, read_some, VersionPlace, _VERSION_KEYS)


@read.add("GET", _PATH, "getDefinition", DefinitionDocument)
async def get_definition(
    call: CurrentCall, tenant: TenantPath, name: NamePath, if_none_match: IfNoneMatch = None
) -> Response:
    """Read the newest version of a definition. Its ETag is what a change of it names."""
    newest = (await versions_of(call.connection, tenant, name, 1))[0]
    return answer_version(_version_row(newest), newest.version, if_none_match)


@read.add("GET", f"{_PATH}/versions", "listDefinitionVersions", DefinitionPage)
async def list_definition_versions(
    call: CurrentCall, page: CurrentPage, tenant: TenantPath, name: NamePath
) -> Response:
    """List all versions of a definition, the newest first."""

    async def read_some(limit: int, after: VersionPlace | None) -> list[dict[str, Any]]:
        versions = await list_versions(
            call.connection, tenant, name, newest_only=False, limit=limit, after=after
        )
        if not versions and after is None:
            raise _unknown(tenant, name)
        return [_version_row(each) for each in versions]

    return await page.answer_large(DefinitionDocument, read_some, VersionPlace, _VERSION_KEYS)


@read.add("GET", f"{_PATH}/executions", "listExecutions", ExecutionPage)
async def list_executions(
    call: CurrentCall,
    page: CurrentPage,
    tenant: TenantPath,
    name: NamePath,
    *,
    oldest_first: OldestFirst = False,
) -> Response:
    """List the items of a definition with durations and evidence, latest effective date first.

    With `oldest_first` the earliest.
    """
    await versions_of(call.connection, tenant, name, 1)
    found = await page_executions(
        call.connection,
        tenant,
        name,
        limit=page.limit,
        after=page.place(ItemPlace, date, int),
        examined_max=_EXAMINED_MAX,
        bytes_max=PAGE_BYTES_MAX,
        oldest_first=oldest_first,
    )
    return page.answer(ExecutionDocument, found.items, found.next_place)


@read.add("GET", f"{_PATH}/occurrences", "listOccurrences", Occurrences)
async def list_occurrences(
    call: CurrentCall,
    tenant: TenantPath,
    name: NamePath,
    count: Annotated[int, Query(ge=1, le=OCCURRENCES_MAX)] = 10,
    since: Annotated[Instant | None, Query(alias="from")] = None,
) -> Response:
    """List the next times at which the newest version of a schedule is due, within ten years."""
    newest = (await versions_of(call.connection, tenant, name, 1))[0]
    definition = parse_definition(newest.document, source=name, calendars=None)
    (definition,) = await add_ledger_calendars(call.connection, [definition])
    if not definition.is_schedule or definition.ended:
        return answer({"occurrences": [], "skipped": []})
    window = await next_occurrences(
        definition, since or max(newest.now, newest.effective_from), count
    )
    return answer(preview_document(window, preview_smears(definition, window)))


async def next_occurrences(definition: Definition, since: datetime, count: int) -> ScheduleWindow:
    """Return the next times at which a schedule is due, within ten years."""
    return await asyncio.to_thread(
        preview_definition,
        definition,
        since=since,
        until=since + DAYS_AHEAD,
        effective_date=None,
        count=count,
    )


@operate.add("PUT", _PATH, "putDefinition", DefinitionChangeDocument)
async def put_definition(
    call: CurrentCall,
    tenant: TenantPath,
    name: NamePath,
    document: Annotated[dict[str, Any], Body(examples=[EXAMPLE])],
    if_match: IfMatch = None,
    *,
    effective_from: Instant | None = None,
    backfill: bool = False,
    accept_disagreement: Annotated[str | None, Text] = None,
) -> Response:
    """Put a definition in force: its first version, or the next. The same again changes nothing.

    A disagreement of a library that expands its schedule otherwise is refused without a reason to
    accept it. `backfill` owes the items since `effective_from`, however long ago.
    """
    versions = await list_versions(call.connection, tenant, name, newest_only=False, limit=1)
    version = versions[0].version if versions else None
    check_match(if_match, version)
    planned = await _plan(call, tenant, name, document, effective_from, backfill=backfill)
    [change] = planned.changes
    if change.defined.version not in {version, (version or 0) + 1}:
        raise PreconditionFailed("Somebody changed it at the same time. Read it again.")
    opinions = await planned.ask_witness()
    notes = await planned.describe(call.connection) + doubts(opinions)
    await planned.apply(call.connection, opinions, accept_disagreement)
    defined = change.defined
    call.note_change(is_changed=defined.changed, **version_detail(defined.version))
    return answer_version({**change.document(), "notes": notes}, change.defined.version)


@operate.add(
    "POST",
    f"{_PATH}/preview",
    "previewDefinition",
    DefinitionChangeDocument,
    is_audited=False,
)
async def preview_definition_change(
    call: CurrentCall,
    tenant: TenantPath,
    name: NamePath,
    document: Annotated[dict[str, Any], Body(examples=[EXAMPLE])],
    *,
    effective_from: Instant | None = None,
    backfill: bool = False,
) -> Response:
    """Compute what a document would change, with the checks of putting it; change nothing."""
    planned = await _plan(call, tenant, name, document, effective_from, backfill=backfill)
    opinions = await planned.ask_witness()
    notes = await planned.describe(call.connection) + doubts(opinions)
    check_agreement(opinions)
    return answer({**planned.changes[0].document(), "notes": notes})


@operate.add("POST", f"{_PATH}/pause", "pauseDefinition", PauseChange)
async def pause_definition(
    call: CurrentCall, tenant: TenantPath, name: NamePath, asked: PauseRequest
) -> Response:
    """Stop handing out items of the definition's kind, those of other definitions of it, too."""
    scope = await flow_scope_of(call.connection, tenant, name)
    paused = await pause_flows(
        call.connection,
        scope,
        reason=asked.reason,
        actor_no=call.caller.actor_no,
        until=asked.until,
    )
    is_changed = bool(paused.pauses or paused.flows)
    call.note_change(is_changed=is_changed, **pause_detail(paused, asked.until))
    return answer({"pauses": paused.pauses, "flows": paused.flows})


@operate.add("POST", f"{_PATH}/resume", "resumeDefinition", PauseChange)
async def resume_definition(call: CurrentCall, tenant: TenantPath, name: NamePath) -> Response:
    """End the pause of the definition's kind, and those of its lanes."""
    scope = await flow_scope_of(call.connection, tenant, name)
    resumed = await resume_flows(call.connection, scope, actor_no=call.caller.actor_no)
    is_changed = bool(resumed.pauses or resumed.flows)
    call.note_change(is_changed=is_changed, **resume_detail(resumed))
    flows = [
        {"tenant": each.tenant, "kind": each.kind, "lane": each.lane, "reason": each.pause_reason}
        for each in resumed.flows
    ]
    return answer({"pauses": resumed.pauses, "flows": flows})


@operate.add(
    "POST", f"{_PATH}/trigger", "triggerDefinition", TriggeredItem, takes_idempotency_key=True
)
async def trigger(
    call: CurrentCall, tenant: TenantPath, name: NamePath, asked: TriggerRequest
) -> Response:
    """Owe one item of a schedule now, beside its own occurrences."""
    made = await trigger_definition(
        call.connection,
        tenant,
        name,
        cycle=asked.cycle,
        reason=asked.reason,
        actor_no=call.caller.actor_no,
    )
    call.note_change(is_changed=made.created, cycle=made.cycle, item=made.id)
    return answer(
        {"id": made.id, "created": made.created, "cycle": made.cycle, "state": made.state}
    )


async def _plan(
    call: ApiCall,
    tenant: str,
    name: str,
    document: dict[str, Any],
    effective_from: datetime | None,
    *,
    backfill: bool,
) -> PlannedChanges:
    named = {"tenant": tenant, "definition": name}
    others = [
        Problem(field, "", "differs from the path", given)
        for field, given in named.items()
        if document.get(field, given) != given
    ]
    if others:
        raise InvalidDefinition("The definition is another one:", others)
    definition = parse_definition({**named, **document}, source="body", calendars=None)
    return await plan_definitions(call, [definition], effective_from, backfill=backfill)


async def plan_definitions(
    call: ApiCall,
    definitions: Sequence[Definition],
    effective_from: datetime | None,
    *,
    backfill: bool = False,
) -> PlannedChanges:
    """Compute what these definitions would change, and change nothing.

    Raises InvalidDefinition, and what `plan_changes` raises.
    """
    request = DefinitionRequest(
        definitions=await add_ledger_calendars(call.connection, definitions),
        effective_from=effective_from,
        backfill=backfill,
        topic_rules=replace(TopicSettings().rules(), shown_tenants=call.tenants),
        actor_no=call.caller.actor_no,
        may_loosen=Scope.APPROVE in call.caller.scopes,
    )
    return await plan_changes(call.connection, request)


async def flow_scope_of(connection: Connection, tenant: str, name: str) -> FlowScope:
    """Return the flows of a definition's kind. Raises NotFound."""
    return FlowScope(tenant, (await versions_of(connection, tenant, name, 1))[0].kind)


async def versions_of(
    connection: Connection, tenant: str, name: str, limit: int
) -> list[DefinitionVersion]:
    """Return the versions of a definition, the newest first. Raises NotFound."""
    found = await list_versions(connection, tenant, name, newest_only=False, limit=limit)
    if not found:
        raise _unknown(tenant, name)
    return found


def _unknown(tenant: str, name: str) -> NotFound:
    return NotFound(f"There is no definition {tenant}/{name}.", tenant=tenant, definition=name)


def _version_row(version: DefinitionVersion) -> dict[str, Any]:
    return {
        "tenant": version.tenant,
        "definition": version.name,
        "version": version.version,
        "state": version.state.value,
        "kind": version.kind,
        "effective_from": version.effective_from,
        "superseded_at": version.superseded_at,
        "materialised_until": version.materialised_until,
        "failure": version.failure,
        "defined_by": version.defined_by,
        "defined_at": version.created_at,
        "document": version.document,
    }
