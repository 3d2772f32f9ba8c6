"""Commands for findings: the list, one of them, and what a person decides about it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from dueledger.cli.decisions import PrintedResult, print_results
from dueledger.cli.options import DsnOption, JsonOption, LimitOption, ReasonOption, TenantOption
from dueledger.cli.output import (
    mark_capped,
    print_document,
    print_fields,
    print_lines,
    print_list,
    print_rows,
    print_text,
)
from dueledger.cli.session import PersonsChange, ledger_connection, persons_change, run
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.refusals import finding_refusal

app = typer.Typer(rich_markup_mode=None)
finding = typer.Typer(help="Show one finding, explain it, or accept it.", rich_markup_mode=None)
app.add_typer(finding, name="finding")

FindingsArgument = Annotated[
    list[UUID], typer.Argument(help="Ids of findings.", metavar="FINDING…")
]
FindingTypeOption = Annotated[
    str | None, typer.Option("--type", help="Only this type, as MISSING.")
]
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
    columns = ("id", "type", "severity", "kind", "business_key", "due_at", "resolution", "sentence")
    print_list(rows, columns, limit=limit, as_json=json_, empty="There is no finding.")


@finding.command()
def show(
    finding_id: Annotated[UUID, typer.Argument(help="Id of a finding.", metavar="FINDING")],
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
    from dueledger.ledger.errors import NotFound
    from dueledger.ledger.store.findings import show_finding

    async with ledger_connection(dsn) as connection:
        found = await show_finding(connection, finding_id)
    if found is None:
        message = f"There is no finding {finding_id}. `dueledger findings --all` lists them."
        raise NotFound(message, finding=str(finding_id))
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
    from dueledger.ledger.store.findings import resolve_findings

    async with persons_change(dsn) as change:
        results = await resolve_findings(
            change.connection, ids, resolution=resolution, reason=reason, actor_no=change.actor_no
        )
        operation = "explainFinding" if resolution is Resolution.EXPLAINED else "acceptFinding"
        await audit_decided(change, operation, "findings", results, reason)
    return results


async def audit_decided(
    change: PersonsChange, operation: str, path: str, results: Mapping[UUID, str], reason: str
) -> None:
    """Record a decision about findings or repairs, for each that is done."""
    from dueledger.ledger.store.audit import find_tenants_of_findings

    done = [each for each, result in results.items() if result == "done"]
    for each, tenant in (await find_tenants_of_findings(change.connection, done)).items():
        await change.audit(operation, f"{path}/{each}", [tenant], reason)
