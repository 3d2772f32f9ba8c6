"""Lists to read before a decision about items, and how the results of a decision are printed."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, assert_never
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, LimitOption
from dueledger.cli.output import print_lines, print_list, print_rows, say
from dueledger.cli.session import ledger_connection, run

app = typer.Typer(rich_markup_mode=None)


class PrintedResult(NamedTuple):
    """The result of a decision by id; if it was refused, why."""

    id: UUID
    result: str
    reason: str | None


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


def print_results(results: Iterable[PrintedResult], *, as_json: bool) -> None:
    """Print the results of a decision, and end with exit code 1 if any was refused."""
    rows = [each._asdict() for each in results]
    refused = sum(row["reason"] is not None for row in rows)
    if as_json:
        print_lines(rows)
    else:
        columns = ("id", "result", "reason") if refused else ("id", "result")
        print_rows(rows, columns, empty="")
    if refused:
        say(f"{refused:,} of {len(rows):,} were refused.")
        options.exit_with(ExitCode.FAILED)


def _show_list(review_list: ReviewList, limit: int, dsn: str | None, *, as_json: bool) -> None:
    rows = run(_read(review_list, limit + 1, dsn))
    match review_list:
        case ReviewList.REVIEWS:
            columns = (
                "id",
                "kind",
                "business_key",
                "effective_date",
                "parked_at",
                "reason",
                "taken_by",
            )
            empty = "No item waits for a decision."
        case ReviewList.REJECTED:
            columns = ("rejected_at", "actor", "verb", "reason", "fence", "run_no", "item_no")
            empty = "No write was rejected."
        case _:
            assert_never(review_list)
    print_list(rows, columns, limit=limit, as_json=as_json, empty=empty)


async def _read(review_list: ReviewList, limit: int, dsn: str | None) -> list[dict[str, object]]:
    from dueledger.ledger.store.reviews import list_rejected_writes, list_reviews

    async with ledger_connection(dsn) as connection:
        if review_list is ReviewList.REVIEWS:
            return await list_reviews(connection, limit)
        return await list_rejected_writes(connection, limit)
