"""Schedules: definitions with what they owe next, and each with its versions and history."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

import orjson
from fastapi import Depends, Response
from pydantic import BaseModel

from dueledger.console.forms import Filter, Moment, form_of, in_zone
from dueledger.console.listing import Column, Listing, Row
from dueledger.console.page_routes import PageRoutes
from dueledger.console.suggestions import suggest_names
from dueledger.console.view import CurrentView, View
from dueledger.definitions.defaults import defaults_of, without_defaults
from dueledger.definitions.diff import value_changes
from dueledger.definitions.trigger import trigger_definition, trigger_refusal
from dueledger.importers.definition_yaml import document_text
from dueledger.items import page_executions
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import DueledgerError, InvalidDefinition
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
from dueledger.preview.policy_words import policy_words
from dueledger.preview.rule_words import rule_words
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.pages import PAGE_BYTES_MAX, CurrentPage
from dueledger.service.routes.definition_documents import PauseRequest
from dueledger.service.routes.definitions import (
    NamePath,
    pause_definition,
    resume_definition,
    versions_of,
)
from dueledger.service.routes.fields import Reason, TenantPath
from dueledger.service.schedule_times import Coming, read_definition, times_of

read = PageRoutes(Scope.READ, "console")
operate = PageRoutes(Scope.OPERATE, "console")

VERSIONS_SHOWN: Final = 50
EXECUTIONS_EXAMINED_MAX: Final = 1_000
_PAUSES_MAX: Final = 200
PAUSES_SHOWN: Final = 5
"""Pauses shown above a list; there may be more."""
_TEXTS_KEPT: Final = 100
"""Documents as YAML: milliseconds to write, and a version's does not change."""
_VALUE_CHARS_MAX: Final = 200


class ReasonForm(BaseModel):
    """Why somebody triggers a schedule, or ends a pause."""

    reason: Reason


class DefinitionPauseForm(BaseModel):
    """Why the work of a definition pauses, and until when."""

    until: Moment = None
    reason: Reason


class DefinitionTexts(NamedTuple):
    """A document as YAML: what its author had to write, and the defaults that apply."""

    written: str
    defaults: str


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
        call.connection, tenant, tenants=call.tenants, kind=kind, limit=_PAUSES_MAX
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
    call: CurrentCall, view: CurrentView, page: CurrentPage, tenant: TenantPath, name: NamePath
) -> Response:
    """Show a definition: what it owes next, its versions, and the items it owed."""
    versions = await versions_of(call.connection, tenant, name, VERSIONS_SHOWN + 1)
    newest = versions[0]
    coming = await coming_of(call.connection, view, newest)
    executions = await page_executions(
        call.connection,
        tenant,
        name,
        limit=page.limit,
        after=page.place(ItemPlace, date, int),
        examined_max=EXECUTIONS_EXAMINED_MAX,
        bytes_max=PAGE_BYTES_MAX,
    )
    pauses = await list_pauses(
        call.connection, tenant, tenants=call.tenants, kind=newest.kind, limit=_PAUSES_MAX
    )
    return view.page(
        "schedule.html",
        title=name,
        newest=newest,
        words=_words_of(newest),
        policies=_policies_of(newest),
        owner=_owner_of(newest),
        rule=rule_text(newest.document),
        coming=coming,
        occurrences=list_occurrences(coming),
        pauses=pauses,
        own_pause=any(each["kind"] == newest.kind for each in pauses),
        versions_max=VERSIONS_SHOWN,
        versions=list(zip(versions, _changes(versions), strict=True)),
        texts=texts_of(newest),
        path=schedule_path(tenant, name),
        trigger_refusal=trigger_refusal(_document_in_force(versions)),
        listing=Listing(
            caption="History",
            order="latest effective date first",
            columns=_execution_columns(view),
            rows=executions.items,
            empty="No items yet. Each occurrence above becomes one before it is due.",
            next_cursor=page.cursor_after(executions.next_place),
        ),
    )


@operate.action("/schedules/{tenant}/{name}/pause", "pauseDefinition")
async def pause(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    name: NamePath,
    form: Annotated[DefinitionPauseForm, Depends(form_of(DefinitionPauseForm))],
) -> Response:
    """Stop handing out items of the definition's kind."""
    until = in_zone(form.until, view.clock.zone)
    await pause_definition(call, tenant, name, PauseRequest(reason=form.reason, until=until))
    return view.done(f"Paused the kind of {tenant} {name}.", schedule_path(tenant, name))


@operate.action("/schedules/{tenant}/{name}/resume", "resumeDefinition")
async def resume(
    call: CurrentCall,
    view: CurrentView,
    tenant: TenantPath,
    name: NamePath,
    form: Annotated[ReasonForm, Depends(form_of(ReasonForm))],
) -> Response:
    """End the pause of the definition's kind. The audit has the reason of the form."""
    del form
    await resume_definition(call, tenant, name)
    pauses = await list_pauses(call.connection, tenant, tenants=call.tenants, limit=_PAUSES_MAX)
    still = f" All kinds of {tenant} are paused still."
    said = f"Resumed the kind of {tenant} {name}."
    is_wider = any(each["kind"] is None for each in pauses)
    return view.done(said + still * is_wider, schedule_path(tenant, name))


@operate.action("/schedules/{tenant}/{name}/trigger", "triggerDefinition")
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


def schedule_path(tenant: str, name: str) -> str:
    """Return the path of a definition's page."""
    return f"/schedules/{quote(tenant, safe='')}/{quote(name, safe='')}"


def texts_of(version: DefinitionVersion) -> DefinitionTexts:
    """Return the document of a version, in the order of the schema.

    All of it is `written` if it would not be accepted any more.
    """
    return _texts_of(orjson.dumps(version.document))


@lru_cache(_TEXTS_KEPT)
def _texts_of(stored: bytes) -> DefinitionTexts:
    document = orjson.loads(stored)
    try:
        written = without_defaults(parse_definition(document, calendars=None))
        defaults = defaults_of(parse_definition(written, calendars=None))
    except InvalidDefinition:
        known = [name for name in Definition.model_fields if name in document]
        others = [name for name in document if name not in Definition.model_fields]
        return DefinitionTexts(
            document_text({name: document[name] for name in [*known, *others]}), ""
        )
    return DefinitionTexts(document_text(written), document_text(defaults) if defaults else "")


def _document_in_force(versions: Sequence[DefinitionVersion]) -> Mapping[str, Any] | None:
    """Return the document in force now; None if there is none among these versions."""
    for each in versions:
        if each.effective_from <= each.now and each.state is not VersionState.SUPERSEDED:
            return each.document
    return None


def _changes(versions: Sequence[DefinitionVersion]) -> list[list[tuple[str, str, str]]]:
    """Return what each version changed of the one before it in the list, by name."""
    changes = [
        [
            (name, _value_text(before), _value_text(after))
            for name, before, after in value_changes(older.document, newer.document)
        ]
        for newer, older in pairwise(versions)
    ]
    return [*changes, []]


def _value_text(value: object) -> str:
    """Return a value of a document on one line, shortened; empty for None."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _owner_of(version: DefinitionVersion) -> str | None:
    """Return the label `owner` of a schedule; of an event rule it is an expression."""
    labels: Mapping[str, str] = version.document.get("labels") or {}
    return labels.get("owner") if version.event_type is None else None


def list_occurrences(coming: Coming) -> Listing:
    """Return what a definition owes next as a list, which is a download."""
    return Listing(
        caption="Next occurrences",
        columns=(
            Column("due_at", "Due", "time"),
            Column("local", "Local time"),
            Column("zone", "Zone"),
            Column("how", "How it was found", "prose"),
        ),
        rows=[
            {
                "due_at": found.due_at,
                "local": f"{found.local.isoformat()}{offset_text(found.utc_offset)}",
                "zone": coming.zone,
                "how": words or None,
            }
            for found, words in coming.rows
        ],
    )


async def coming_of(connection: Connection, view: View, version: DefinitionVersion) -> Coming:
    """Return what a version owes next; for an event rule or an ended one nothing."""
    since = max(version.now, version.effective_from)
    try:
        return await times_of(view.request).coming(connection, read_definition(version), since)
    except DueledgerError as error:
        return Coming(problem=error.message)


def _policies_of(version: DefinitionVersion) -> list[str]:
    """Return what happens to missed occurrences, and to items that meet; [] if unreadable."""
    try:
        return policy_words(read_definition(version))
    except DueledgerError:
        return []


def _words_of(version: DefinitionVersion) -> str:
    """Return when a version is due, in words; empty if it cannot be read."""
    try:
        return rule_words(read_definition(version))
    except DueledgerError:
        return ""


def rule_text(document: Row) -> str:
    """Return when a definition is due, as its document says it."""
    when: dict[str, Any] = document.get("when") or {}
    zone = when.get("timezone")
    parts = [f"{name} {value}" for name, value in when.items() if name not in _PLACES and value]
    event = document.get("event")
    return ", ".join([*([f"on {event}"] if event else []), *parts, *([str(zone)] if zone else [])])


_PLACES: Final = {"timezone", "gap", "fold"}


def _covers_any(found: Mapping[str, Any], kinds: frozenset[tuple[str, str]]) -> bool:
    """Return whether a pause covers flows of one of these kinds, each with its tenant."""
    if found["kind"] is None:
        return any(found["tenant"] == tenant for tenant, _ in kinds)
    return (found["tenant"], found["kind"]) in kinds


async def _rows(call: ApiCall, view: View, versions: Sequence[DefinitionVersion]) -> list[Row]:
    """Return versions with the time at which each is due next."""
    times = times_of(view.request)
    definitions = await times.read(call.connection, versions)
    starts = [max(each.now, each.effective_from) for each in versions]
    next_due = await times.next_due(list(zip(definitions, starts, strict=True)))
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
            "next_due_at": due_at,
            "effective_from": version.effective_from,
        }
        for version, definition, due_at in zip(versions, definitions, next_due, strict=True)
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
