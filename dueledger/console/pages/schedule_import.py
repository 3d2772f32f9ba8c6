"""Import of a file of another scheduler: what it would define, what is left out, what to decide."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Response
from pydantic import AfterValidator, Field

from dueledger.audited_changes import version_detail
from dueledger.console.forms import form_of
from dueledger.console.listing import Column, Listing
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.schedule_editor import lines_of, problems_of, require_tenants
from dueledger.console.view import CurrentView, View
from dueledger.importers.import_result import QUESTIONS, ImportResult
from dueledger.importers.uploaded import SourceScheduler
from dueledger.ledger.errors import DueledgerError, InvalidInput
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import CurrentCall
from dueledger.service.routes.definitions import plan_definitions
from dueledger.service.routes.fields import Name
from dueledger.service.routes.schedule_import import (
    TEXT_CHARS_MAX,
    ConvertRequest,
    convert_file,
)

operate = PageRoutes(Scope.OPERATE, "console")

Lines = Annotated[str, Field(max_length=TEXT_CHARS_MAX), AfterValidator(lines_of)]


class ImportForm(ConvertRequest):
    """A file, what its jobs lack, and the tenant that they are to belong to."""

    text: Lines = ""
    tenant: Name = "acme"


@operate.page("/schedules/import")
async def choose_file(call: CurrentCall, view: CurrentView) -> Response:
    """Show the form that takes a file."""
    tenant = call.tenants[0] if call.tenants else "acme"
    return _page(view, ImportForm(tenant=tenant))


@operate.answer("/schedules/import")
async def preview_import(
    call: CurrentCall,
    view: CurrentView,
    form: Annotated[ImportForm, Depends(form_of(ImportForm))],
) -> Response:
    """Show what a file would define; change nothing."""
    try:
        found = await convert_file(form.tenant, form)
        require_tenants(call, [job.definition for job in found.jobs])
        async with call.connection.transaction():
            definitions = [job.definition for job in found.jobs]
            planned = await plan_definitions(call, definitions, None)
    except DueledgerError as error:
        return _page(
            view, form, problem=error.message.partition("\n")[0], errors=problems_of(error)
        )
    changes = {
        each.definition.definition: "new" if each.defined.version == 1 else "next version"
        for each in planned.changes
        if each.defined.changed
    }
    return _page(view, form, found, changes=changes, notes=planned.redaction)


@operate.action("/schedules/import/define", "putDefinition")
async def define_import(
    call: CurrentCall,
    view: CurrentView,
    form: Annotated[ImportForm, Depends(form_of(ImportForm))],
) -> Response:
    """Put all definitions of a file in force, together."""
    found = await convert_file(form.tenant, form)
    definitions = [job.definition for job in found.jobs]
    if not definitions:
        raise InvalidInput("The file has no job that can be converted.")
    require_tenants(call, definitions)
    planned = await plan_definitions(call, definitions, None)
    await planned.apply(call.connection, await planned.ask_witness(), None)
    changed = sum(each.defined.changed for each in planned.changes)
    versions = {
        each.definition.definition: version_detail(each.defined.version)
        for each in planned.changes
        if each.defined.changed
    }
    call.note_change(
        target=f"definitions/{form.tenant}",
        tenants=[form.tenant],
        is_changed=bool(changed),
        definitions=len(definitions),
        versions={name: each["version"] for name, each in versions.items()},
        before={"versions": {name: each["before"]["version"] for name, each in versions.items()}},
    )
    return view.done(f"{changed} of {len(definitions)} definitions are new.", "/schedules")


def _page(
    view: View,
    form: ImportForm,
    found: ImportResult | None = None,
    *,
    changes: dict[str, str] | None = None,
    notes: Sequence[str] = (),
    problem: str | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> Response:
    return view.page(
        "schedule_import.html",
        title="Import schedules",
        form=form,
        schedulers=[each.value for each in SourceScheduler],
        found=found,
        changes=changes or {},
        notes=notes,
        problem=problem,
        errors=errors or [],
        jobs=_jobs(found, changes or {}),
        left_out=_left_out(found),
        questions=[(QUESTIONS[each], count) for each, count in found.questions()] if found else [],
        text_chars_max=TEXT_CHARS_MAX,
    )


def _jobs(found: ImportResult | None, changes: dict[str, str]) -> Listing:
    rows = [
        {
            **job.inventory(),
            "change": changes.get(job.definition.definition, "as it is"),
            "notes": "; ".join(job.known.notes) or None,
        }
        for job in (found.jobs if found else ())
    ]
    columns = (
        Column("definition", "Schedule"),
        Column("frequency", "How often"),
        Column("overlap", "Overlap"),
        Column("change", "Change"),
        Column("where", "Where"),
        Column("notes", "Notes"),
    )
    empty = "No job of it can be converted."
    return Listing(caption="Jobs", columns=columns, rows=rows, empty=empty)


def _left_out(found: ImportResult | None) -> Listing:
    rows = [
        {"where": each.where, "text": each.text, "reason": each.reason, "accepted": each.accepted}
        for each in (found.skipped if found else ())
    ]
    columns = (
        Column("where", "Where"),
        Column("text", "Job", "code"),
        Column("reason", "Why it is left out"),
        Column("accepted", "Write instead"),
    )
    return Listing(caption="Left out", columns=columns, rows=rows)
