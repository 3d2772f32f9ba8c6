"""Commands that apply a verb to items: to those named, or to all of a filter by an operation.

Items named by id or business key are decided at once. A filter shows how many items it matches;
with --execute it is recorded as an operation, which upkeep carries out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final
from uuid import UUID

import typer

from dueledger.cli.decisions import PrintedResult, print_results
from dueledger.cli.options import (
    DsnOption,
    JsonOption,
    KindOption,
    LaneOption,
    ReasonOption,
    TenantOption,
    read_instant,
    read_later,
)
from dueledger.cli.output import print_document, print_fields, print_rows, say
from dueledger.cli.session import ledger_connection, persons_change, run
from dueledger.time_spans import about

if TYPE_CHECKING:
    from dueledger.ledger.item_verbs import OperationVerb
    from dueledger.ledger.store import Connection
    from dueledger.ledger.store.operations import ItemFilter, OperationPreview

app = typer.Typer(rich_markup_mode=None)

_PREVIEW_KEYS: Final = 3
"""Business keys of a group that a table has."""

ItemsArgument = Annotated[
    list[UUID] | None, typer.Argument(help="Ids of items.", metavar="[ITEM…]")
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--business-key",
        help="Items of this business key; needs --tenant, and may be repeated.",
        metavar="KEY",
    ),
]
ParkedReasonOption = Annotated[
    str | None,
    typer.Option(
        "--parked-reason",
        help="Only items that are parked for this reason, as `dueledger reviews` shows it.",
        metavar="TEXT",
    ),
]
ErrorOption = Annotated[
    str | None,
    typer.Option(
        "--error",
        help="Only items whose last error is of this class, as TimeoutError.",
        metavar="CLASS",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Only items that came into their state then or later, as were parked or failed.",
        metavar="TIME",
    ),
]
DueFromOption = Annotated[
    str | None,
    typer.Option("--due-from", help="Only items that are due then or later.", metavar="TIME"),
]
DueBeforeOption = Annotated[
    str | None,
    typer.Option("--due-before", help="Only items that are due before then.", metavar="TIME"),
]
UntilOption = Annotated[
    str,
    typer.Option(
        "--until",
        help="When they may be handed out: an instant, or a duration from now, as PT2H.",
        metavar="TIME",
    ),
]
ExecuteOption = Annotated[
    bool,
    typer.Option(
        "--execute",
        help="Record the operation on all items of the filter; default is to count them.",
    ),
]


@dataclass(frozen=True, slots=True)
class ItemSelection:
    """The items that a command names: ids, or business keys, or a filter. None: not given."""

    ids: Sequence[UUID] | None = None
    business_keys: Sequence[str] | None = None
    tenant: str | None = None
    kind: str | None = None
    lane: str | None = None
    parked_reason: str | None = None
    error: str | None = None
    since: str | None = None
    due_from: str | None = None
    due_before: str | None = None


@app.command()
def park(
    reason: ReasonOption,
    items: ItemsArgument = None,
    business_key: KeyOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    execute: ExecuteOption = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Park items that wait for a retry, until a person decides."""
    named = items, business_key, tenant, kind, lane
    selection = ItemSelection(*named, None, error, since, due_from, due_before)
    decide("park", selection, reason, dsn, execute=execute, as_json=json_)


@app.command()
def redrive(
    reason: ReasonOption,
    items: ItemsArgument = None,
    business_key: KeyOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    parked_reason: ParkedReasonOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    execute: ExecuteOption = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Send parked items back to pending. Their attempts are counted from zero."""
    named = items, business_key, tenant, kind, lane
    selection = ItemSelection(*named, parked_reason, error, since, due_from, due_before)
    decide("redrive", selection, reason, dsn, execute=execute, as_json=json_)


@app.command("write-off")
def write_off(
    reason: ReasonOption,
    items: ItemsArgument = None,
    business_key: KeyOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    parked_reason: ParkedReasonOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    execute: ExecuteOption = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """End parked items without doing them. The journal records your name."""
    named = items, business_key, tenant, kind, lane
    selection = ItemSelection(*named, parked_reason, error, since, due_from, due_before)
    decide("write_off", selection, reason, dsn, execute=execute, as_json=json_)


@app.command()
def snooze(
    until: UntilOption,
    reason: ReasonOption,
    items: ItemsArgument = None,
    business_key: KeyOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    execute: ExecuteOption = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Let items that wait be handed out later. Their due times stay: they may become late.

    Those that wait as long anyway, or for their key, are left alone.
    """
    named = items, business_key, tenant, kind, lane
    selection = ItemSelection(*named, None, error, since, due_from, due_before)
    later = read_later(until, "--until")
    decide("snooze", selection, reason, dsn, execute=execute, as_json=json_, later=later)


@app.command()
def cancel(
    reason: ReasonOption,
    items: ItemsArgument = None,
    business_key: KeyOption = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    parked_reason: ParkedReasonOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    due_from: DueFromOption = None,
    due_before: DueBeforeOption = None,
    execute: ExecuteOption = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """End items that are no longer owed. Those in flight end at their next start, or complete.

    With --parked-reason, --error or --since, those in flight are not meant.
    """
    named = items, business_key, tenant, kind, lane
    selection = ItemSelection(*named, parked_reason, error, since, due_from, due_before)
    decide("cancel", selection, reason, dsn, execute=execute, as_json=json_)


def decide(
    verb: str,
    selection: ItemSelection,
    reason: str,
    dsn: str | None,
    *,
    execute: bool,
    as_json: bool,
    later: datetime | timedelta | None = None,
) -> None:
    """Apply a verb to the items that are named; of a filter, count them or record an operation.

    `later` is of snooze: until when, or how long from now by the ledger's clock.
    """
    named = bool(selection.ids or selection.business_keys)
    _check(selection, named=named, execute=execute)
    if named:
        print_results(run(_apply(verb, selection, reason, dsn, later=later)), as_json=as_json)
        return
    items = _filter_of(selection)
    if execute:
        operation = run(_record(verb, items, reason, dsn, later=later))
        if operation is None:
            say("No item matches; no operation was recorded.")
            return
        if as_json:
            print_document(operation)
        else:
            print_fields({name: value for name, value in operation.items() if value is not None})
        number = operation["operation_no"]
        if operation["awaits_approval"]:
            say(
                f"It waits for a second person: `dueledger operation approve {number} --reason …`, "
                "by somebody else than you. Then upkeep carries it out."
            )
        else:
            say("Upkeep carries it out.")
        say(
            f"`dueledger operation show {number}` shows its progress; "
            f"`dueledger operation abort {number} --reason …` ends it, `pause` pauses it."
        )
    else:
        _print_preview(*run(_preview(verb, items, dsn, later=later)), as_json=as_json)


def _check(selection: ItemSelection, *, named: bool, execute: bool) -> None:
    """Refuse a selection whose parts contradict each other, or that names nothing."""
    given = {
        each.name.replace("_", "-")
        for each in fields(selection)
        if getattr(selection, each.name) not in (None, [])
    }
    if not given:
        raise typer.BadParameter(
            "name items: ids, --business-key with --tenant, or a filter such as --tenant and --kind"
        )
    if selection.business_keys and selection.tenant is None:
        raise typer.BadParameter("a business key needs its tenant", param_hint="--tenant")
    if named and execute:
        raise typer.BadParameter(
            "items that are named are decided at once; leave it out", param_hint="--execute"
        )
    permitted = {"ids"} if selection.ids else {"business-keys", "tenant", "kind", "lane"}
    for name in sorted(given - permitted) if named else ():
        other = "ids" if selection.ids else "business keys"
        hint = "--business-key" if name == "business-keys" else f"--{name}"
        raise typer.BadParameter(f"it cannot be combined with {other}", param_hint=hint)


def _print_preview(preview: "OperationPreview", seconds: float | None, *, as_json: bool) -> None:
    groups = [
        {each.name: getattr(group, each.name) for each in fields(group)} for group in preview.groups
    ]
    if as_json:
        counts = {"items": preview.items, "capped": preview.capped, "seconds": seconds}
        approval = {name: getattr(preview, name) for name in ("approval_above", "needs_approval")}
        print_document({**counts, **approval, "groups": groups})
    else:
        columns = ("tenant", "kind", "lane", "state", "items", "oldest_at", "newest_at")
        shown = [
            {**group, "business_keys": group["business_keys"][:_PREVIEW_KEYS]} for group in groups
        ]
        print_rows(shown, (*columns, "business_keys"), empty="No item matches.")
    counted = f"at least {preview.items:,}" if preview.capped else f"{preview.items:,}"
    if groups or preview.capped:
        takes = "" if seconds is None else f", {about(timedelta(seconds=seconds))} of work"
        say(f"It would be {counted} items{takes}. Nothing was changed; --execute does it.")
    if preview.needs_approval:
        above = f"{preview.approval_above:,}"
        say(f"It would wait for a second person: a policy asks for one above {above} items.")


def _filter_of(selection: ItemSelection) -> "ItemFilter":
    from dueledger.ledger.store.operations import ItemFilter

    def instant(given: str | None, option: str) -> datetime | None:
        return None if given is None else read_instant(given, option)

    return ItemFilter(
        selection.tenant,
        selection.kind,
        selection.lane,
        selection.parked_reason,
        selection.error,
        instant(selection.since, "--since"),
        due_from=instant(selection.due_from, "--due-from"),
        due_before=instant(selection.due_before, "--due-before"),
    )


async def _resolve(
    connection: "Connection", verb: "OperationVerb", later: datetime | timedelta | None
) -> datetime | None:
    """Return until when items are snoozed, by the ledger's clock. Raises InvalidInput."""
    from dueledger.decisions import check_until
    from dueledger.ledger.store.clock import read_now

    until = await read_now(connection) + later if isinstance(later, timedelta) else later
    await check_until(connection, verb, until, "--until")
    return until


async def _apply(
    verb: str,
    selection: ItemSelection,
    reason: str,
    dsn: str | None,
    *,
    later: datetime | timedelta | None,
) -> list[PrintedResult]:
    from dueledger.audited_changes import decision_detail
    from dueledger.decisions import KeyedItems, decide_items, find_named
    from dueledger.ledger.item_verbs import OperationVerb

    known = OperationVerb(verb)
    keyed = KeyedItems(
        selection.business_keys or (),
        selection.tenant or "",
        selection.kind,
        selection.lane,
        "--business-key",
    )
    async with persons_change(dsn) as change:
        until = await _resolve(change.connection, known, later)
        ids = selection.ids or await find_named(change.connection, known, keyed)
        results = await decide_items(
            change.connection, known, ids, reason=reason, actor_no=change.actor_no, until=until
        )
        if any(each.is_accepted for each in results):
            tenant = selection.tenant
            target = "items" if tenant is None else f"tenants/{tenant}"
            tenants = None if tenant is None else [tenant]
            detail = decision_detail(known, results, until)
            await change.audit("decideItems", target, tenants, reason, **detail)
    return [PrintedResult(each.id, each.result.value, each.reason) for each in results]


async def _preview(
    verb: str, items: "ItemFilter", dsn: str | None, *, later: datetime | timedelta | None
) -> "tuple[OperationPreview, float | None]":
    """Count the items, and estimate how long they take if the tenant's last operations say so."""
    from dueledger.ledger.item_verbs import OperationVerb
    from dueledger.ledger.store.operations import estimate_seconds, preview_operation

    known = OperationVerb(verb)
    async with ledger_connection(dsn) as connection:
        until = await _resolve(connection, known, later)
        found = await preview_operation(connection, known, items, until=until)
        if items.tenant is None:
            return found, None
        return found, await estimate_seconds(connection, known, items.tenant, found.items)


async def _record(
    verb: str,
    items: "ItemFilter",
    reason: str,
    dsn: str | None,
    *,
    later: datetime | timedelta | None,
) -> dict[str, object] | None:
    from dueledger.decisions import detail_of
    from dueledger.ledger.item_verbs import OperationVerb
    from dueledger.ledger.store.operations import record_operation, show_operation

    known = OperationVerb(verb)
    async with persons_change(dsn) as change:
        until = await _resolve(change.connection, known, later)
        operation_no = await record_operation(
            change.connection,
            known,
            items,
            reason=reason,
            actor_no=change.actor_no,
            until=until,
        )
        if operation_no is None:
            return None
        target = f"operations/{operation_no}"
        tenants = None if items.tenant is None else [items.tenant]
        detail = {"verb": verb, **detail_of(until)}
        await change.audit("createOperation", target, tenants, reason, **detail)
        return await show_operation(change.connection, operation_no)
