"""Schedules: definitions with what they owe next, and each with its versions and history."""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Annotated, Any, Final

from fastapi import Depends, Response
from pydantic import BaseModel

from dueledger.console.forms import Filter, form_of
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.flow_pauses import fell_due
from dueledger.console.pages.schedule_pauses import PAUSES_MAX, DueOfKind, count_due_of_kind
from dueledger.console.pages.schedule_texts import (
    ValueTexts,
    owner_of,
    policies_of,
    rule_text,
    schedule_path,
    texts_of,
    texts_of_values,
    words_of,
)
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.definitions.diff import value_changes
from dueledger.definitions.trigger import trigger_definition, trigger_refusal
from dueledger.items import page_executions
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.definitions import (
    DefinitionVersion,
    VersionPlace,
    VersionState,
    list_versions,
)
from dueledger.ledger.store.flows import list_pauses
from dueledger.ledger.store.item_lists import ItemPlace
from dueledger.preview.occurrences import offset_text
from dueledger.preview.rule_words import rule_words
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import PAGE_BYTES_MAX, CurrentPage
from dueledger.service.routes.definitions import NamePath, versions_of
from dueledger.service.routes.fields import OldestFirst, Reason, TenantPath
from dueledger.service.schedule_times import Coming, read_definition, times_of

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

VERSIONS_SHOWN: Final = 50
EXECUTIONS_EXAMINED_MAX: Final = 3_000
"""More than a schedule of every minute has ahead of now."""
PAUSES_SHOWN: Final = 5
"""Pauses shown above a list; there may be more."""


class ReasonForm(BaseModel):
    """Why somebody triggers a schedule."""

    reason: Reason


@read.page("/schedules")
async def list_schedules(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    *,
    tenant: Filter = None,
    kind: Filter = None,
) -> Response:
    """List the definitions in force and to come, each with the time at which it is due next."""
    versions = await list_versions(
        call.connection,
        tenant,
        None,
        newest_only=True,
        limit=page.rows_max,
        tenants=call.tenants,
        kind=kind,
        after=page.place(VersionPlace, str, str, int),
    )
    shown = versions[: page.limit]
    last = shown[-1] if len(versions) > page.limit else None
    kinds = frozenset((each.tenant, each.kind) for each in shown)
    pauses = await list_pauses(
        call.connection, tenant, tenants=call.tenants, kind=kind, limit=PAUSES_MAX
    )
    return view.page(
        "schedules.html",
        title="Schedules",
        pauses=[each for each in pauses if _covers_any(each, kinds)],
        pauses_max=PAUSES_SHOWN,
        filters={"tenant": tenant or "", "kind": kind or ""},
        names=await suggest_names(call),
        listing=Listing(
            caption="Schedules",
            order="by tenant and name",
            columns=_columns(view),
            rows=await _rows(call, view, shown),
            empty="There is no schedule yet. "
            + (
                "Write one, or import a crontab."
                if view.may(Scope.OPERATE)
                else "A key with the scope `operate` writes one, or imports a crontab."
            ),
            filters=("tenant", "kind"),
            unmatched="No schedule matches the filter.",
            next_cursor=page.cursor_after(
                None if last is None else (last.tenant, last.name, last.version)
            ),
        ),
    )


@read.page("/schedules/{tenant}/{name}")
async def show_schedule(
    call: CurrentCall,
    view: CurrentView,
    page: CurrentPage,
    tenant: TenantPath,
    name: NamePath,
    *,
    oldest_first: OldestFirst = False,
) -> Response:
    """Show a definition: what it owes next, its versions, and the items it owed."""
    versions = await versions_of(call.connection, tenant, name, VERSIONS_SHOWN + 1)
    newest = versions[0]
    coming = await coming_of(call.connection, view, newest)
    times = times_of(view.request)
    [definition] = await times.read(call.connection, [newest])
    [last_due_at] = await times.last_due([(definition, newest.effective_from)], newest.now)
    executions = await page_executions(
        call.connection,
        tenant,
        name,
        limit=page.limit,
        after=page.place(ItemPlace, date, int),
        due_before=newest.now,
        examined_max=EXECUTIONS_EXAMINED_MAX,
        bytes_max=PAGE_BYTES_MAX,
        oldest_first=oldest_first,
    )
    pauses = await list_pauses(
        call.connection, tenant, tenants=call.tenants, kind=newest.kind, limit=PAUSES_MAX
    )
    own = [each for each in pauses if each["kind"] == newest.kind]
    due = DueOfKind()
    if not pauses and view.may(Scope.OPERATE):
        due = await count_due_of_kind(call, tenant, newest.kind)
    return view.page(
        "schedule.html",
        title=name,
        newest=newest,
        words=words_of(newest),
        policies=policies_of(newest),
        owner=owner_of(newest),
        rule=rule_text(newest.document),
        coming=coming,
        occurrences=list_occurrences(coming),
        last_due_at=last_due_at,
        pauses=pauses,
        own_pauses=await fell_due(call, view, own),
        due=due,
        versions_max=VERSIONS_SHOWN,
        versions=list(zip(versions, _changes(versions), strict=True)),
        texts=texts_of(newest),
        path=schedule_path(tenant, name),
        trigger_refusal=trigger_refusal(_document_in_force(versions)),
        listing=Listing(
            caption="History",
            order=f"{'earliest' if oldest_first else 'latest'} effective date first",
            turns=("due_at", "oldest_first", oldest_first),
            columns=_execution_columns(view),
            rows=executions.items,
            empty="No item was due yet. Each occurrence above becomes one before it is due.",
            next_cursor=page.cursor_after(executions.next_place),
        ),
    )


@operate.action(
    "/schedules/{tenant}/{name}/trigger", "triggerDefinition", "definitions/{tenant}/{name}"
)
async def trigger(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    name: NamePath,
    form: Annotated[ReasonForm, Depends(form_of(ReasonForm))],
) -> Response:
    """Owe one item of the schedule now, beside its own occurrences."""
    made = await trigger_definition(
        call.connection,
        tenant,
        name,
        cycle=None,
        reason=form.reason,
        actor_no=call.caller.actor_no,
    )
    call.note_change(is_changed=made.created, cycle=made.cycle, item=made.id)
    return view.done(f"Triggered {name}: {made.cycle}.", f"/items/{made.id}")


def _document_in_force(versions: Sequence[DefinitionVersion]) -> Mapping[str, Any] | None:
    """Return the document in force now; None if there is none among these versions."""
    for each in versions:
        if each.effective_from <= each.now and each.state is not VersionState.SUPERSEDED:
            return each.document
    return None


def _changes(versions: Sequence[DefinitionVersion]) -> list[list[ValueTexts]]:
    """Return what each version changed of the one before it in the list, by name."""
    changes = [
        texts_of_values(value_changes(older.document, newer.document))
        for newer, older in pairwise(versions)
    ]
    return [*changes, []]


def list_occurrences(coming: Coming) -> Listing:
    """Return what a definition owes next, and the times that it skips, as a list to download."""
    return Listing(
        caption="Next occurrences",
        columns=(
            Column("due_at", "Due", "time"),
            Column("local", "Local time"),
            Column("zone", "Zone"),
            Column("note", "Note", "prose"),
        ),
        rows=[
            {
                "due_at": each.due_at,
                "local": each.local.isoformat()
                + ("" if each.utc_offset is None else offset_text(each.utc_offset)),
                "zone": coming.zone,
                "note": each.note or None,
            }
            for each in coming.rows
        ],
    )


async def coming_of(connection: Connection, view: View, version: DefinitionVersion) -> Coming:
    """Return what a version owes next; for an event rule or an ended one nothing."""
    since = max(version.now, version.effective_from)
    try:
        return await times_of(view.request).coming(connection, read_definition(version), since)
    except DueledgerError as error:
        return Coming(problem=error.message)


def _covers_any(found: Mapping[str, Any], kinds: frozenset[tuple[str, str]]) -> bool:
    """Return whether a pause covers flows of one of these kinds, each with its tenant."""
    if found["kind"] is None:
        return any(found["tenant"] == tenant for tenant, _ in kinds)
    return (found["tenant"], found["kind"]) in kinds


async def _rows(call: ApiCall, view: View, versions: Sequence[DefinitionVersion]) -> list[Row]:
    """Return versions with the times at which each was due last and is due next."""
    if not versions:
        return []
    times = times_of(view.request)
    definitions = await times.read(call.connection, versions)
    starts = [max(each.now, each.effective_from) for each in versions]
    next_due = await times.next_due(list(zip(definitions, starts, strict=True)))
    begins = [each.effective_from for each in versions]
    last_due = await times.last_due(list(zip(definitions, begins, strict=True)), versions[0].now)
    return [
        {
            "definition": version.name,
            "tenant": version.tenant,
            "kind": version.kind,
            "lane": "",
            "state": version.state.value,
            "version": version.version,
            "when": None if definition is None else rule_words(definition),
            "rule": rule_text(version.document),
            "last_due_at": last_due_at,
            "next_due_at": next_due_at,
            "effective_from": version.effective_from,
        }
        for version, definition, last_due_at, next_due_at in zip(
            versions, definitions, last_due, next_due, strict=True
        )
    ]


def _columns(view: View) -> list[Column]:
    def address(row: Row) -> str:
        return view.url(schedule_path(row["tenant"], row["definition"]))

    def items(row: Row) -> str:
        return view.url("/items", tenant=row["tenant"], kind=row["kind"], open=True)

    return [
        Column("definition", "Schedule", "text", address),
        Column("kind", "Flow", "flow", items),
        Column("state", "State", "state"),
        Column("when", "When", "prose"),
        Column("rule", "Rule", "code"),
        Column("last_due_at", "Last", "time"),
        Column("next_due_at", "Next", "time"),
        Column("effective_from", "In force from", "time"),
        Column("version", "Version", "count"),
    ]


def _execution_columns(view: View) -> list[Column]:
    def address(row: Row) -> str:
        return view.url(f"/items/{row['id']}")

    return [
        Column("cycle", "Cycle", "text", address),
        Column("state", "State", "state"),
        Column("due_at", "Due", "time"),
        Column("started_at", "Started", "time"),
        Column("ended_at", "Ended", "time"),
        Column("duration_seconds", "Seconds", "number"),
        Column("attempt", "Attempt", "count"),
        Column("worker", "Worker"),
        Column("definition_version", "Version", "count"),
    ]
