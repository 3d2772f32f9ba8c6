"""Commands for parked items before a decision: who has taken them, and comments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.item_decisions import ErrorOption, ItemsArgument, ParkedReasonOption
from dueledger.cli.options import (
    CommentOption,
    DsnOption,
    JsonOption,
    KindOption,
    LaneOption,
    TenantOption,
)
from dueledger.cli.output import print_lines, print_rows, say
from dueledger.cli.session import persons_change, run

if TYPE_CHECKING:
    from dueledger.ledger.store.reviews import ParkedFilter, TakenReview

app = typer.Typer(rich_markup_mode=None)
review = typer.Typer(help="Take parked items, return them, or comment.", rich_markup_mode=None)
app.add_typer(review, name="review")

InsteadOfOption = Annotated[
    str | None,
    typer.Option("--instead-of", help="Take those of this one, too, as in key:bob.", metavar="WHO"),
]


@review.command()
def take(
    items: ItemsArgument = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    parked_reason: ParkedReasonOption = None,
    error: ErrorOption = None,
    instead_of: InsteadOfOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Take parked items, so that others see who decides about them. It hinders nobody.

    Name them by id, or by --tenant and --kind: then the first 1,000 of the group are taken.
    """
    wanted = _filter_of(items, tenant, kind, lane, parked_reason, error)
    print_taken(*run(_take(items, wanted, instead_of, dsn)), as_json=json_)


@review.command("return")
def return_(
    items: ItemsArgument = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    parked_reason: ParkedReasonOption = None,
    error: ErrorOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Return parked items that you have taken: nobody has them then."""
    wanted = _filter_of(items, tenant, kind, lane, parked_reason, error)
    print_taken(*run(_return(items, wanted, dsn)), as_json=json_)


@review.command()
def comment(
    text: CommentOption,
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant of the items.")],
    item: Annotated[
        UUID | None, typer.Argument(help="Id of a parked item.", metavar="[ITEM]")
    ] = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    parked_reason: ParkedReasonOption = None,
    error: ErrorOption = None,
    dsn: DsnOption = None,
) -> None:
    """Write a comment on a parked item, or on a group of them. `dueledger audit` lists it."""
    wanted = _filter_of(None if item is None else [item], tenant, kind, lane, parked_reason, error)
    target = run(_comment(text, tenant, item, wanted, dsn))
    say(f"`dueledger audit --target {target}` lists the comments.")


def _filter_of(
    items: Sequence[UUID] | None,
    tenant: str | None,
    kind: str | None,
    lane: str | None,
    parked_reason: str | None,
    error: str | None,
) -> "ParkedFilter":
    """Return the group that is meant; raise BadParameter unless ids or a group is named."""
    from dueledger.ledger.store.reviews import ParkedFilter

    group = (kind, lane, parked_reason, error)
    if items and any(each is not None for each in group):
        raise typer.BadParameter("ids, or --tenant and --kind; not both", param_hint="--kind")
    if not items and (tenant is None or kind is None):
        raise typer.BadParameter("name parked items: ids, or --tenant and --kind")
    return ParkedFilter(tenant or "", *group)


def print_taken(found: "Sequence[TakenReview]", is_capped: bool, *, as_json: bool) -> None:
    """Print who has what was asked for, and end with exit code 1 if any stays as it was."""
    rows = [
        {
            "id": each.id,
            "result": each.result.value,
            "taken_by": each.taken_by,
            "taken_at": each.taken_at,
        }
        for each in found
    ]
    if as_json:
        print_lines(rows)
    else:
        print_rows(rows, ("id", "result", "taken_by", "taken_at"), empty="")
    if is_capped:
        say("The group may have more items: repeat it once these are decided.")
    if refused := sum(row["result"] != "done" for row in rows):
        say(f"{refused:,} of {len(rows):,} stay as they were; --instead-of takes those of others.")
        options.exit_with(ExitCode.FAILED)


async def _take(
    items: Sequence[UUID] | None, wanted: "ParkedFilter", instead_of: str | None, dsn: str | None
) -> "tuple[Sequence[TakenReview], bool]":
    from dueledger.audited_changes import taken_detail
    from dueledger.ledger.store.reviews import take_reviews
    from dueledger.reviews import find_group

    async with persons_change(dsn) as change:
        ids, is_capped = (items, False) if items else await find_group(change.connection, wanted)
        found = await take_reviews(
            change.connection, ids, actor_no=change.actor_no, instead_of=instead_of
        )
        if changed := sum(each.is_changed for each in found):
            named = {} if instead_of is None else {"instead_of": instead_of}
            named |= taken_detail(found)
            target, tenants = _audited(wanted)
            await change.audit("takeReviews", target, tenants, items=changed, **named)
    return found, is_capped


async def _return(
    items: Sequence[UUID] | None, wanted: "ParkedFilter", dsn: str | None
) -> "tuple[Sequence[TakenReview], bool]":
    from dueledger.audited_changes import taken_detail
    from dueledger.ledger.store.reviews import return_reviews
    from dueledger.reviews import find_group

    async with persons_change(dsn) as change:
        ids, is_capped = (items, False) if items else await find_group(change.connection, wanted)
        found = await return_reviews(change.connection, ids, actor_no=change.actor_no)
        if changed := sum(each.is_changed for each in found):
            target, tenants = _audited(wanted)
            detail = taken_detail(found)
            await change.audit("returnReviews", target, tenants, items=changed, **detail)
    return found, is_capped


def _audited(wanted: "ParkedFilter") -> tuple[str, Sequence[str] | None]:
    """Return what the audit names, and the tenants: of ids alone, the whole ledger's."""
    if not wanted.tenant:
        return "items", None
    return f"tenants/{wanted.tenant}/reviews", [wanted.tenant]


async def _comment(
    text: str, tenant: str, item: UUID | None, wanted: "ParkedFilter", dsn: str | None
) -> str:
    from dueledger.reviews import find_commented

    async with persons_change(dsn) as change:
        target = await find_commented(change.connection, wanted, item)
        group = {"parked_reason": wanted.parked_reason, "error": wanted.error}
        given = {name: value for name, value in group.items() if value is not None}
        await change.audit("commentOnReviews", target, [tenant], comment=text, **given)
    return target
