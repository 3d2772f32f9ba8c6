"""`dueledger dev`: servers and processes, a banner, and an orderly end."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.panel import Panel
from rich.status import Status
from rich.text import Text

from dueledger.dev.child_processes import (
    ALLOCATOR,
    INTAKE,
    MATERIALISER,
    OUTCOMES,
    RECONCILER,
    forget_kafka_security,
    process_environment,
    worker,
)
from dueledger.dev.console_access import (
    ConsoleAccess,
    end_access,
    has_console,
    make_access,
    wait_until_open,
)
from dueledger.dev.insurer import HANDLERS, seed
from dueledger.dev.servers import ServerWatch
from dueledger.dev.supervisor import Supervisor
from dueledger.ledger.errors import ConnectionLost, Unavailable
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection, PlanProfile, open_connection
from dueledger.ledger.store.clock import read_now, set_clock
from dueledger.ledger.store.migrations import migrate
from dueledger.ledger.store.progress import read_progress
from dueledger.ledger.visible_text import visible
from dueledger.stack import (
    BOOTSTRAP_SERVERS_VARIABLE,
    DSN_VARIABLE,
    Endpoints,
    require_embedded,
)

if TYPE_CHECKING:
    from dueledger.stack.embedded import EmbeddedStack

_STATUS_SECONDS: Final = 1.0
_COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan")
_TRY: Final = ("dueledger items --state Completed", "dueledger why POL-0000001")
_TRY_HEADLESS: Final = (  # nothing is seeded: emit an item first
    "dueledger emit --tenant me --kind Due --key 1 --effective-date 2027-03-31 --due-at 2027-03-31",
    "dueledger why 1",
)


@dataclass(frozen=True, slots=True)
class DevOptions:
    """How to run. `rate` is business seconds in a real second; `data_dir` None keeps no data."""

    rate: float = 1.0
    headless: bool = False
    show_secrets: bool = False
    data_dir: Path | None = None


def run_dev(options: DevOptions, *, console: Console) -> None:
    """Run the whole installation until SIGTERM or Ctrl-C, then stop it in order."""
    began = monotonic()

    def step(message: str) -> None:
        line = visible(f"{monotonic() - began:6.1f} s  {message}")
        console.print(line, markup=False, soft_wrap=True)

    require_embedded()
    # Imported here: the embedded extra is no runtime dependency.
    from dueledger.stack.embedded import open_embedded  # noqa: PLC0415

    forget_kafka_security()
    console.print(Panel.fit("for development, not for production", title="dueledger dev"))
    with open_embedded(
        data_dir=options.data_dir, keep=options.data_dir is not None, progress=step
    ) as stack:
        asyncio.run(_Session(stack, options, console, step=step).run())
        step("stopping the servers")
    kept = f"the data is kept in {options.data_dir}" if options.data_dir else "the data is deleted"
    step(f"stopped; {kept}")


class _Session:
    """One `dueledger dev`, from the schema to the end of the last process."""

    def __init__(
        self,
        stack: "EmbeddedStack",
        options: DevOptions,
        console: Console,
        *,
        step: Callable[[str], None],
    ) -> None:
        self._endpoints = stack.endpoints
        self._options = options
        self._console = console
        self._step = step
        self._colours: dict[str, str] = {}
        self._access: ConsoleAccess | None = None
        self._servers = ServerWatch({"postgres": stack.postgres, "kafka": stack.kafka}, self._print)
        self._supervisor = Supervisor(
            self._print, self._print, environment=process_environment(self._endpoints)
        )

    async def run(self) -> None:
        """Start everything, wait for a stop, stop everything."""
        stop = Stop()
        stop.on_signals()
        try:
            async with self._connection() as connection:
                seeded = await self._prepare(connection)
            await self._start_processes(with_insurer=bool(seeded))
            self._print_banner()
            await self._watch(stop)
            await self._drain()
        finally:
            await self._supervisor.stop_all()

    def _connection(self) -> AbstractAsyncContextManager[Connection]:
        return open_connection(
            self._endpoints.dsn, application_name="dueledger-dev", profile=PlanProfile.ANALYTIC
        )

    async def _prepare(self, connection: Connection) -> int:
        """Make the schema, set the clock, and seed items; return how many are new."""
        applied = await migrate(connection)
        self._step(f"schema: applied {', '.join(applied)}" if applied else "schema: up to date")
        await self._start_clock(connection)
        if has_console():
            self._access = await make_access(connection)
        seeded = 0 if self._options.headless else await self._seed(connection)
        if seeded:
            self._step(f"insurer: {seeded} renewals are due within the next minute")
        return seeded

    async def _start_clock(self, connection: Connection) -> None:
        """Continue at the last session's business time. At normal speed no clock is set."""
        if self._options.rate == 1 and await _is_real(connection):
            return
        await set_clock(connection, await read_now(connection), self._options.rate, database=True)
        self._step(f"clock: business time runs at {self._options.rate:g}x")

    async def _seed(self, connection: Connection) -> int:
        return await seed(connection, self._endpoints, rate=self._options.rate)

    async def _start_processes(self, *, with_insurer: bool) -> None:
        specs = [ALLOCATOR, MATERIALISER, INTAKE, OUTCOMES, RECONCILER]
        if with_insurer:
            specs += [worker(1, HANDLERS), worker(2, HANDLERS)]
        if self._access is not None:
            specs.append(self._access.service)
        for spec in specs:
            await self._supervisor.start(spec)
        self._step(f"processes: {', '.join(spec.name for spec in specs)}")
        if self._access is not None:
            await wait_until_open(self._access)

    async def _watch(self, stop: Stop) -> None:
        """Look after the servers, and update one status line, until a stop is requested."""
        shows = self._console.is_terminal and not self._options.headless
        with self._console.status("") if shows else nullcontext() as status:
            while not await stop.wait(_STATUS_SECONDS):
                await self._servers.check()
                if status is not None:
                    await self._update(status)

    async def _update(self, status: Status) -> None:
        with suppress(ConnectionLost, Unavailable):  # the next check says that the server ended
            async with self._connection() as connection:
                status.update(await _status_line(connection))

    async def _drain(self) -> None:
        self._step("draining: the processes finish their items")
        killed = await self._supervisor.stop_all()
        if killed:
            self._step(f"killed, because they did not end: {', '.join(killed)}")
        async with self._connection() as connection:
            self._step(f"left: {await _status_line(connection)}")
            if self._access is not None:
                await end_access(connection, self._access)
            if not await _is_real(connection):
                await set_clock(connection, await read_now(connection), 0, database=True)

    def _print_banner(self) -> None:
        """Print each line whole, so that it can be copied."""
        link = self._access.link if self._access is not None else None
        for line in banner_lines(self._endpoints, self._options, link):
            self._console.print(visible(line), markup=False, highlight=False, soft_wrap=True)

    def _print(self, name: str, line: str) -> None:
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        self._console.print(Text(f"{name:<12} ", style=colour), end="")
        self._console.print(visible(line), markup=False, soft_wrap=True)


def banner_lines(endpoints: Endpoints, options: DevOptions, link: str | None) -> Sequence[str]:
    """Return what a session says once it runs: addresses, and what to try. `link` signs in."""
    dsn = endpoints.dsn if options.show_secrets else endpoints.dsn_masked
    hint = "" if options.show_secrets else "   (--show-secrets shows the password)"
    data = f"{options.data_dir}, kept" if options.data_dir else "temporary; --keep keeps it"
    return (
        "",
        f"Console   {link or 'needs dueledger[serve]'}",
        f"Postgres  {dsn}{hint}",
        f"Kafka     {endpoints.bootstrap_servers}",
        f"Data      {data}",
        "Try:",
        f"export {DSN_VARIABLE}='{dsn}'",
        f"export {BOOTSTRAP_SERVERS_VARIABLE}='{endpoints.bootstrap_servers}'",
        *(_TRY_HEADLESS if options.headless else _TRY),
        "",
    )


async def _is_real(connection: Connection) -> bool:
    return not await connection.fetchval("select current_setting('ledger.clock', true)")


async def _status_line(connection: Connection) -> str:
    kinds = await read_progress(connection)
    not_due = sum(kind.not_due for kind in kinds)
    due = sum(kind.due for kind in kinds)
    claimed = sum(kind.handed_out + kind.running for kind in kinds)
    reviews = sum(kind.reviews for kind in kinds)
    return f"{not_due:,} not due yet, {due:,} due, {claimed:,} claimed, {reviews:,} for review"
