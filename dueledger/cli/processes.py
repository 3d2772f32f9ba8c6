"""Commands that run until they are told to stop, or make one pass."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, KafkaOption, OnceOption
from dueledger.cli.output import print_document

if TYPE_CHECKING:
    from dueledger.ledger.runtime.service import Counts
    from dueledger.workers.handlers import Handlers

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
    from dueledger.allocator import AllocatorSettings, open_allocator, run_allocator
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
        list[str] | None, typer.Argument(help="Where handlers are, as in app.renewals:handlers.")
    ] = None,
    direct: Annotated[
        bool, typer.Option("--direct", help="Claim due items itself: no allocator, no Kafka.")
    ] = False,
    http: Annotated[
        bool, typer.Option("--http", help="Send items to the endpoints of their definitions.")
    ] = False,
    outcomes: Annotated[
        bool, typer.Option("--outcomes", help="Record what consumers in other languages report.")
    ] = False,
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Take due items from Kafka, or directly, and run their handlers. Any number may run."""
    from dueledger.cli.handler_loading import load_handlers
    from dueledger.cli.session import run

    if [bool(handlers), http, outcomes].count(True) != 1:
        raise typer.BadParameter(
            "give one of handlers, as in app.renewals:handlers, --http and --outcomes"
        )
    if direct and outcomes:
        raise typer.BadParameter("--outcomes reads them from Kafka: no --direct")
    if http:
        run(_send(dsn, bootstrap_servers, direct=direct, once=once))
    elif outcomes:
        run(_record_outcomes(dsn, bootstrap_servers, once=once))
    elif direct:
        run(_work_directly(load_handlers(handlers or []), dsn, once=once))
    else:
        run(_work(load_handlers(handlers or []), dsn, bootstrap_servers, once=once))


async def _work(
    handlers: "Handlers", dsn: str | None, bootstrap_servers: str | None, *, once: bool
) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from dueledger.workers.process import run_worker
    from dueledger.workers.settings import WorkerSettings

    settings = read_settings(WorkerSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        counts = await run_worker(settings, handlers, stop, once=once)
    if once:
        print_document(counts.snapshot())


async def _work_directly(handlers: "Handlers", dsn: str | None, *, once: bool) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from dueledger.workers.direct import DirectSettings
    from dueledger.workers.process import run_direct_worker

    settings = read_settings(DirectSettings, dsn=dsn)
    async with process_stop() as stop:
        counts = await run_direct_worker(settings, handlers, stop, once=once)
    if once:
        print_document(counts.snapshot())


async def _record_outcomes(dsn: str | None, bootstrap_servers: str | None, *, once: bool) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from dueledger.workers.outcomes import (
        OutcomeIntakeSettings,
        open_outcome_intake,
        run_outcome_intake,
    )

    settings = read_settings(OutcomeIntakeSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        if not once:
            await run_outcome_intake(settings, stop)
            return
        async with open_outcome_intake(settings) as reports:
            await _pass(reports.tick)


async def _send(
    dsn: str | None, bootstrap_servers: str | None, *, direct: bool, once: bool
) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from dueledger.ledger.errors import InvalidSetting, Problem

    try:
        from dueledger.workers.http import DirectHttpSettings, HttpSettings, run_http_worker
    except ModuleNotFoundError as error:
        problem = Problem("--http", "", f"{error.name} is not installed", "dueledger[http]")
        raise InvalidSetting("Items cannot be sent by HTTP:", [problem]) from None
    kind = DirectHttpSettings if direct else HttpSettings
    settings = read_settings(kind, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        counts = await run_http_worker(settings, stop, once=once)
    if counts is not None:
        print_document(counts.snapshot())


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
    from dueledger.ledger.intake import EventIntakeSettings, open_intake, run_intake

    settings = read_settings(EventIntakeSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    async with process_stop() as stop:
        if not once:
            await run_intake(settings, stop)
            return
        async with open_intake(settings) as taking:
            await _pass(taking.tick)


@app.command(rich_help_panel=options.PROCESSES)
def materialise(
    once: OnceOption = False,
    check_tz: Annotated[
        bool,
        typer.Option("--check-tz", help="Show what this tz database moves of what is to come."),
    ] = False,
    apply: Annotated[
        str | None,
        typer.Option(
            "--apply",
            help="With --check-tz: do what it showed with this digest, as one change.",
            metavar="DIGEST",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="With --check-tz: only what is due from then on.", metavar="T"),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="With --check-tz: list what was applied so far.")
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Turn schedules into what is owed, ahead of time. Any number may run."""
    from dueledger.cli.session import run

    for option, given in (("--apply", apply), ("--from", from_), ("--history", history)):
        if given and not check_tz:
            raise typer.BadParameter("it belongs to --check-tz", param_hint=option)
    if history and (apply or from_):
        raise typer.BadParameter("it goes with --check-tz alone", param_hint="--history")
    if not check_tz:
        run(_materialise(dsn, once=once))
        return
    from dueledger.cli.tz_changes import apply_zones, check_zones, list_zones

    from_at = None if from_ is None else options.read_due_instant(from_, "--from")
    if history:
        list_zones(dsn, as_json=json_)
    elif apply is None:
        check_zones(dsn, from_at=from_at, as_json=json_)
    else:
        apply_zones(dsn, apply, from_at=from_at, as_json=json_)


async def _materialise(dsn: str | None, *, once: bool) -> None:
    from dueledger.cli.session import process_stop, read_settings
    from dueledger.ledger.materialise import (
        MaterialiserSettings,
        open_materialiser,
        run_materialiser,
    )

    settings = read_settings(MaterialiserSettings, dsn=dsn)
    async with process_stop() as stop:
        if not once:
            await run_materialiser(settings, stop)
            return
        async with open_materialiser(settings) as materialiser:
            await _pass(materialiser.tick)


async def _pass(tick: "Callable[[], Awaitable[Counts]]") -> None:
    print_document(dict(await tick()))
