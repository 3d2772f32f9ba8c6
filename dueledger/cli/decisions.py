"""Commands by which a person decides about items, by name and with a reason."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from dueledger.cli import options
from dueledger.cli.exits import Exit
from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import print_lines, print_rows, say

app = typer.Typer()

ItemsArgument = Annotated[list[UUID], typer.Argument(help="Ids of items.", metavar="ITEM…")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stands in the journal.")]


class Decision(StrEnum):
    """What a person may decide about parked or waiting items."""

    PARK = "park"
    REDRIVE = "redrive"
    WRITE_OFF = "write_off"


@app.command(rich_help_panel=options.ITEMS)
def park(
    items: ItemsArgument, reason: ReasonOption, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """Hold items that wait for a retry, until a person decides."""
    _decide(Decision.PARK, items, reason, dsn, as_json=json_)


@app.command(rich_help_panel=options.ITEMS)
def redrive(
    items: ItemsArgument, reason: ReasonOption, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """Send parked items back to work, with their attempts counted anew."""
    _decide(Decision.REDRIVE, items, reason, dsn, as_json=json_)


@app.command("write-off", rich_help_panel=options.ITEMS)
def write_off(
    items: ItemsArgument, reason: ReasonOption, json_: JsonOption = False, dsn: DsnOption = None
) -> None:
    """End parked items without doing them, in your name."""
    _decide(Decision.WRITE_OFF, items, reason, dsn, as_json=json_)


def _decide(
    decision: Decision, items: list[UUID], reason: str, dsn: str | None, *, as_json: bool
) -> None:
    from dueledger.cli.session import run

    answers = run(_ask(decision, items, reason, dsn))
    if as_json:
        print_lines(answers)
    else:
        print_rows(answers, ("id", "answer"), empty="")
    refused = [answer for answer in answers if answer["answer"] not in ("done", "requested")]
    if refused:
        say(
            f"{len(refused)} of {len(answers)} were refused; "
            "`dueledger why ITEM` says where each stands."
        )
        options.leave(Exit.FAILED)


async def _ask(
    decision: Decision, items: list[UUID], reason: str, dsn: str | None
) -> list[dict[str, object]]:
    from dueledger.cli.session import ledger_connection, person
    from ledger.store import reviews

    asks = {
        Decision.PARK: reviews.park_items,
        Decision.REDRIVE: reviews.redrive_items,
        Decision.WRITE_OFF: reviews.write_off_items,
    }
    async with ledger_connection(dsn) as connection:
        actor_no = await person(connection)
        answers = await asks[decision](connection, items, reason=reason, actor_no=actor_no)
    return [{"id": answered.id, "answer": str(answered.answer)} for answered in answers]
