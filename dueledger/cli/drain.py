"""The command that asks a process to drain and stop, wherever it runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, ReasonOption
from dueledger.cli.output import print_document, say
from dueledger.cli.session import persons_change, run
from dueledger.refusals import drain_refusal

if TYPE_CHECKING:
    from dueledger.ledger.store.processes import DrainResult

app = typer.Typer(rich_markup_mode=None)


@app.command()
def drain(
    process: Annotated[
        str, typer.Argument(help="Name of a process, as its log and *System* show it.")
    ],
    reason: ReasonOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Ask a process to drain and stop, as SIGTERM does. It reads that within a second.

    The name is that of one incarnation: what is started in its place is not asked.
    """
    result = run(_drain(process, reason, dsn))
    refusal = drain_refusal(result)
    if json_:
        print_document({"name": process, "result": result.value, "reason": refusal})
    if refusal is not None:
        say(f"The process is not asked to drain: {refusal}.")
        options.exit_with(ExitCode.FAILED)
    if not json_:
        say("It was asked before." if result == "asked" else "It is asked to drain and stop.")


async def _drain(process: str, reason: str, dsn: str | None) -> "DrainResult":
    from dueledger.audited_changes import DRAINED
    from dueledger.ledger.store.processes import DrainResult, request_drain

    async with persons_change(dsn) as change:
        result = await request_drain(
            change.connection, process, reason=reason, actor_no=change.actor_no
        )
        if result is DrainResult.DONE:
            await change.audit("drainProcess", f"processes/{process}", None, reason, **DRAINED)
    return result
