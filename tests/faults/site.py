"""A ledger whose servers can be broken, the processes around it, and what they leave behind."""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg

from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import CRASH_VARIABLE
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.flows import FlowLimits, FlowScope, ensure_flow, set_flow_limits
from dueledger.ledger.store.items import (
    ItemRequestResult,
    RequestResult,
    emit_items,
    withdraw_items,
)
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from tests.forks import ForkServer

from .named_handlers import KINDS_VARIABLE
from .programs import Program, eventually
from .proxy import HOST
from .serve import DIRECT, EVIDENCE_VARIABLE
from .servers import Servers, with_address
from .short_times import PARTITIONS, POLICY, SETTINGS

SERVE: Final = Path(__file__).with_name("serve.py")
NAMED_HANDLERS: Final = "tests.faults.named_handlers:handlers"
FOREIGN: Final = Path(__file__).with_name("foreign.py")
TENANT: Final = "acme"
SHARED_KEYS: Final = 20  # of each serial kind: its items wait for each other
LONG_AGO: Final = datetime(2026, 1, 1, tzinfo=UTC)
EVIDENCE: Final = """
create table effect (
  item uuid not null, fence bigint not null, position integer not null, attempt integer not null,
  worker integer not null, at timestamptz not null default clock_timestamp())
"""


@dataclass
class Site:
    """One database, its evidence, the processes started around it, and what was emitted to it."""

    servers: Servers
    directory: Path
    database: str
    running: AsyncExitStack
    forks: ForkServer
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    policy: Mapping[str, Any] = field(default_factory=lambda: POLICY)
    group: str = field(default_factory=lambda: f"group-{secrets.token_hex(4)}")
    emitted: dict[UUID, ItemDraft] = field(default_factory=dict[UUID, ItemDraft])
    asked: list[tuple[UUID, TransitionEvent, bool]] = field(
        default_factory=list[tuple[UUID, TransitionEvent, bool]]
    )
    """Which items were asked to end how, and whether that was answered as done."""
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    direct_kinds: set[str] = field(default_factory=set[str])
    serial_kinds: set[str] = field(default_factory=set[str])
    overlaps: dict[str, Overlap] = field(default_factory=dict[str, Overlap])
    occurrences: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Kind and cycle of what schedules owed in all."""
    programs: list[Program] = field(default_factory=list[Program])
    numbers: Iterator[int] = field(default_factory=count)
    keys: Iterator[int] = field(default_factory=count)
    idle: list[Connection] = field(default_factory=list[Connection])

    def use_defaults(self) -> None:
        """Let processes and kinds that are made from now on have the product's own defaults."""
        self.settings, self.policy = {"DUELEDGER_TOPIC_PARTITIONS": str(PARTITIONS)}, {}

    @property
    def dsn(self) -> str:
        """Straight to the server, past the proxy."""
        return with_address(self.servers.dsn, database=self.database)

    @property
    def evidence_dsn(self) -> str:
        return with_address(self.servers.dsn, database=f"{self.database}_evidence")

    @property
    def bootstrap_servers(self) -> str:
        """Straight to the broker, past the proxy."""
        return self.servers.stack.endpoints.bootstrap_servers

    async def add_kind(
        self,
        handler: str,
        *,
        overlap: Overlap | None = None,
        limits: FlowLimits | None = None,
        **policy: Any,  # noqa: ANN401  # KindPolicy's
    ) -> str:
        """Have a kind worked by a handler of `serve.py`."""
        kind = f"{handler.title()}{secrets.token_hex(4)}"
        async with self.connected() as connection:
            await put_kind_policy(connection, KindPolicy(TENANT, kind, **{**self.policy, **policy}))
            if limits is not None:
                await ensure_flow(connection, TENANT, kind, "")
                actor_no = await self.register(connection)
                await set_flow_limits(
                    connection, FlowScope(TENANT, kind), limits, actor_no=actor_no
                )
        self.kinds[kind] = handler
        if policy.get("dispatch") == "direct":
            self.direct_kinds.add(kind)
        if policy.get("ordering") == "key":
            self.serial_kinds.add(kind)
        if overlap is not None:
            self.overlaps[kind] = overlap
        return kind

    async def now(self) -> datetime:
        return await self.fetchval("select clock_timestamp()")

    def drafts(
        self, kind: str, count: int, *, due_at: datetime = LONG_AGO, prefix: str = "key"
    ) -> list[ItemDraft]:
        """Make drafts with keys never used before."""
        return self.drafts_due([(kind, due_at)] * count, prefix=prefix)

    def drafts_due(
        self, due: Sequence[tuple[str, datetime]], *, prefix: str = "key"
    ) -> list[ItemDraft]:
        """Make a draft of each kind, due at its time."""
        return [self._draft(kind, due_at, next(self.keys), prefix) for kind, due_at in due]

    def _draft(self, kind: str, due_at: datetime, number: int, prefix: str) -> ItemDraft:
        shared = f"shared-{number % SHARED_KEYS}"
        overlap = self.overlaps.get(kind)
        return ItemDraft(
            tenant=TENANT,
            kind=kind,
            business_key=f"{prefix}-{number:06}" if overlap is None else shared,
            cycle="2027" if overlap is None else f"{number:06}",
            effective_date=date(2027, 3, 1),
            due_at=due_at,
            payload='{"premium":"123.45"}',
            partition_key=shared if kind in self.serial_kinds else None,
            overlap=overlap,
        )

    async def emit(self, drafts: Sequence[ItemDraft]) -> None:
        """Emit until that is acknowledged; only then it counts as owed."""

        async def acknowledged() -> bool:
            async with self.connected() as connection:
                actor_no = await self.register(connection)
                await emit_items(connection, drafts, actor_no=actor_no)
                return True

        await eventually(acknowledged)
        self.emitted.update((draft.id, draft) for draft in drafts)

    async def withdraw(
        self,
        ids: Sequence[UUID],
        event: TransitionEvent,
        replacements: Sequence[UUID | None] | None = None,
    ) -> None:
        """Cancel or supersede items until that is acknowledged."""
        if not ids:
            return

        async def answered() -> list[ItemRequestResult]:
            async with self.connected() as connection:
                return await withdraw_items(
                    connection,
                    ids,
                    event=event,
                    reason="as drawn",
                    actor_no=await self.register_person(connection),
                    replacements=replacements,
                )

        self.asked += [(id_, event, False) for id_ in ids]
        for each in await eventually(answered):
            if each.result == RequestResult.DONE:
                self.asked.append((each.id, event, True))

    async def register(self, connection: Connection) -> int:
        """Return the number of the actor that is the test."""
        return await register_actor(connection, "test", ActorKind.SERVICE)

    async def register_person(self, connection: Connection) -> int:
        """Return the number of the person who decides in the test: an end needs one."""
        return await register_actor(connection, "person:test", ActorKind.PERSON)

    async def start_allocator(self, **environment: str) -> Program:
        command = ("-m", "dueledger", "allocate")
        return await self._start("allocator", command, environment)

    async def start_worker(self, **environment: str) -> Program:
        """Start a worker with Kafka."""
        command = self._serve(self.handled_kinds - self.direct_kinds)
        return await self._start("worker", command, environment)

    async def start_direct_worker(self, **environment: str) -> Program:
        """Start a worker that claims all kinds itself, also those that come through Kafka."""
        command = (*self._serve(self.handled_kinds), DIRECT)
        return await self._start("direct", command, environment)

    async def start_named_worker(self, *options: str, **environment: str) -> Program:
        """Start a worker whose handlers are loaded by name."""
        kinds = ",".join(f"{kind}={handler}" for kind, handler in self.kinds.items())
        command = ("-m", "dueledger", "work", NAMED_HANDLERS, *options)
        return await self._start("worker", command, {KINDS_VARIABLE: kinds, **environment})

    async def start_materialiser(self) -> Program:
        """Start a materialiser that looks a few seconds ahead."""
        command = ("-m", "dueledger", "materialise")
        return await self._start("materialiser", command, {})

    async def start_foreign(self, kind: str) -> Program:
        """Start a consumer that reports on the outcome topic."""
        return await self._start("foreign", (str(FOREIGN), kind), {})

    async def start_outcomes(self) -> Program:
        """Start the outcome intake, which records those reports."""
        command = ("-m", "dueledger", "work", "--outcomes")
        return await self._start("outcomes", command, {})

    async def start_alert(self, **environment: str) -> Program:
        """Start the process that sends alerts."""
        return await self._start("alert", ("-m", "dueledger", "alert"), environment)

    @property
    def handled_kinds(self) -> set[str]:
        """Name the kinds that handlers of ours work."""
        return {kind for kind, handler in self.kinds.items() if handler != FOREIGN.stem}

    def _serve(self, kinds: Collection[str]) -> Sequence[str]:
        assignments = [f"{kind}={self.kinds[kind]}" for kind in sorted(kinds)]
        return (str(SERVE), *assignments)

    async def _start(
        self, role: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> Program:
        log = self.directory / f"{next(self.numbers):03}-{role}.log"
        with log.open("wb") as output:
            process = await self.forks.start(
                *command,
                output=output.fileno(),
                env={
                    **os.environ,
                    **self.settings,
                    "DUELEDGER_DSN": with_address(self.dsn, port=self.servers.postgres.port),
                    "DUELEDGER_BOOTSTRAP_SERVERS": f"{HOST}:{self.servers.kafka.port}",
                    "DUELEDGER_WORKER_GROUP_ID": self.group,
                    "DUELEDGER_OUTCOME_TOPIC": f"outcomes-{self.group}",
                    "DUELEDGER_OUTCOME_GROUP": self.group,
                    EVIDENCE_VARIABLE: self.evidence_dsn,
                    CRASH_VARIABLE: "",
                    **environment,
                },
            )
        program = Program(role, process, log)
        self.programs.append(program)
        self.running.push_async_callback(program.kill)
        return program

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Connection]:
        """Have a connection: an idle one, or a new one where a fault has closed them."""
        while self.idle and self.idle[-1].is_closed():
            self.idle.pop()
        connection = (
            self.idle.pop() if self.idle else await connect(self.dsn, application_name="test")
        )
        try:
            yield connection
        except BaseException:
            connection.terminate()
            raise
        self.idle.append(connection)

    def disconnect(self) -> None:
        """Close the idle connections."""
        while self.idle:
            self.idle.pop().terminate()

    async def fetchval(self, query: str, *arguments: object) -> Any:  # noqa: ANN401  # of a row
        async with self.connected() as connection:
            return await connection.fetchval(query, *arguments)

    async def count_open(self) -> int:
        """Count what neither ended nor waits for a person."""
        return await self.fetchval(
            "select (select count(*) from ledger.pending) + (select count(*) from ledger.open_item)"
        )

    async def finished(self) -> None:
        """Wait until everything emitted has ended or is parked."""

        async def nothing_open() -> bool:
            return await self.count_open() == 0

        await eventually(nothing_open)

    async def count_completed(self) -> int:
        return await self.fetchval(
            "select count(*) from ledger.transition where event = $1", TransitionEvent.COMPLETED
        )

    async def completed_kinds(self) -> set[str]:
        """Name the kinds of which something was completed."""
        query = "select array(select kind from ledger.accounting() where completed > 0)"
        return set(await self.fetchval(query))

    async def recorded_events(self) -> set[int]:
        """Return the events that the journal has."""
        return set(
            await self.fetchval("select array(select distinct event from ledger.transition)")
        )

    async def count_effects(self) -> int:
        evidence = await asyncpg.connect(self.evidence_dsn)
        try:
            return await evidence.fetchval("select count(*) from effect")
        finally:
            await evidence.close()

    async def worked_by(self, program: Program) -> None:
        """Wait until a worker has worked something."""

        async def worked() -> bool:
            evidence = await asyncpg.connect(self.evidence_dsn)
            try:
                return await evidence.fetchval(
                    "select exists (select from effect where worker = $1)", program.process.pid
                )
            finally:
                await evidence.close()

        await eventually(worked)

    async def parked(self) -> list[str]:
        """Return the keys of parked items."""
        return await self.fetchval(
            "select array_agg(business_key order by business_key)"
            " from ledger.review join ledger.due_item using (effective_date, item_no)"
        )

    async def effects_beyond(self, count: int) -> None:
        """Wait until more has been worked."""

        async def more() -> bool:
            return await self.count_effects() > count

        await eventually(more)

    async def all_logged(self, program: Program, *events: LogEvent, count: int = 1) -> None:
        """Wait until a process has logged so many of these events."""

        async def are_logged() -> bool:
            return len(program.logged(*events)) >= count

        await eventually(are_logged)

    async def end_all(self) -> dict[str, int]:
        """Ask every process to end; return the exit codes that were not 0."""
        living = [program for program in self.programs if program.running]
        codes = await asyncio.gather(*(program.end() for program in living))
        return {
            program.log.name: code for program, code in zip(living, codes, strict=True) if code != 0
        }


@asynccontextmanager
async def open_site(servers: Servers, directory: Path, forks: ForkServer) -> AsyncGenerator[Site]:
    """Have an empty ledger and its evidence; at the end, nothing of it is left."""
    name = f"faults_{secrets.token_hex(4)}"
    async with AsyncExitStack() as running:
        site = Site(servers, directory, name, running, forks)
        running.push_async_callback(partial(_drop, servers, name, f"{name}_evidence"))
        running.push_async_callback(servers.heal)
        running.callback(site.disconnect)
        admin = await asyncpg.connect(servers.dsn)
        await admin.execute(
            f"create database {name} template {servers.template} strategy file_copy"
        )
        await admin.execute(f"create database {name}_evidence strategy file_copy")
        await admin.close()
        evidence = await asyncpg.connect(site.evidence_dsn)
        await evidence.execute(EVIDENCE)
        await evidence.close()
        yield site


async def _drop(servers: Servers, *names: str) -> None:
    admin = await asyncpg.connect(servers.dsn)
    for name in names:
        await admin.execute(f"drop database if exists {name} with (force)")
    await admin.close()
