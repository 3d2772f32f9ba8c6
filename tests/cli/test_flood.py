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

FLOOD = 5_000
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
WAITING = """
    select count(*) from ledger.pending p
    join ledger.flow f on f.flow_no = p.flow_no join ledger.kind k on k.kind_no = f.kind_no
    where k.name = $1
"""
COMPLETED = """
    select count(*) from ledger.due_item i
    join ledger.transition t on t.effective_date = i.effective_date and t.item_no = i.item_no
    join ledger.flow f on f.flow_no = i.flow_no join ledger.kind k on k.kind_no = f.kind_no
    where k.name = $1 and t.event = 5 /* completed */
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

    async def waiting() -> int:
        return await connection.fetchval(WAITING, kind)

    async def has_begun() -> bool:
        return await waiting() < FLOOD

    async def nothing_is_in_flight() -> bool:
        return not await connection.fetchval("select exists (select from ledger.open_item)")

    async def others_pass(number: int) -> None:
        """Let an item of another flow complete: every allocator has ticked since."""
        draft = make_drafts(1, kind=other, prefix=f"other-{number}")
        await emit_items(connection, draft, actor_no=actor_no)

        async def passed() -> bool:
            return await connection.fetchval(COMPLETED, other) == number

        await eventually(passed)

    await command("flow", "set", "acme", kind, "--rate", "100")  # or it were over at once
    async with _running(database, stack, tmp_path):
        await eventually(has_begun)
        await command("pause", "acme", kind, "--reason", "the printer is out of paper")
        await others_pass(1)
        await eventually(nothing_is_in_flight)
        paused = await waiting()
        assert 0 < paused < FLOOD
        await others_pass(2)
        assert await waiting() == paused

        before = await connection.fetchval("select max(fence) from ledger.claim")
        await command("flow", "set", "acme", kind, "--concurrency", "50")
        await command("resume", "acme", kind)

        async def goes_on() -> bool:
            return await waiting() < paused

        await eventually(goes_on)
        biggest = await connection.fetchval(
            "select max(size) from ledger.claim where flow_no is not null and fence > $1", before
        )
        assert biggest <= 50

        await command("flow", "set", "acme", kind, "--concurrency", "none", "--rate", "none")

        async def is_drained() -> bool:
            return await waiting() == 0 and await nothing_is_in_flight()

        await eventually(is_drained)
    accounts = await read_accounting(connection)
    assert all(account.difference == 0 for account in accounts)
    assert {account.kind: account.completed for account in accounts} == {kind: FLOOD, other: 2}


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
