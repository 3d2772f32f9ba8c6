"""A flood is paused, limited and resumed from the terminal while it runs."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dueledger.dev.supervisor import ChildSpec, Supervisor
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.stack import Endpoints

Command = Callable[..., Any]
Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]

FLOOD = 20_000
HANDLERS = """
from dueledger import Completed, DueItem, Handlers, Verdict

handlers = Handlers()


@handlers.on_batch("{flood}", batch_max=200, concurrency=2)
async def flood(items: list[DueItem]) -> list[Verdict]:
    return [Completed() for _ in items]


@handlers.on("{other}")
async def other(item: DueItem) -> Verdict:
    return Completed()
"""


async def test_a_flood_is_paused_limited_and_resumed_while_it_runs(
    tmp_path: Path,
    database: str,
    stack: Endpoints,
    connection: Connection,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
    actor_no: int,
    dueledger_on: Command,
    eventually: Eventually,
) -> None:
    other = f"{kind}Other"
    (tmp_path / "flood.py").write_text(HANDLERS.format(flood=kind, other=other), encoding="utf-8")
    await emit_items(connection, make_drafts(FLOOD), actor_no=actor_no)

    async def command(*arguments: str) -> Any:  # noqa: ANN401 - whatever the command printed
        ran = await asyncio.to_thread(dueledger_on, *arguments, "--json")
        assert ran.code == 0, ran.err
        return ran.lines

    async def accounting_of(of: str) -> Any:  # noqa: ANN401 - an account of one kind
        return next(each for each in await read_accounting(connection) if each.kind == of)

    async def has_begun() -> bool:
        return (await accounting_of(kind)).completed > 0

    async def nothing_is_in_flight() -> bool:
        account = await accounting_of(kind)
        return account.handed_out + account.running == 0

    async def others_pass(number: int) -> None:
        """Let an item of another flow complete: every allocator has ticked since."""
        draft = make_drafts(1, kind=other, prefix=f"other-{number}")
        await emit_items(connection, draft, actor_no=actor_no)

        async def passed() -> bool:
            return (await accounting_of(other)).completed == number

        await eventually(passed)

    await command("flow", "set", "acme", kind, "--rate", "500")  # or it were over at once
    async with _running(database, stack, tmp_path):
        await eventually(has_begun)
        await command("pause", "acme", kind, "--reason", "the printer is out of paper")
        await others_pass(1)
        await eventually(nothing_is_in_flight)
        paused = await accounting_of(kind)
        assert 0 < paused.pending < FLOOD
        await others_pass(2)
        assert (await accounting_of(kind)).pending == paused.pending

        before = await connection.fetchval("select max(fence) from ledger.claim")
        await command("flow", "set", "acme", kind, "--concurrency", "50")
        await command("resume", "acme", kind)

        async def goes_on() -> bool:
            return (await accounting_of(kind)).pending < paused.pending

        await eventually(goes_on)
        biggest = await connection.fetchval(
            "select max(size) from ledger.claim where flow_no is not null and fence > $1", before
        )
        assert biggest <= 50

        await command("flow", "set", "acme", kind, "--concurrency", "none", "--rate", "none")

        async def is_drained() -> bool:
            return (await accounting_of(kind)).completed == FLOOD

        await eventually(is_drained)
    assert all(account.difference == 0 for account in await read_accounting(connection))


@asynccontextmanager
async def _running(dsn: str, stack: Endpoints, folder: Path) -> AsyncGenerator[None]:
    environment = {
        **os.environ,
        "DUELEDGER_DSN": dsn,
        "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers,
        "PYTHONPATH": str(folder),
    }
    lines: list[str] = []
    supervisor = Supervisor(
        lambda name, line: lines.append(f"{name} {line}"),
        lambda name, line: lines.append(f"{name} {line}"),
        environment=environment,
    )
    try:
        await supervisor.start(ChildSpec("worker", ("work", "flood:handlers")))
        await supervisor.start(ChildSpec("allocator", ("allocate",)))
        yield
    finally:
        killed = await supervisor.stop_all()
    assert killed == [], lines
