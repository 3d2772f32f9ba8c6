"""Import of a file of another scheduler: what it would define, what is left out, what to decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends, Response
from pydantic import AfterValidator, Field

from dueledger.audited_changes import version_detail
from dueledger.console.forms import form_of
from dueledger.console.listing import Column, Listing
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.schedule_editor import (
    Refused,
    check_typed,
    lines_of,
    must_type,
    problems_of,
    require_tenants,
)
from dueledger.console.view import CurrentView, View
from dueledger.definitions.change import DefinitionChange, PlannedChanges
from dueledger.failures import KINDS
from dueledger.importers.import_result import QUESTIONS, ImportResult
from dueledger.importers.uploaded import SourceScheduler
from dueledger.ledger.errors import DueledgerError, InvalidInput
from dueledger.ledger.store.api_keys import Scope
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes.definitions import plan_definitions
from dueledger.service.routes.fields import LINES, Name
from dueledger.service.routes.schedule_import import (
    TEXT_CHARS_MAX,
    ConvertRequest,
    convert_file,
)

operate = PageRoutes(Scope.OPERATE, "console")

Lines = Annotated[str, Field(max_length=TEXT_CHARS_MAX, pattern=LINES), AfterValidator(lines_of)]


class ImportForm(ConvertRequest):
    """A file, what its jobs lack, and the tenant that they are to belong to.

    `shown` is how many occurrences were shown as moved or removed, `typed` the number typed.
    """

    text: Lines = ""
    tenant: Name = "acme"
    shown: Annotated[int, Field(ge=0)] = 0
    typed: str | None = None


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """What a file would define. With a `problem` nothing else is known.

    `changes` are those of definitions that would get a version, by the name of each.
    """

    problem: str | None = None
    errors: list[dict[str, Any]] = field(default_factory=list["dict[str, Any]"])
    found: ImportResult | None = None
    changes: Mapping[str, DefinitionChange] = field(default_factory=dict[str, DefinitionChange])
    notes: list[str] = field(default_factory=list[str])

    @property
    def affected(self) -> int:
        """Return how many occurrences are moved or removed in all."""
        return sum(each.preview.diff.affected for each in self.changes.values())


_NOTHING: Final = ImportPreview()


@operate.page("/schedules/import")
async def choose_file(call: CurrentCall, view: CurrentView) -> Response:
    """Show the form that takes a file."""
    tenant = call.tenants[0] if call.tenants else "acme"
    return _page(view, ImportForm(tenant=tenant), _NOTHING)


@operate.answer("/schedules/import")
async def preview_import(
    call: CurrentCall,
    view: CurrentView,
    form: Annotated[ImportForm, Depends(form_of(ImportForm))],
) -> Response:
    """Show what a file would define; change nothing."""
    return _page(view, form, await _preview(call, form))


@operate.action("/schedules/import/define", "putDefinition")
async def define_import(
    call: CurrentCall,
    view: CurrentView,
    form: Annotated[ImportForm, Depends(form_of(ImportForm))],
) -> Response:
    """Put all definitions of a file in force, together.

    If they are refused, the file is shown again, with the reason.
    """
    try:
        async with call.connection.transaction():
            planned = await _put(call, form)
    except DueledgerError as error:
        call.note_change(is_changed=False)
        refused = Refused(error.message.partition("\n")[0], problems_of(error))
        response = _page(view, form, await _preview(call, form), refused)
        response.status_code = KINDS[error.code].status
        return response
    versions = {
        name: version_detail(each.defined.version) for name, each in _changes(planned).items()
    }
    call.note_change(
        target=f"definitions/{form.tenant}",
        tenants=[form.tenant],
        is_changed=bool(versions),
        definitions=len(planned.changes),
        versions={name: each["version"] for name, each in versions.items()},
        before={"versions": {name: each["before"]["version"] for name, each in versions.items()}},
    )
    said = f"{len(versions)} of {len(planned.changes)} definitions are new."
    return view.done(said, "/schedules")


async def _put(call: ApiCall, form: ImportForm) -> PlannedChanges:
    """Put the definitions of a file in force, if their moved occurrences were typed."""
    found, planned = await _plan(call, form)
    if not found.jobs:
        raise InvalidInput("The file has no job that can be converted.")
    preview = ImportPreview(found=found, changes=_changes(planned))
    check_typed(preview.affected, form.shown, form.typed)
    await planned.apply(call.connection, await planned.ask_witness(), None)
    return planned


async def _preview(call: ApiCall, form: ImportForm) -> ImportPreview:
    """Compute what a file would define, in a transaction that is rolled back where it fails."""
    try:
        async with call.connection.transaction():
            found, planned = await _plan(call, form)
    except DueledgerError as error:
        return ImportPreview(error.message.partition("\n")[0], problems_of(error))
    return ImportPreview(found=found, changes=_changes(planned), notes=list(planned.redaction))


async def _plan(call: ApiCall, form: ImportForm) -> tuple[ImportResult, PlannedChanges]:
    found = await convert_file(form.tenant, form)
    definitions = [job.definition for job in found.jobs]
    require_tenants(call, definitions)
    return found, await plan_definitions(call, definitions, None)


def _changes(planned: PlannedChanges) -> dict[str, DefinitionChange]:
    return {each.definition.definition: each for each in planned.changes if each.defined.changed}


def _page(
    view: View, form: ImportForm, preview: ImportPreview, refused: Refused | None = None
) -> Response:
    found = preview.found
    return view.page(
        "schedule_import.html",
        title="Import schedules",
        form=form,
        schedulers=[each.value for each in SourceScheduler],
        refused=refused,
        preview=preview,
        found=found,
        must_type=must_type(preview.affected),
        jobs=_jobs(preview),
        left_out=_left_out(found),
        questions=[(QUESTIONS[each], count) for each, count in found.questions()] if found else [],
        text_chars_max=TEXT_CHARS_MAX,
    )


def _jobs(preview: ImportPreview) -> Listing:
    def change(name: str) -> dict[str, Any]:
        found = preview.changes.get(name)
        if found is None:
            return {"change": "as it is", "affected": None}
        is_new = found.defined.version == 1
        affected = None if is_new else found.preview.diff.affected
        return {"change": "new" if is_new else "next version", "affected": affected}

    rows = [
        {
            **job.inventory(),
            **change(job.definition.definition),
            "notes": "; ".join(job.known.notes) or None,
        }
        for job in (preview.found.jobs if preview.found else ())
    ]
    columns = (
        Column("definition", "Schedule"),
        Column("frequency", "How often"),
        Column("overlap", "Overlap"),
        Column("change", "Change"),
        Column("affected", "Moved or removed", "count"),
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
