"""Commands that run a process: allocate, work, intake, materialise, relay, serve."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, KafkaOption, OnceOption
from dueledger.cli.output import print_document, print_text

if TYPE_CHECKING:
    from dueledger.ledger.runtime.service import Counts, Stop
    from dueledger.ledger.runtime.settings import Settings
    from dueledger.workers.counts import WorkerCounts

app = typer.Typer(rich_markup_mode=None)


class Ticking(Protocol):
    """A process whose work is passes."""

    async def tick(self) -> "Counts":
        """Make one pass and return its counts."""
        ...


@app.command()
def allocate(
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Claim due items and publish them to Kafka. Any number of allocators may run."""
    from dueledger.allocator import AllocatorSettings, open_allocator, run_allocator
    from dueledger.ledger.runtime.setting_problems import read_settings

    settings = read_settings(AllocatorSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    _run_passes(
        settings,
        lambda stop: run_allocator(settings, stop),
        lambda stop: open_allocator(settings, stop=stop),
        once=once,
    )


@app.command()
def work(
    handlers: Annotated[
        list[str] | None,
        typer.Argument(help="Handlers as module:name, as in app.renewals:handlers."),
    ] = None,
    direct: Annotated[
        bool,
        typer.Option(
            "--direct", help="Claim due items in the worker, without allocator and Kafka."
        ),
    ] = False,
    http: Annotated[
        bool, typer.Option("--http", help="Send items to the endpoints of their definitions.")
    ] = False,
    outcomes: Annotated[
        bool,
        typer.Option(
            "--outcomes", help="Record outcomes that consumers in other languages report."
        ),
    ] = False,
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Run the handlers of due items, from Kafka or directly. Any number of workers may run."""
    if [bool(handlers), http, outcomes].count(True) != 1:
        raise typer.BadParameter(
            "give one of handlers, as in app.renewals:handlers, --http and --outcomes"
        )
    if direct and outcomes:
        raise typer.BadParameter("--outcomes reads from Kafka and excludes --direct")
    if http:
        _send(dsn, bootstrap_servers, direct=direct, once=once)
    elif outcomes:
        _record_outcomes(dsn, bootstrap_servers, once=once)
    else:
        _work(handlers or [], dsn, bootstrap_servers, direct=direct, once=once)


def _work(
    paths: list[str], dsn: str | None, bootstrap_servers: str | None, *, direct: bool, once: bool
) -> None:
    from dueledger.ledger.runtime.setting_problems import read_settings
    from dueledger.workers.direct import DirectSettings
    from dueledger.workers.handler_loading import load_handlers
    from dueledger.workers.process import run_direct_worker, run_worker
    from dueledger.workers.settings import WorkerSettings

    handlers = load_handlers(paths)
    if direct:
        taking = read_settings(DirectSettings, dsn=dsn)
        _run_worker(
            taking, lambda stop: run_direct_worker(taking, handlers, stop, once=once), once=once
        )
    else:
        settings = read_settings(WorkerSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
        _run_worker(
            settings, lambda stop: run_worker(settings, handlers, stop, once=once), once=once
        )


def _send(dsn: str | None, bootstrap_servers: str | None, *, direct: bool, once: bool) -> None:
    from dueledger.ledger.errors import InvalidSetting, Problem
    from dueledger.ledger.runtime.setting_problems import read_settings

    try:
        from dueledger.workers.http import DirectHttpSettings, HttpSettings, run_http_worker
    except ModuleNotFoundError as error:
        problem = Problem("--http", "", f"{error.name} is not installed", "dueledger[http]")
        raise InvalidSetting("Items cannot be sent by HTTP:", [problem]) from None
    kind = DirectHttpSettings if direct else HttpSettings
    settings = read_settings(kind, dsn=dsn, bootstrap_servers=bootstrap_servers)
    _run_worker(settings, lambda stop: run_http_worker(settings, stop, once=once), once=once)


def _record_outcomes(dsn: str | None, bootstrap_servers: str | None, *, once: bool) -> None:
    from dueledger.ledger.runtime.setting_problems import read_settings
    from dueledger.workers.outcomes import (
        OutcomeIntakeSettings,
        open_outcome_intake,
        run_outcome_intake,
    )

    settings = read_settings(OutcomeIntakeSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    _run_passes(
        settings,
        lambda stop: run_outcome_intake(settings, stop),
        lambda _: open_outcome_intake(settings),
        once=once,
    )


@app.command()
def intake(
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Emit items from domain events in Kafka. Any number of intakes may run."""
    from dueledger.ledger.intake import EventIntakeSettings, open_intake, run_intake
    from dueledger.ledger.runtime.setting_problems import read_settings

    settings = read_settings(EventIntakeSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    _run_passes(
        settings,
        lambda stop: run_intake(settings, stop),
        lambda _: open_intake(settings),
        once=once,
    )


@app.command()
def materialise(
    once: OnceOption = False,
    check_tz: Annotated[
        bool,
        typer.Option("--check-tz", help="Show which pending items this tz database moves."),
    ] = False,
    apply: Annotated[
        str | None,
        typer.Option(
            "--apply",
            help="With --check-tz: apply the change that was shown with this digest.",
            metavar="DIGEST",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", help="With --check-tz: only items due from this time on.", metavar="T"
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="With --check-tz: list the changes applied so far.")
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Emit items from schedules, ahead of time. Any number of materialisers may run."""
    for option, given in (("--apply", apply), ("--from", from_), ("--history", history)):
        if given and not check_tz:
            raise typer.BadParameter("it needs --check-tz", param_hint=option)
    if history and (apply or from_):
        raise typer.BadParameter("it is an option of --check-tz", param_hint="--history")
    if not check_tz:
        _materialise(dsn, once=once)
        return
    from dueledger.cli.tz_changes import apply_change, list_changes, show_change

    from_at = None if from_ is None else options.read_due_instant(from_, "--from")
    if history:
        list_changes(dsn, as_json=json_)
    elif apply is None:
        show_change(dsn, from_at=from_at, as_json=json_)
    else:
        apply_change(dsn, apply, from_at=from_at, as_json=json_)


def _materialise(dsn: str | None, *, once: bool) -> None:
    from dueledger.ledger.materialise import (
        MaterialiserSettings,
        open_materialiser,
        run_materialiser,
    )
    from dueledger.ledger.runtime.setting_problems import read_settings

    settings = read_settings(MaterialiserSettings, dsn=dsn)
    _run_passes(
        settings,
        lambda stop: run_materialiser(settings, stop),
        lambda _: open_materialiser(settings),
        once=once,
    )


@app.command()
def relay(
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the SQL that makes the outbox, and end."),
    ] = False,
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
) -> None:
    """Carry items from a service's outbox (DUELEDGER_OUTBOX_DSN). Any number of relays may run."""
    from dueledger.ledger.outbox import RelaySettings, open_relay, run_relay
    from dueledger.ledger.runtime.setting_problems import read_settings
    from dueledger.ledger.store.outbox import outbox_schema

    if schema:
        print_text(outbox_schema())
        return
    settings = read_settings(RelaySettings, dsn=dsn)
    _run_passes(
        settings,
        lambda stop: run_relay(settings, stop),
        lambda _: open_relay(settings),
        once=once,
    )


@app.command()
def alert(
    test: Annotated[
        bool,
        typer.Option("--test", help="Send a test to each channel, and end: with 1 if one failed."),
    ] = False,
    once: OnceOption = False,
    json_: JsonOption = False,  # noqa: ARG001 - what a pass did is printed as JSON either way
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Send alerts by webhook, chat, mail and Kafka. Any number may run; one sends at a time."""
    from dueledger.alerts.process import SENT, open_alerter, run_alerter
    from dueledger.alerts.settings import AlertSettings
    from dueledger.cli.service_session import run_process
    from dueledger.ledger.runtime.setting_problems import read_settings

    settings = read_settings(AlertSettings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    if not test:
        _run_passes(
            settings,
            lambda stop: run_alerter(settings, stop),
            lambda _: open_alerter(settings),
            once=once,
        )
        return

    async def send_test() -> bool:
        async with open_alerter(settings) as alerter:
            results = await alerter.send_test()
        print_document(results)
        return all(result == SENT for result in results.values())

    options.exit_with(ExitCode.DONE if run_process(send_test()) else ExitCode.FAILED)


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address on which it listens.", metavar="ADDRESS")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port on which it listens.", metavar="PORT")
    ] = None,
    json_: JsonOption = False,  # noqa: ARG001 - its log is JSON unless a person reads it
    dsn: DsnOption = None,
) -> None:
    """Answer requests by HTTP, with API keys, and people by the console. Any number may run."""
    from dueledger.ledger.errors import MissingExtra
    from dueledger.ledger.runtime.memory import collect_in_small_steps
    from dueledger.ledger.runtime.setting_problems import read_settings

    try:
        from dueledger.console import open_console
        from dueledger.service import ServiceSettings, run_service_process
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed. Install dueledger[serve]."
        raise MissingExtra(message, extra="serve") from None
    settings = read_settings(ServiceSettings, dsn=dsn, service_host=host, service_port=port)

    async def answer(stop: "Stop") -> None:
        collect_in_small_steps()
        await run_service_process(settings, stop, open_console)

    _run_until_stopped(settings, answer)


def _run_passes(
    settings: "Settings",
    run_forever: "Callable[[Stop], Awaitable[None]]",
    open_process: "Callable[[Stop], AbstractAsyncContextManager[Ticking]]",
    *,
    once: bool,
) -> None:
    """Run a process until it is stopped; with `once`, make one pass and print its counts."""
    from dueledger.cli.service_session import process_stop, run_process

    async def work() -> None:
        async with process_stop(None if once else settings) as stop:
            if not once:
                await run_forever(stop)
                return
            async with open_process(stop) as process:
                print_document(dict(await process.tick()))

    run_process(work())


def _run_until_stopped(
    settings: "Settings", run_forever: "Callable[[Stop], Awaitable[None]]"
) -> None:
    from dueledger.cli.service_session import process_stop, run_process

    async def work() -> None:
        async with process_stop(settings) as stop:
            await run_forever(stop)

    run_process(work())


def _run_worker(
    settings: "Settings",
    work_until: "Callable[[Stop], Awaitable[WorkerCounts | None]]",
    *,
    once: bool,
) -> None:
    """Run a worker until it is stopped; with `once`, print the counts of its one pass."""
    from dueledger.cli.service_session import process_stop, run_process

    async def work() -> None:
        async with process_stop(None if once else settings) as stop:
            counts = await work_until(stop)
        if once and counts is not None:
            print_document(counts.snapshot())

    run_process(work())
