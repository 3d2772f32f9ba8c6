"""An installation whose processes are real ones, and whose commands are run as people run them."""

import asyncio
import json
import os
import re
import shlex
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.kafka.topics import make_missing_topics
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.items import emit_items, show_item
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.processes import ProcessRole, RoleStatus, read_roles
from dueledger.stack import Endpoints
from dueledger.why import Explanation, explain
from tests.databases import DatabasePool, MakeDatabase
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login

T = TypeVar("T")

HANDLERS: Final = """
import asyncio, os
from pathlib import Path
from dueledger import Completed, Handlers, Park, Retry, Snooze
from dueledger.workers.verdicts import NotAttempted

handlers, seen = Handlers(), set()

@handlers.on(os.environ["TEST_KIND"], concurrency=int(os.environ["TEST_CONCURRENCY"]))
async def work(item):
    how, _, _ = item.business_key.partition("-")
    is_first, _ = item.id not in seen, seen.add(item.id)
    while how == "hang" and os.environ.get("TEST_HANGS") and not Path("ended").exists():
        await asyncio.sleep(0.02)
    if is_first and how in ("park", "fail", "snooze", "lack"):
        verdicts = {"park": Park("no such policy"), "fail": Retry(), "snooze": Snooze(seconds=9e4),
            "lack": NotAttempted(9e4, "the secret BILLING is missing")}
        return verdicts[how]
    return Completed()
"""
"""The first word of a business key says how: hang; or park, fail, snooze, lack the first time."""
LOGINS: Final = {
    ("allocate",): "allocator",
    ("work", "--direct"): "direct_worker",
    ("work", "--outcomes"): "outcome_intake",
    ("work",): "worker",
    ("reconcile",): "reconciler",
}
COMMAND: Final = re.compile(r"`([^`]+)`")
SILENT_SECONDS: Final = 20.0


class Eventually(Protocol):
    """The fixture that polls until something is true."""

    async def __call__(self, question: Callable[[], Awaitable[T | None]], /) -> T: ...


@dataclass
class Installation:
    """A ledger, Kafka, and processes around one kind."""

    dsn: str
    connection: Connection
    bootstrap_servers: str
    kind: str
    actor_no: int
    eventually: Eventually
    make_drafts: Callable[..., list[ItemDraft]]
    forks: ForkServer
    folder: Path
    running: AsyncExitStack
    settings: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def topic(self) -> str:
        return work_topic(self.kind)

    # Items.

    async def emit(self, how: str = "key", count: int = 1, **draft: Any) -> list[UUID]:  # noqa: ANN401
        drafts = self.make_drafts(count, prefix=how, **draft)
        return await self.emit_drafts(drafts)

    async def emit_drafts(self, drafts: Sequence[ItemDraft]) -> list[UUID]:
        return [
            each.id for each in await emit_items(self.connection, drafts, actor_no=self.actor_no)
        ]

    async def put_kind(self, **policy: Any) -> None:  # noqa: ANN401 - as its fields are
        await put_kind_policy(self.connection, KindPolicy("acme", self.kind, **policy))

    async def emit_direct(self, how: str = "key", count: int = 1, **draft: Any) -> list[UUID]:  # noqa: ANN401
        """Emit items of a kind that is worked without Kafka."""
        await self.put_kind(dispatch="direct")
        return await self.emit(how, count, **draft)

    async def reconnect(self) -> None:
        """See the settings of the database as they are now."""
        self.connection = await connect(self.dsn, application_name="test")
        self.running.push_async_callback(self.connection.close)

    async def lock_rows(self, statement: str) -> Callable[[], Awaitable[None]]:
        """Lock rows, so that other processes do not get on; return what ends that."""
        other = await connect(self.dsn, application_name="test")
        self.running.push_async_callback(other.close)
        lock = other.transaction()
        await lock.start()
        await other.execute(statement)
        return lock.rollback

    async def grant(self, items: int) -> None:
        """Want so many items of the kind, as a worker that reads nothing; 0 ends it."""
        topics = [self.topic] if items else []
        await grant_credits(self.connection, self.actor_no, topics, [items][: len(topics)], 3600)

    async def report_outcome(self, item: UUID) -> None:
        """Report that an item is completed, as the consumer of its topic."""
        shown = await self.shown(item)
        token = await self.connection.fetchval(
            "select token from ledger.claim where fence = $1", shown["fence"]
        )
        outcome = {
            "item": str(item),
            "fence": shown["fence"],
            "token": ClaimId(shown["fence"], shown["claimed_at"], token).token_text,
            "position": shown["position"],
            "verdict": "completed",
        }
        headers = {
            "ce_specversion": b"1.0",
            "ce_id": b"answer-1",
            "ce_source": b"/consumers/test",
            "ce_type": b"dueledger.outcome",
            "content-type": b"application/json",
        }
        topic = self.settings["DUELEDGER_OUTCOME_TOPIC"]
        await make_missing_topics(KafkaSettings(bootstrap_servers=self.bootstrap_servers), [topic])
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers) as producer:
            await producer.send_and_wait(
                topic,
                orjson.dumps(outcome),
                headers=list(headers.items()),
            )

    # Processes.

    async def start(self, *arguments: str, **settings: str) -> ForkedProcess:
        """Start `dueledger` with these arguments; it dies with the test."""
        login = next(login for words, login in LOGINS.items() if set(words) <= set(arguments))
        process = await self.forks.start(
            *("-m", "dueledger", *arguments),
            env=self._environment(login) | settings,
            cwd=self.folder,
            output=os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        )
        self.running.push_async_callback(kill, process)
        return process

    async def start_direct(self, **settings: str) -> ForkedProcess:
        return await self.start("work", "--direct", "mine:handlers", **settings)

    async def start_worker(self, **settings: str) -> ForkedProcess:
        """Start a worker that reads from Kafka, and wait until it grants credit."""
        process = await self.start("work", "mine:handlers", **settings)
        await self.eventually(self.granted)
        return process

    async def freeze(self, process: ForkedProcess) -> None:
        """Stop a process for longer than it may be silent."""
        process.send_signal(signal.SIGSTOP)
        await self.connection.execute(
            "update ledger.process set seen_at = seen_at - make_interval(secs => $1)",
            SILENT_SECONDS,
        )

    async def end_hang(self) -> None:
        """Let the handlers end that hang."""
        (self.folder / "ended").touch()

    async def run(self, *arguments: str) -> str:
        """Run a person's command to its end; return what it prints."""
        out, err = self.folder / "out", self.folder / "err"
        code = await asyncio.to_thread(
            lambda: self.forks.run(
                *("-m", "dueledger", *arguments),
                env=self._environment("operator"),
                cwd=self.folder,
                out=out,
                err=err,
            )
        )
        assert code in {0, 4}, err.read_text()  # 4: the doctor has findings
        return out.read_text()

    def _environment(self, login: str) -> dict[str, str]:
        return {
            **{name: text for name, text in os.environ.items() if "DUELEDGER_" not in name},
            "DUELEDGER_DSN": with_login(self.dsn, login),
            "DUELEDGER_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "DUELEDGER_ACTOR": "jane.doe",
            **self.settings,
        }

    # What the ledger says.

    async def granted(self) -> int:
        return await self.connection.fetchval(
            "select count(*) from ledger.credit"
            " where topic = $1 and items > 0 and granted_until > ledger.machine_now()",
            self.topic,
        )

    async def roles(self) -> dict[ProcessRole, RoleStatus]:
        return await read_roles(self.connection)

    async def until_live(self, role: ProcessRole, count: int = 1) -> None:
        async def lives() -> bool:
            return (await self.roles())[role].live >= count

        await self.eventually(lives)

    async def shown(self, item: UUID) -> dict[str, Any]:
        shown = await show_item(self.connection, item)
        assert shown is not None
        return shown

    async def until_state(self, item: UUID, *states: State) -> None:
        labels = {state.label for state in states}

        async def is_in_state() -> bool:
            return (await self.shown(item))["state"] in labels

        await self.eventually(is_in_state)

    async def why(self, item: UUID) -> Explanation:
        return await explain(self.connection, await self.shown(item))

    async def until(self, item: UUID, code: Hindrance) -> Explanation:
        """Wait until the item has this hindrance."""

        async def has_it() -> Explanation | None:
            explanation = await self.why(item)
            return explanation if explanation.code is code else None

        return await self.eventually(has_it)

    async def printed(self, item: UUID) -> dict[str, Any]:
        return json.loads(await self.run("why", str(item), "--json"))

    async def freed_at(self, item: UUID) -> datetime:
        """Return when an item ended, or when it was handed out last."""
        return await self.connection.fetchval(
            """
            select coalesce(
              (select max(t.at) from ledger.transition t where t.item_no = i.item_no),
              (select max(c.claimed_at) from ledger.claim c where i.item_no = any (c.item_no)))
            from ledger.due_item i where i.id = $1
            """,
            item,
        )

    async def now(self) -> datetime:
        return await self.connection.fetchval("select clock_timestamp()")

    async def follow(self, remedy: str) -> datetime:
        """Carry out a remedy as it is printed; return when that was, or its process had started."""
        commands = COMMAND.findall(remedy)
        at = await self.now()
        owner = await connect(self.dsn, application_name="test")
        for command in commands:
            if command.startswith(("alter ", "set ")):
                await owner.execute(command)
        await owner.close()
        typed = next((each for each in commands if each.startswith("dueledger ")), None)
        if typed is None:
            return at
        _, *arguments = shlex.split(typed.replace("module:handlers", "mine:handlers"))
        if arguments[0] not in {"allocate", "work"}:
            await self.run(*arguments)
            return at
        await self.start(*arguments)
        return await self.eventually(lambda: self._started_after(at))

    async def _started_after(self, at: datetime) -> datetime | None:
        return await self.connection.fetchval(
            "select max(started_at) from ledger.process where started_at > $1", at
        )


async def kill(process: ForkedProcess) -> None:
    """Kill a process and wait for its end."""
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.fixture(scope="session")
def make_database(served_database_pool: DatabasePool) -> MakeDatabase:
    return served_database_pool.lease


@pytest.fixture
async def site(
    database: str,
    connection: Connection,
    stack: Endpoints,
    kind: str,
    actor_no: int,
    eventually: Eventually,
    make_drafts: Callable[..., list[ItemDraft]],
    fork_server: ForkServer,
    tmp_path: Path,
) -> AsyncGenerator[Installation]:
    (tmp_path / "mine.py").write_text(HANDLERS)
    (tmp_path / "other.py").write_text(HANDLERS.replace('os.environ["TEST_KIND"]', '"OtherDue"'))
    async with AsyncExitStack() as running:
        yield Installation(
            database,
            connection,
            stack.bootstrap_servers,
            kind,
            actor_no,
            eventually,
            make_drafts,
            fork_server,
            tmp_path,
            running,
            {
                "TEST_KIND": kind,
                "TEST_CONCURRENCY": "8",
                "TEST_HANGS": "yes",
                "DUELEDGER_WORKER_GROUP_ID": f"group-{kind}",
                "DUELEDGER_WORKER_SESSION_TIMEOUT_SECONDS": "6",
                "DUELEDGER_OUTCOME_TOPIC": f"outcomes-{kind}",
                "DUELEDGER_OUTCOME_GROUP": f"outcomes-{kind}",
            },
        )
