"""The editor of a definition: its text, and what it would change before it is in force."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Response
from pydantic import AfterValidator, BaseModel, Field

from dueledger.audited_changes import version_detail
from dueledger.console.forms import Moment, form_of, in_zone
from dueledger.console.page_routes import PageRoutes
from dueledger.console.pages.flow_pauses import CONFIRM_ABOVE
from dueledger.console.pages.schedule_texts import (
    ValueTexts,
    rule_text,
    schedule_path,
    texts_of,
    texts_of_values,
)
from dueledger.console.pages.schedules import list_occurrences
from dueledger.console.typed_numbers import ungrouped
from dueledger.console.view import CurrentView, View
from dueledger.definitions.change import PlannedChanges, doubts
from dueledger.definitions.defaults import defaults_of
from dueledger.definitions.put_in_force import DefinedDocument
from dueledger.failures import KINDS
from dueledger.importers.definition_yaml import document_text
from dueledger.ledger.definitions.parsing import Definition, load_definitions
from dueledger.ledger.errors import (
    DueledgerError,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    Problem,
)
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.definitions import DefinitionVersion, list_versions
from dueledger.planning.load_plan import LoadPlan
from dueledger.planning.schedule_load import DefinitionInForce
from dueledger.preview.rule_words import rule_words
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.routes.definition_documents import EXAMPLE
from dueledger.service.routes.definitions import NamePath, plan_definitions, versions_of
from dueledger.service.routes.fields import PRINTABLE, Name, Reason, TenantPath
from dueledger.service.schedule_times import Coming, times_of

operate = PageRoutes(Scope.OPERATE, "console")

TEXT_CHARS_MAX: Final = 200_000
PLAN_DAYS: Final = 7
_PLANNED_MAX: Final = 50_000
_QUIET_FOR: Final = timedelta(minutes=30)
_SOURCE: Final = "text"
_EXAMPLES_MAX: Final = 9
"""Names of the example that are tried until one is free."""


def lines_of(text: str) -> str:
    """Return a text with the ends of lines that files have; a browser sends others."""
    return text.replace("\r\n", "\n")


class EditorForm(BaseModel):
    """A definition as text, from when on it is to be in force, and which version it replaces.

    `tenant` and `name` are those of the schedule that is edited, without which it is a new one.
    `shown` is how many occurrences were shown as moved or removed, `typed` the number typed.
    """

    text: Annotated[str, Field(max_length=TEXT_CHARS_MAX), AfterValidator(lines_of)] = ""
    effective_from: Moment = None
    tenant: Name | None = None
    name: Annotated[str, Field(max_length=200, pattern=PRINTABLE)] | None = None
    base_version: Annotated[int, Field(ge=1)] | None = None
    accept: Reason | None = None
    shown: Annotated[int, Field(ge=0)] = 0
    typed: str | None = None

    @property
    def place(self) -> tuple[str, str] | None:
        """Return the tenant and the name of the schedule that is edited."""
        return None if self.tenant is None or self.name is None else (self.tenant, self.name)


class WeekLoad(NamedTuple):
    """The load of the next days: the plan, or why there is none."""

    plan: LoadPlan | None
    reason: str | None


_NO_LOAD: Final = WeekLoad(None, None)


class Refusal(NamedTuple):
    """Why a text cannot be put in force as it is, and the page to go on with."""

    words: str
    path: str
    link: str


class Refused(NamedTuple):
    """What was refused, as `ui.problem_box` takes it."""

    words: str
    errors: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a text would change. With a `problem` nothing else is known."""

    words: str = ""
    rule: str = ""
    problem: str | None = None
    errors: list[dict[str, Any]] = field(default_factory=list["dict[str, Any]"])
    refusal: Refusal | None = None
    change: dict[str, Any] | None = None
    changed: list[ValueTexts] = field(default_factory=list["ValueTexts"])
    affected: int = 0
    notes: list[str] = field(default_factory=list["str"])
    doubts: list[str] = field(default_factory=list["str"])
    defaults: str = ""
    coming: Coming = field(default_factory=Coming)
    load: WeekLoad = _NO_LOAD


@operate.page("/schedules/new")
async def write_schedule(call: CurrentCall, view: CurrentView) -> Response:
    """Show the editor with an example of the caller's tenant."""
    form = EditorForm(text=await _example(call))
    return _editor(view, form, await _preview(call, view, form))


@operate.page("/schedules/{tenant}/{name}/edit")
async def edit_schedule(
    call: CurrentCall, view: CurrentView, tenant: TenantPath, name: NamePath
) -> Response:
    """Show the editor with the newest version."""
    newest = (await versions_of(call.connection, tenant, name, 1))[0]
    text = texts_of(newest).written
    form = EditorForm(text=text, tenant=tenant, name=name, base_version=newest.version)
    return _editor(view, form, await _unchanged(call, view, form, newest))


@operate.answer("/schedules/preview")
async def preview_schedule(
    call: CurrentCall,
    view: CurrentView,
    form: Annotated[EditorForm, Depends(form_of(EditorForm))],
) -> Response:
    """Show the editor with what its text would change; change nothing."""
    return _editor(view, form, await _preview(call, view, form))


@operate.action("/schedules/define", "putDefinition")
async def put_schedule(
    call: CurrentCall,
    view: CurrentView,
    form: Annotated[EditorForm, Depends(form_of(EditorForm))],
) -> Response:
    """Put the definition of the text in force, if nobody changed it since it was read.

    If it is refused, the editor is shown again, with the text and the reason.
    """
    try:
        async with call.connection.transaction():
            defined = await _put(call, view, form)
    except DueledgerError as error:
        call.note_change(is_changed=False)
        refused = Refused(error.message.partition("\n")[0], problems_of(error))
        response = _editor(view, form, await _preview(call, view, form), refused)
        response.status_code = KINDS[error.code].status
        return response
    call.note_change(
        target=f"definitions/{defined.tenant}/{defined.definition}",
        tenants=[defined.tenant],
        is_changed=defined.changed,
        **version_detail(defined.version),
    )
    said = f"Version {defined.version} is defined." if defined.changed else "Nothing changed."
    return view.done(said, schedule_path(defined.tenant, defined.definition))


async def _put(call: ApiCall, view: View, form: EditorForm) -> DefinedDocument:
    """Put the definition of a text in force, if it is the next version of what was edited."""
    definition = _only(call, form.text)
    start = in_zone(form.effective_from, view.clock.zone)
    planned = await plan_definitions(call, [definition], start)
    [change] = planned.changes
    refusal = _refusal(form, change.defined)
    if refusal is not None and change.defined.changed:
        raise PreconditionFailed(refusal.words)
    affected = change.preview.diff.affected if change.defined.changed else 0
    check_typed(affected, form.shown, form.typed)
    await planned.apply(call.connection, await planned.ask_witness(), form.accept)
    return change.defined


def _refusal(form: EditorForm, defined: DefinedDocument) -> Refusal | None:
    """Return why a text is not the next version of what was edited; None if it is."""
    name = defined.tenant, defined.definition
    path = schedule_path(*name)
    base = form.base_version if form.place in {None, name} else None
    if base is None:
        if defined.version == 1 and defined.changed:
            return None
        words = (
            f"{defined.tenant} {defined.definition} exists already. Edit it, or write another name."
        )
        return Refusal(words, f"{path}/edit", f"Edit {defined.definition}")
    if defined.version in {base, base + 1}:
        return None
    words = f"{defined.definition} has other versions by now. Open it, and edit it again."
    return Refusal(words, path, f"Open {defined.definition}")


def must_type(affected: int) -> bool:
    """Return whether so many moved or removed occurrences are confirmed by their number."""
    return affected > CONFIRM_ABOVE


def check_typed(affected: int, shown: int, typed: str | None) -> None:
    """Raise InvalidInput if more occurrences are moved or removed than those typed and some."""
    if must_type(affected - (shown if ungrouped(typed or "") == str(shown) else 0)):
        problem = Problem("typed", "", "it is not their number", f"{affected}")
        message = "Many occurrences are moved or removed. Type their number to confirm."
        raise InvalidInput(message, [problem])


async def _example(call: ApiCall) -> str:
    """Return an example of the caller's tenant, whose name and kind are free."""
    tenant = call.tenants[0] if call.tenants else "acme"
    name, kind = EXAMPLE["business_key"], EXAMPLE["kind"]
    for number in range(2, _EXAMPLES_MAX + 2):
        of_name = await list_versions(call.connection, tenant, name, newest_only=False, limit=1)
        of_kind = await list_versions(
            call.connection, tenant, None, newest_only=True, limit=1, kind=kind
        )
        if not of_name and not of_kind:
            break
        name, kind = f"{EXAMPLE['business_key']}-{number}", f"{EXAMPLE['kind']}{number}"
    named = {"kind": kind, "business_key": name}
    return document_text({"tenant": tenant, "definition": name, **EXAMPLE, **named})


def _editor(
    view: View, form: EditorForm, preview: Preview, refused: Refused | None = None
) -> Response:
    place = form.place
    return view.page(
        "schedule_editor.html",
        title="New schedule" if place is None else f"Edit {place[1]}",
        form=form,
        effective_from=""
        if form.effective_from is None
        else f"{form.effective_from:%Y-%m-%dT%H:%M}",
        place=None if place is None else schedule_path(*place),
        refused=refused,
        preview=preview,
        must_type=must_type(preview.affected),
        occurrences=list_occurrences(preview.coming),
        plan_days=PLAN_DAYS,
    )


async def _unchanged(
    call: ApiCall, view: View, form: EditorForm, newest: DefinitionVersion
) -> Preview:
    """Describe the newest version as it is: nothing needs to be planned to know that."""
    try:
        definition = _only(call, form.text)
        since = max(newest.now, newest.effective_from)
        return Preview(
            words=rule_words(definition),
            rule=rule_text(definition.normalised()),
            change={"changed": False, "version": newest.version},
            defaults=document_text(defaults_of(definition)),
            coming=await times_of(view.request).coming(call.connection, definition, since),
            load=await _load(call, view, definition, since),
        )
    except DueledgerError as error:
        return Preview(problem=error.message.partition("\n")[0], errors=problems_of(error))


async def _preview(call: ApiCall, view: View, form: EditorForm) -> Preview:
    """Compute what a text would change, in a transaction that is rolled back where it fails."""
    try:
        definition = _only(call, form.text)
        start = in_zone(form.effective_from, view.clock.zone)
        async with call.connection.transaction():
            planned = await plan_definitions(call, [definition], start)
            return await _describe(call, view, form, planned)
    except DueledgerError as error:
        return Preview(problem=error.message.partition("\n")[0], errors=problems_of(error))


async def _describe(
    call: ApiCall, view: View, form: EditorForm, planned: PlannedChanges
) -> Preview:
    [change] = planned.changes
    refusal = _refusal(form, change.defined)
    diff = change.preview.diff
    is_put = change.defined.changed and refusal is None
    since = planned.request.effective_from or diff.since
    return Preview(
        words=rule_words(change.definition),
        rule=rule_text(change.definition.normalised()),
        refusal=refusal,
        change=change.document(),
        changed=texts_of_values(diff.changed) if is_put and diff.base_version else [],
        affected=diff.affected if is_put else 0,
        notes=await planned.describe(call.connection),
        doubts=doubts(await planned.ask_witness()),
        defaults=document_text(defaults_of(change.definition)),
        coming=await times_of(view.request).coming(call.connection, change.definition, since),
        load=await _load(call, view, change.definition, since),
    )


def problems_of(error: DueledgerError) -> list[dict[str, Any]]:
    """Return the problems of an error as `ui.problem_box` takes them."""
    found = error.problems if isinstance(error, InvalidInput) else ()
    return [
        {"pointer": each.field, "detail": each.reason, "accepted": each.accepted} for each in found
    ]


async def _load(call: ApiCall, view: View, definition: Definition, since: datetime) -> WeekLoad:
    """Return how many items a definition owes in the days from an instant on, and when most."""
    times = times_of(view.request)
    try:
        observing = await times.observe(call.connection, definition)
        plan = await times.plan(
            [DefinitionInForce(observing, DUE_MIN, DUE_END)],
            since,
            PLAN_DAYS,
            quiet_for=_QUIET_FOR,
            occurrences_max=_PLANNED_MAX,
        )
    except DueledgerError as error:
        return WeekLoad(None, error.message)
    return WeekLoad(None, plan.not_counted[0].reason) if plan.not_counted else WeekLoad(plan, None)


def _only(call: ApiCall, text: str) -> Definition:
    """Return the one definition of a text, of one of the caller's tenants."""
    found = load_definitions(text, source=_SOURCE, calendars=None)
    if len(found) != 1:
        raise InvalidDefinition(f"The text has {len(found)} definitions; one is edited at a time.")
    require_tenants(call, found)
    return found[0]


def require_tenants(call: ApiCall, definitions: list[Definition]) -> None:
    """Raise NotFound for a definition of a tenant of others."""
    for each in definitions:
        if not call.may_reach(each.tenant):
            raise NotFound(f"The key knows no tenant {each.tenant}.", tenant=each.tenant)
