"""Commands for single items: emit, list, show and explain."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, KindOption, LimitOption, TenantOption
from dueledger.cli.output import print_document, print_fields, print_list, print_rows, say
from dueledger.cli.session import ledger_connection, register_person, run

if TYPE_CHECKING:
    from dueledger.items import ListedItems
    from dueledger.ledger.store import Connection
    from dueledger.ledger.store.item_lists import ItemListFilter, Label

app = typer.Typer(rich_markup_mode=None)

EXAMINED_MAX = 200_000
"""Items that a list without `--key` looks at."""


@app.command()
def emit(
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant that owes the item.")],
    kind: Annotated[str, typer.Option("--kind", help="Kind of the item, as in PolicyRenewalDue.")],
    key: Annotated[str, typer.Option("--key", help="Business key, as a policy number.")],
    effective_date: Annotated[
        str, typer.Option("--effective-date", help="The business date, as 2027-03-31.")
    ],
    due_at: Annotated[str, typer.Option("--due-at", help="Due time; UTC if it has no offset.")],
    cycle: Annotated[str, typer.Option("--cycle", help="Cycle, as 2027.")] = "",
    lane: Annotated[
        str, typer.Option("--lane", help="Lane that separates flows, as a region.")
    ] = "",
    payload: Annotated[str, typer.Option("--payload", help="JSON for the handler.")] = "{}",
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Emit one item. Repeating it with the same key, cycle and date changes nothing."""
    emitted = run(
        emit_item(
            dsn,
            tenant=tenant,
            kind=kind,
            key=key,
            effective_date=effective_date,
            due_at=due_at,
            cycle=cycle,
            lane=lane,
            payload=payload,
        )
    )
    if json_:
        print_document(emitted)
    else:
        print_fields(emitted)


async def emit_item(
    dsn: str | None,
    *,
    tenant: str,
    kind: str,
    key: str,
    effective_date: str,
    due_at: str,
    cycle: str,
    lane: str,
    payload: str,
) -> dict[str, object]:
    """Emit the item that the options of the command describe."""
    from dueledger.ledger.rules.drafts import ItemDraft
    from dueledger.ledger.store.items import emit_items

    draft = ItemDraft(
        tenant=tenant,
        kind=kind,
        lane=lane,
        business_key=key,
        cycle=cycle,
        effective_date=options.read_date(effective_date, "--effective-date"),
        due_at=options.read_instant(due_at, "--due-at"),
        payload=payload,
    )
    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        [emitted] = await emit_items(connection, [draft], actor_no=actor_no)
    return {"id": emitted.id, "created": emitted.created}


@app.command("items")
def list_them(
    tenant: TenantOption = None,
    kind: KindOption = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this business key.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="Only in this state, as in ManualReview.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Only with this label.", metavar="NAME=VALUE"),
    ] = None,
    late: Annotated[
        bool, typer.Option("--late", help="Only open items past their SLA, first due first.")
    ] = False,
    due_before: Annotated[
        str | None,
        typer.Option(
            "--due-before",
            help="Only open items due before this instant, first due first.",
            metavar="INSTANT",
        ),
    ] = None,
    attempt_min: Annotated[
        int | None,
        typer.Option(
            "--attempt-min",
            help="Only open items that were tried so often, first due first; with a --state in "
            "which items end, those that ended in such an attempt.",
            min=1,
            max=32_767,
        ),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(
            "--worker",
            help="Only items that run at this worker, first due first; with a --state in which "
            "items end, those that ended there.",
        ),
    ] = None,
    definition: Annotated[
        str | None,
        typer.Option("--definition", help="Only items of this definition; needs --tenant."),
    ] = None,
    definition_version: Annotated[
        int | None,
        typer.Option("--definition-version", help="Only items of this version of it.", min=1),
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="The earliest effective date first.")
    ] = False,
    limit: LimitOption = 50,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List items with their states, latest effective date first unless asked otherwise."""
    from dueledger.ledger.store.item_lists import ItemListFilter

    until = None if due_before is None else options.read_due_instant(due_before, "--due-before")
    wanted = ItemListFilter(
        tenant=tenant,
        kind=kind,
        business_key=key,
        state=state,
        label=_read_label(label),
        due_before=until,
        attempt_min=attempt_min,
        worker=worker,
    )
    of_version = definition, definition_version
    found = run(_list(dsn, wanted, of_version, limit, late=late, oldest_first=oldest_first))
    columns = (
        "id",
        "kind",
        "business_key",
        "cycle",
        "effective_date",
        "due_at",
        "state",
        "attempt",
    )
    items = [{name: item[name] for name in item if name != "item_no"} for item in found.items]
    print_list(
        items,
        columns,
        limit=limit,
        as_json=json_,
        empty="No item was found.",
        has_more=found.next_place is not None and len(items) == limit,
    )
    if found.is_cut:
        say("Flows have more open items than are read at a time: others may be late, too.")
    elif found.next_place is not None and len(items) < limit:
        say(f"Only {EXAMINED_MAX:,} items were examined: others may match. Name a key or a state.")


def _read_label(text: str | None) -> "Label | None":
    from dueledger.ledger.store.item_lists import Label

    if text is None:
        return None
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--label")
    return Label(name, value)


async def _list(
    dsn: str | None,
    wanted: "ItemListFilter",
    of_version: tuple[str | None, int | None],
    limit: int,
    *,
    late: bool,
    oldest_first: bool,
) -> "ListedItems":
    from dueledger.items import lists_open_items, of_definition, page_items, page_open_items

    is_open = wanted.due_before is not None
    only_open = lists_open_items(wanted, late=late, is_open=is_open)
    async with ledger_connection(dsn) as connection:
        wanted = await of_definition(connection, wanted, *of_version)
        if only_open:
            return await page_open_items(connection, wanted, limit=limit, late=late)
        return await page_items(
            connection,
            wanted,
            limit=limit,
            examined_max=EXAMINED_MAX,
            oldest_first=oldest_first,
        )


@app.command()
def show(
    item: Annotated[str, typer.Argument(help="An item's id, or a business key that has one item.")],
    limit: LimitOption = 1_000,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show one item and its history, its first `--limit` steps."""
    shown = run(_show(dsn, item, limit + 1))
    steps: Sequence[Mapping[str, object]] = shown["timeline"]
    shown["timeline"] = steps[:limit]
    if len(steps) > limit:
        say(f"It has more than {limit:,} steps; only the first {limit:,} are shown (--limit).")
    if json_:
        print_document(shown)
        return
    fields = {name: value for name, value in shown.items() if value is not None}
    timeline: Sequence[Mapping[str, object]] = fields.pop("timeline")
    print_fields(fields)
    print_rows(timeline, ("at", "event", "actor", "fence", "detail"), empty="")


async def _show(dsn: str | None, item: str, limit: int) -> dict[str, Any]:
    from dueledger.ledger.store.items import item_timeline

    async with ledger_connection(dsn) as connection:
        found = await _find(connection, item)
        steps = await item_timeline(connection, found["id"], limit=limit)
        for step in steps:
            del step["number"]
        return {**found, "timeline": steps}


@app.command()
def why(
    item: Annotated[str, typer.Argument(help="An item's id, or a business key that has one item.")],
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Explain why an item has not been done yet, in one sentence, and what to do."""
    document = run(_why(dsn, item))
    if json_:
        print_document(document)
    else:
        print_fields({name: value for name, value in document.items() if value is not None})


async def _why(dsn: str | None, item: str) -> dict[str, object]:
    from dueledger.items import explain_item

    async with ledger_connection(dsn) as connection:
        return await explain_item(connection, await _find(connection, item))


async def _find(connection: "Connection", item: str) -> dict[str, Any]:
    """Find one item by id, or by a business key that names no second one."""
    from dueledger.items import read_item
    from dueledger.ledger.errors import Conflict, NotFound
    from dueledger.ledger.store.item_lists import ItemListFilter, list_items

    try:
        identity = UUID(item)
    except ValueError:
        named = (await list_items(connection, ItemListFilter(business_key=item), limit=5)).items
        if len(named) > 1:
            ids = ", ".join(str(row["id"]) for row in named)
            raise Conflict(
                f"{item} has several items: {ids}. Name one by its id.", key=item
            ) from None
        if not named:
            raise NotFound(f"No item has the business key {item}.", key=item) from None
        identity = named[0]["id"]
    return await read_item(connection, identity)
