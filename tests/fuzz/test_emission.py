"""Emission, in SQL and by the command, refuses or emits; what it refuses leaves nothing behind."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import asyncpg
import pytest
import typer

from dueledger.cli import items
from dueledger.cli.app import app
from dueledger.cli.errors import describe
from dueledger.cli.output import document_text
from dueledger.ledger.store import Connection
from tests.fuzz.hostile_inputs import HostileInputs, encoded
from tests.fuzz.test_doors import COUNTS, find_faults, inputs_of
from tests.hostile_text import unsafe_characters

EMIT: Final = (
    "select * from ledger.emit($1, $2, $3, $4::text::date, $5::text::timestamptz,"
    " $6::text::json, $7, $8, $9, $10::text::jsonb, $11)"
)
REFUSALS: Final = ("DL", "54")
"""SQLSTATEs: the ledger's own, and what is too large or too deep for Postgres."""

TERMS: Final[dict[str, str | None]] = {
    "tenant": "acme",
    "kind": "K",
    "business_key": "",
    "effective_date": "2027-03-01",
    "due_at": "2027-03-01T00:00Z",
    "payload": "{}",
    "cycle": "1",
    "lane": "",
    "partition_key": None,
    "labels": None,
    "traceparent": None,
}
OPTIONS: Final = {
    "--tenant": "acme",
    "--kind": "K",
    "--key": "",
    "--effective-date": "2027-03-01",
    "--due-at": "2027-03-01",
    "--cycle": "1",
    "--lane": "",
    "--payload": "{}",
}
Emit = Callable[[int], Awaitable[bool]]


async def _emit_all(emit: Emit, connection: Connection, count: int) -> None:
    created = 0

    async def attempt(number: int) -> None:
        nonlocal created
        created += await emit(number)

    assert await find_faults(attempt, count) == {}
    for table in ("due_item", "pending"):
        assert await connection.fetchval(f"select count(*) from ledger.{table}") == created  # noqa: S608 - a name above


@pytest.mark.parametrize("count", COUNTS)
async def test_emission_in_sql_refuses_or_emits(connection: Connection, count: int) -> None:
    async def emit(number: int) -> bool:
        inputs = inputs_of("emit", number)
        arguments: dict[str, object] = {**TERMS, "business_key": f"P-{number}"}
        for name in inputs.random.sample(list(arguments), k=inputs.random.randrange(3)):
            value = inputs.value()
            arguments[name] = (
                value.encode(errors="ignore").decode()
                if isinstance(value, str)
                else encoded(value).decode()
            )
        with suppress(asyncpg.DataError, asyncpg.IntegrityConstraintViolationError):
            try:
                row = await connection.fetchrow(EMIT, *arguments.values())
            except asyncpg.PostgresError as error:
                if not (error.sqlstate or "").startswith(REFUSALS):
                    raise
            else:
                return row is not None and row["created"]
        return False

    await _emit_all(emit, connection, count)


@pytest.mark.parametrize("count", COUNTS)
async def test_the_command_emit_refuses_or_emits(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """All on one connection: a command's own takes a hundred times as long to plan emission."""

    @asynccontextmanager
    async def kept_connection(_: str | None) -> AsyncGenerator[Connection]:
        yield connection

    monkeypatch.setattr(items, "ledger_connection", kept_connection)
    group: Any = typer.main.get_command(app)
    _, command, _ = group.resolve_command(group.make_context("dueledger", ["emit"]), ["emit"])

    async def emit(number: int) -> bool:
        given = _options(inputs_of("emit by command", number), number)
        try:
            terms: dict[str, Any] = command.make_context("emit", given).params
            emitted = await items.emit_item(**{n: terms[n] for n in terms if n != "json_"})
        except Exception as error:
            described = describe(error)
            if described is None or unsafe_characters(described.message):
                raise
            return False
        assert document_text(emitted)
        return bool(emitted["created"])

    await _emit_all(emit, connection, count)


def _options(inputs: HostileInputs, number: int) -> list[str]:
    options = {**OPTIONS, "--key": f"P-{number}"}
    for name in inputs.random.sample(list(options), k=inputs.random.randrange(3)):
        options[name] = inputs.argument()
    return [each for option in options.items() for each in option]
