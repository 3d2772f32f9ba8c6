"""Commands that record a person's decisions about items, with a reason."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Final, assert_never
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, LimitOption, ReasonOption
from dueledger.cli.output import print_lines, print_rows, say
from dueledger.cli.session import ledger_connection, register_person, run

app = typer.Typer(rich_markup_mode=None)

_ACCEPTED: Final = frozenset({"done", "requested"})

ItemsArgument = Annotated[list[UUID], typer.Argument(help="Ids of items.", metavar="ITEM…")]


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


def print_results(
    results: Mapping[UUID, str],
    explain: Callable[[Mapping[UUID, str]], Iterable[str]],
    *,
    as_json: bool,
) -> None:
    """Print the result of a decision by id, and end with exit code 1 if any was refused.

    `explain` returns sentences about the refused ones, of which there is at least one.
    """
    rows = [{"id": identity, "result": result} for identity, result in results.items()]
    if as_json:
        print_lines(rows)
    else:
        print_rows(rows, ("id", "result"), empty="")
    refused = {each: result for each, result in results.items() if result not in _ACCEPTED}
    if not refused:
        return
    for sentence in explain(refused):
        say(sentence)
    say(f"{len(refused):,} of {len(results):,} were refused.")
    options.exit_with(ExitCode.FAILED)


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
    print_results(
        results, lambda _: ("`dueledger why ITEM` shows the state of an item.",), as_json=as_json
    )


async def _apply(
    decision: ItemDecision, items: list[UUID], reason: str, dsn: str | None
) -> dict[UUID, str]:
    from dueledger.ledger.store import reviews

    asks = {
        ItemDecision.PARK: reviews.park_items,
        ItemDecision.REDRIVE: reviews.redrive_items,
        ItemDecision.WRITE_OFF: reviews.write_off_items,
    }
    async with ledger_connection(dsn) as connection:
        actor_no = await register_person(connection)
        results = await asks[decision](connection, items, reason=reason, actor_no=actor_no)
    return {one.id: one.result.value for one in results}
