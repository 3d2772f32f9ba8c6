"""Commands that run until they are told to stop, or make one pass."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.exits import Exit
from dueledger.cli.options import DsnOption, KafkaOption, OnceOption
from dueledger.cli.output import print_document

if TYPE_CHECKING:
    from ledger.service import Counts
    from workers import Handlers

app = typer.Typer()


@app.command(rich_help_panel=options.PROCESSES)
def allocate(
    once: OnceOption = False, dsn: DsnOption = None, bootstrap_servers: KafkaOption = None
) -> None:
    """Claim what is due and publish it to Kafka. Any number may run."""
    from dueledger.cli.session import run

    run(_allocate(dsn, bootstrap_servers, once=once))


async def _allocate(dsn: str | None, bootstrap_servers: str | None, *, once: bool) -> None:
    from allocator import AllocatorSettings, open_allocator, run_allocator
    from dueledger.cli.session import process_stop, read_settings

    settings = read_settings(AllocatorSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        if not once:
            await run_allocator(settings, stop)
            return
        async with open_allocator(settings, stop=stop) as allocator:
            await _pass(allocator.tick)


@app.command(rich_help_panel=options.PROCESSES)
def work(
    handlers: Annotated[
        list[str], typer.Argument(help="Where handlers are, as in app.renewals:handlers.")
    ],
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Take due items from Kafka and run their handlers. Any number may run."""
    from dueledger.cli.handlers import load_handlers
    from dueledger.cli.session import run

    run(_work(load_handlers(handlers), dsn, bootstrap_servers))


async def _work(handlers: "Handlers", dsn: str | None, bootstrap_servers: str | None) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from workers import WorkerSettings, run_worker

    settings = read_settings(WorkerSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        await run_worker(settings, handlers, stop)


async def _pass(tick: "Callable[[], Awaitable[Counts]]") -> None:
    print_document(dict(await tick()))
