"""Run the demo, from the start of the servers to the result."""

import asyncio
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dueledger.demo.environment import DemoEnvironment, DemoOptions
from dueledger.demo.progress_view import ProgressView, open_view
from dueledger.demo.reconcile_demo import reconcile_demo
from dueledger.demo.result import DemoResult
from dueledger.demo.simulated_day import SETTINGS, run_day, set_up
from dueledger.dev.child_processes import forget_kafka_security, process_environment
from dueledger.dev.console_access import (
    end_access,
    make_access,
    require_console,
    wait_until_open,
)
from dueledger.dev.supervisor import Supervisor
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import PlanProfile, open_connection
from dueledger.ledger.visible_text import visible
from dueledger.stack import Endpoints, Provider, open_stack

_DIRECTORY: Final = Path(".dueledger/demo")


def run_demo(options: DemoOptions, *, console: Console, keep: bool) -> DemoResult:
    """Run the demo on its own servers. With `keep`, their data stays in .dueledger/demo/data."""
    if options.serve:
        require_console()
    forget_kafka_security()
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    with open_view(console) as view:
        data_dir = _DIRECTORY / "data" if keep else None
        with open_stack(
            Provider.EMBEDDED, data_dir=data_dir, keep=keep, progress=view.say
        ) as endpoints:
            result = asyncio.run(_run(endpoints, options, view))
    _print_result(result, console)
    if keep:
        console.print(f"The servers' data is kept in {_DIRECTORY / 'data'}.", markup=False)
    return result


async def _run(endpoints: Endpoints, options: DemoOptions, view: ProgressView) -> DemoResult:
    with (_DIRECTORY / "processes.log").open("w", encoding="utf-8") as log:
        supervisor = Supervisor(
            lambda name, line: log.write(f"{name:<14} {line}\n"),
            lambda name, line: view.say(f"{name}: {line}"),
            environment={**process_environment(endpoints), **SETTINGS},
        )
        async with open_connection(
            endpoints.dsn, application_name="dueledger-demo", profile=PlanProfile.ANALYTIC
        ) as connection:
            stage = DemoEnvironment(endpoints, options, view, supervisor, connection)
            try:
                await set_up(stage)
                items_per_second = await run_day(stage)
                result = await reconcile_demo(stage, items_per_second, report_dir=_DIRECTORY)
                if options.serve:
                    await _serve(stage)
                return result
            finally:
                await supervisor.stop_all()


async def _serve(stage: DemoEnvironment) -> None:
    """Serve the console until SIGTERM or Ctrl-C. The processes of the day go on."""
    stop = Stop()
    stop.on_signals()
    access = await make_access(stage.connection)
    await stage.supervisor.start(access.service)
    await wait_until_open(access)
    stage.view.say(f"console: {access.link}")
    stage.view.say("Ctrl-C ends it")
    await stop.wait()
    await end_access(stage.connection, access)


def _print_result(result: DemoResult, console: Console) -> None:
    """Print the accounting by kind, refused writes, watermarks, and the result."""
    columns = ("expected", "completed", "skipped", "cancelled", "superseded", "written_off", "open")
    table = Table(
        title="expected = the sum of the columns after it", title_justify="left", box=None
    )
    table.add_column("kind", no_wrap=True)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in (*result.after.accounting, result.after.totals):
        name = "all" if row is result.after.totals else row.kind
        table.add_row(Text(visible(name)), *(f"{getattr(row, column):,}" for column in columns))
    console.print()
    console.print(table)
    console.print(f"\nstale writes refused: {result.after.stale_writes}")
    for watermark in result.after.watermarks:
        blocked = f", blocked by {watermark.blocked_by}" if watermark.blocked_by else ""
        line = (
            f"complete before {watermark.complete_before or 'nothing yet'}: "
            f"{watermark.tenant} {watermark.kind}{blocked}"
        )
        console.print(visible(line), markup=False, soft_wrap=True)
    for path in result.reports:
        console.print(f"report: {path}", markup=False, soft_wrap=True)
    for failure in result.failures:
        line = visible(f"FAILED: {failure}")
        console.print(line, style="bold red", markup=False, soft_wrap=True)
    if not result.failures:
        kinds = {type_ for type_, _ in result.injected}
        console.print(
            f"Everything that was owed is accounted for. {len(result.injected)} faults of "
            f"{len(kinds)} kinds were injected; exactly these were found, and each is repaired or "
            "explained.",
            style="bold green",
        )
