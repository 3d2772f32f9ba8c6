"""Commands that run until they are told to stop, or make one pass."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, KafkaOption, OnceOption
from dueledger.cli.output import print_document

if TYPE_CHECKING:
    from ledger.service import Counts
    from workers import Handlers

app = typer.Typer()


@app.command(rich_help_panel=options.PROCESSES)
def allocate(
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
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
    json_: JsonOption = False,  # noqa: ARG001 - only an error at the start is a document
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


@app.command(rich_help_panel=options.PROCESSES)
def intake(
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Turn domain events from Kafka into what is owed. Any number may run."""
    from dueledger.cli.session import run

    run(_intake(dsn, bootstrap_servers, once=once))


async def _intake(dsn: str | None, bootstrap_servers: str | None, *, once: bool) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from ledger.intake import IntakeSettings, open_intake, run_intake

    settings = read_settings(IntakeSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        if not once:
            await run_intake(settings, stop)
            return
        async with open_intake(settings) as taking:
            await _pass(taking.tick)


@app.command(rich_help_panel=options.PROCESSES)
def materialise(
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
) -> None:
    """Turn schedules into what is owed, ahead of time. Any number may run."""
    from dueledger.cli.session import run

    run(_materialise(dsn, once=once))


async def _materialise(dsn: str | None, *, once: bool) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from ledger.materialise import MaterialiserSettings, open_materialiser, run_materialiser

    settings = read_settings(MaterialiserSettings, dsn=dsn)
    async with process_stop() as stop:
        if not once:
            await run_materialiser(settings, stop)
            return
        async with open_materialiser(settings) as materialiser:
            await _pass(materialiser.tick)


async def _pass(tick: "Callable[[], Awaitable[Counts]]") -> None:
    print_document(dict(await tick()))
