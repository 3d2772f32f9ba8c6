"""Commands that record a person's decisions about items, with a reason."""

from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, LimitOption
from dueledger.cli.output import print_lines, print_rows, say
from dueledger.cli.session import ledger_connection, register_person, run

app = typer.Typer(rich_markup_mode=None)

ItemsArgument = Annotated[list[UUID], typer.Argument(help="Ids of items.", metavar="ITEM…")]


def _reason(reason: str) -> str:
    if not reason.strip():
        raise typer.BadParameter("it is empty; give the reason that the journal records")
    return reason


ReasonOption = Annotated[
    str, typer.Option("--reason", help="Reason, recorded in the journal.", callback=_reason)
]


class ItemDecision(StrEnum):
    """Decisions about parked or waiting items."""

    PARK = "park"
    REDRIVE = "redrive"
    WRITE_OFF = "write_off"


class ReviewList(StrEnum):
    """Lists to read before a decision."""

    REVIEWS = "reviews"
    REJECTED = "rejected"


@app.command()
def reviews(limit: LimitOption = 100, json_: JsonOption = False, dsn: DsnOption = None) -> None:
    """List items that wait for a person's decision, oldest first, with the reason."""
    _show_list(ReviewList.REVIEWS, limit, dsn, as_json=json_)


@app.command()
def rejected(limit: LimitOption = 100, json_: JsonOption = False, dsn: DsnOption = None) -> None:
    """List stale and illegal writes, which changed nothing, newest first."""
    _show_list(ReviewList.REJECTED, limit, dsn, as_json=json_)


@app.command()
def park(
    items: ItemsArgument, reason: ReasonOption, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """Park items that wait for a retry, until a person decides."""
    _decide(ItemDecision.PARK, items, reason, dsn, as_json=json_)


@app.command()
def redrive(
    items: ItemsArgument, reason: ReasonOption, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """Send parked items back to pending. Their attempts are counted from zero."""
    _decide(ItemDecision.REDRIVE, items, reason, dsn, as_json=json_)


@app.command("write-off")
def write_off(
    items: ItemsArgument, reason: ReasonOption, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """End parked items without doing them. The journal records your name."""
    _decide(ItemDecision.WRITE_OFF, items, reason, dsn, as_json=json_)


def _show_list(review_list: ReviewList, limit: int, dsn: str | None, *, as_json: bool) -> None:

    rows = run(_read(review_list, limit, dsn))
    if as_json:
        print_lines(rows)
        return
    match review_list:
        case ReviewList.REVIEWS:
            columns = ("id", "kind", "business_key", "effective_date", "parked_at", "reason")
            print_rows(rows, columns, empty="No item waits for a decision.")
        case ReviewList.REJECTED:
            columns = ("rejected_at", "actor", "verb", "reason", "fence", "run_no", "item_no")
            print_rows(rows, columns, empty="No write was rejected.")
        case _:
            assert_never(review_list)


async def _read(review_list: ReviewList, limit: int, dsn: str | None) -> list[dict[str, object]]:
    from dueledger.ledger.store.reviews import list_rejected_writes, list_reviews

    async with ledger_connection(dsn) as connection:
        if review_list is ReviewList.REVIEWS:
            return await list_reviews(connection, limit)
        return await list_rejected_writes(connection, limit)


def _decide(
    decision: ItemDecision, items: list[UUID], reason: str, dsn: str | None, *, as_json: bool
) -> None:

    results = run(_apply(decision, items, reason, dsn))
    if as_json:
        print_lines(results)
    else:
        print_rows(results, ("id", "result"), empty="")
    refused = [result for result in results if result["result"] not in ("done", "requested")]
    if refused:
        say(
            f"{len(refused)} of {len(results)} were refused; "
            "`dueledger why ITEM` shows the state of each."
        )
        options.exit_with(ExitCode.FAILED)


async def _apply(
    decision: ItemDecision, items: list[UUID], reason: str, dsn: str | None
) -> list[dict[str, object]]:
    from dueledger.ledger.store import reviews

    asks = {
        ItemDecision.PARK: reviews.park_items,
        ItemDecision.REDRIVE: reviews.redrive_items,
        ItemDecision.WRITE_OFF: reviews.write_off_items,
    }
    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        results = await asks[decision](connection, items, reason=reason, actor_no=actor_no)
    return [{"id": one.id, "result": str(one.result)} for one in results]
