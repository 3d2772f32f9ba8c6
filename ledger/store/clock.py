"""The database's two clocks, and their simulation for tests and the demo."""

from datetime import datetime

from dueledger.ledger.store.connection import Connection


async def read_now(connection: Connection) -> datetime:
    """Return the business clock, as an aware datetime in UTC."""
    return await connection.fetchval("select ledger.now()")


async def read_machine_now(connection: Connection) -> datetime:
    """Return the machine clock, of leases and deadlines, as an aware datetime in UTC."""
    return await connection.fetchval("select ledger.machine_now()")


async def set_machine_clock(connection: Connection, origin: datetime, rate: float) -> None:
    """Simulate the machine clock for this session only. Tests use it."""
    anchor = await connection.fetchval("select clock_timestamp()")
    await connection.execute(
        "select set_config('ledger.machine_clock', $1, false)", _setting(origin, anchor, rate)
    )


async def set_clock(
    connection: Connection, origin: datetime, rate: float, *, database: bool = False
) -> None:
    """Simulate the business clock from `origin`, at `rate` simulated seconds a second; 0 stops it.

    With `database` every later connection sees it, otherwise only this session. Only members of
    ledger_simulator may use it: for other roles the next statement fails with ClockRefused.
    """
    anchor = await connection.fetchval("select clock_timestamp()")
    await _set(connection, _setting(origin, anchor, rate), database=database)


def _setting(origin: datetime, anchor: datetime, rate: float) -> str:
    return f"{origin.isoformat()}|{anchor.isoformat()}|{rate}"


async def _set(connection: Connection, setting: str, *, database: bool) -> None:
    await connection.execute("select set_config('ledger.clock', $1, false)", setting)
    if database:
        name = await connection.fetchval("select quote_ident(current_database())")
        literal = await connection.fetchval("select quote_literal($1::text)", setting)
        await connection.execute(f"alter database {name} set ledger.clock = {literal}")
