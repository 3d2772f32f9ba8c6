"""Commands for findings: the list, one of them, and what a person decides about it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from dueledger.cli.decisions import PrintedResult, print_results
from dueledger.cli.options import (
    CommentOption,
    DsnOption,
    JsonOption,
    LimitOption,
    ReasonOption,
    TenantOption,
)
from dueledger.cli.output import (
    mark_capped,
    print_document,
    print_fields,
    print_lines,
    print_list,
    print_rows,
    print_text,
    say,
)
from dueledger.cli.reviews import InsteadOfOption, print_taken
from dueledger.cli.session import PersonsChange, ledger_connection, persons_change, run
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.refusals import finding_refusal

if TYPE_CHECKING:
    from dueledger.ledger.store.reviews import TakenReview

app = typer.Typer(rich_markup_mode=None)
finding = typer.Typer(help="Show, take, explain or accept findings.", rich_markup_mode=None)
app.add_typer(finding, name="finding")

FindingsArgument = Annotated[
    list[UUID], typer.Argument(help="Ids of findings.", metavar="FINDING…")
]
FindingArgument = Annotated[UUID, typer.Argument(help="Id of a finding.", metavar="FINDING")]
FindingTypeOption = Annotated[
    str | None, typer.Option("--type", help="Only this type, as MISSING.")
]
_COLUMNS: Final = (
    *("id", "type", "severity", "kind", "business_key", "due_at", "resolution", "taken_by"),
    "sentence",
)
_REPAIR_COLUMNS: Final = (
    *("id", "action", "status", "before", "after", "proposed_by", "held_because", "approved_by"),
)


def read_type(text: str | None) -> FindingType | None:
    """Return the type of findings that an option names."""
    if text is None or text in FindingType.__members__:
        return None if text is None else FindingType(text)
    from dueledger.ledger.errors import InvalidInput, Problem

    problem = Problem("--type", text, "there is no such type of finding", " | ".join(FindingType))
    raise InvalidInput("The filter cannot be used:", [problem])


@app.command()
def findings(
    all_: Annotated[bool, typer.Option("--all", help="Include closed findings.")] = False,
    tenant: TenantOption = None,
    type_: FindingTypeOption = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Only the counts by type and severity.")
    ] = False,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List what the last reconciliations found, oldest first, after counts by type and severity.

    With --json it is the list alone, or with --summary the counts.
    """
    counts, rows = run(_read(dsn, tenant, read_type(type_), limit + 1, open_only=not all_))
    if summary and json_:
        print_lines(counts)
        return
    if not json_ and (counts or summary):
        shown = [mark_capped(row) for row in counts]
        print_rows(shown, ("findings", "severity", "type"), empty="There is no finding.")
    if summary:
        return
    if counts and not json_:
        print_text("\n")
    print_list(rows, _COLUMNS, limit=limit, as_json=json_, empty="There is no finding.")


@finding.command()
def show(
    finding_id: FindingArgument,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show one finding with both sides of its evidence, who resolved it, and its repairs."""
    found = run(_show(dsn, finding_id))
    if json_:
        print_document(found)
        return
    repairs = found.pop("repairs")
    print_fields(found)
    print_rows(repairs, _REPAIR_COLUMNS, empty="It has no repair.")


@finding.command()
def take(
    finding_ids: FindingsArgument,
    instead_of: InsteadOfOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Take open findings, so that others see who decides about them and their repairs."""
    print_taken(run(_take(finding_ids, instead_of, dsn)), is_capped=False, as_json=json_)


@finding.command("return")
def return_(
    finding_ids: FindingsArgument, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """Return findings that you have taken: nobody has them then."""
    print_taken(run(_return(finding_ids, dsn)), is_capped=False, as_json=json_)


@finding.command()
def comment(finding_id: FindingArgument, text: CommentOption, dsn: DsnOption = None) -> None:
    """Write a comment on an open finding. `dueledger audit` lists it."""
    target = run(_comment(finding_id, text, dsn))
    say(f"`dueledger audit --target {target}` lists the comments.")


@finding.command()
def explain(
    finding_ids: FindingsArgument,
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Record why open findings are not wrong. They stay listed as explained."""
    _resolve(Resolution.EXPLAINED, finding_ids, reason, dsn, as_json=json_)


@finding.command()
def accept(
    finding_ids: FindingsArgument,
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Record that open findings are wrong and stay so. Nothing repairs them any more."""
    _resolve(Resolution.ACCEPTED, finding_ids, reason, dsn, as_json=json_)


async def _read(
    dsn: str | None, tenant: str | None, type_: FindingType | None, limit: int, *, open_only: bool
) -> tuple[Sequence[dict[str, object]], Sequence[dict[str, object]]]:
    """Return the counts by type and severity, and the list."""
    from dueledger.ledger.store.findings import count_findings, list_findings

    async with ledger_connection(dsn) as connection:
        counts = await count_findings(connection, open_only=open_only, tenant=tenant, type_=type_)
        rows = await list_findings(
            connection, open_only=open_only, tenant=tenant, type_=type_, page_size=limit
        )
    return [dict(row) for row in counts], [dict(row) for row in rows]


async def _show(dsn: str | None, finding_id: UUID) -> dict[str, Any]:
    from dueledger.ledger.store.findings import show_finding
    from dueledger.reviews import unknown_finding

    async with ledger_connection(dsn) as connection:
        found = await show_finding(connection, finding_id)
    if found is None:
        raise unknown_finding(finding_id)
    return found


def _resolve(
    resolution: Resolution, ids: Sequence[UUID], reason: str, dsn: str | None, *, as_json: bool
) -> None:
    results = run(_record(resolution, ids, reason, dsn))
    print_results(
        [PrintedResult(each, result, finding_refusal(result)) for each, result in results.items()],
        as_json=as_json,
    )


async def _record(
    resolution: Resolution, ids: Sequence[UUID], reason: str, dsn: str | None
) -> dict[UUID, str]:
    from dueledger.audited_changes import resolution_detail
    from dueledger.ledger.store.findings import resolve_findings

    async with persons_change(dsn) as change:
        results = await resolve_findings(
            change.connection, ids, resolution=resolution, reason=reason, actor_no=change.actor_no
        )
        operation = "explainFinding" if resolution is Resolution.EXPLAINED else "acceptFinding"
        detail = resolution_detail(resolution)
        await audit_decided(change, operation, "findings", results, reason, **detail)
    return results


async def _take(
    ids: Sequence[UUID], instead_of: str | None, dsn: str | None
) -> "Sequence[TakenReview]":
    from dueledger.ledger.store.reviews import take_findings

    async with persons_change(dsn) as change:
        taken = await take_findings(
            change.connection, ids, actor_no=change.actor_no, instead_of=instead_of
        )
        named = {} if instead_of is None else {"instead_of": instead_of}
        await _audit_taken(change, "takeFinding", taken, **named)
    return taken


async def _return(ids: Sequence[UUID], dsn: str | None) -> "Sequence[TakenReview]":
    from dueledger.ledger.store.reviews import return_findings

    async with persons_change(dsn) as change:
        returned = await return_findings(change.connection, ids, actor_no=change.actor_no)
        await _audit_taken(change, "returnFinding", returned)
    return returned


async def _audit_taken(
    change: PersonsChange, operation: str, taken: "Sequence[TakenReview]", **detail: str
) -> None:
    from dueledger.audited_changes import taken_detail
    from dueledger.ledger.store.audit import find_tenants_of_findings

    changed = {each.id: taken_detail([each]) for each in taken if each.is_changed}
    tenants = await find_tenants_of_findings(change.connection, list(changed))
    for each, tenant in tenants.items():
        named = {**detail, **changed[each]}
        await change.audit(operation, f"findings/{each}", [tenant], **named)


async def _comment(finding_id: UUID, text: str, dsn: str | None) -> str:
    from dueledger.reviews import find_commented_finding

    async with persons_change(dsn) as change:
        target, tenant = await find_commented_finding(change.connection, finding_id)
        await change.audit("commentOnFinding", target, [tenant], comment=text)
    return target


async def audit_decided(
    change: PersonsChange,
    operation: str,
    path: str,
    results: Mapping[UUID, str],
    reason: str,
    **detail: object,
) -> None:
    """Record a decision about findings or repairs, for each that is done."""
    from dueledger.ledger.store.audit import find_tenants_of_findings

    done = [each for each, result in results.items() if result == "done"]
    for each, tenant in (await find_tenants_of_findings(change.connection, done)).items():
        await change.audit(operation, f"{path}/{each}", [tenant], reason, **detail)
