"""The database's clock, and how tests and the demo simulate it."""

from datetime import datetime

from dueledger.ledger.store.connection import Connection


async def read_now(connection: Connection) -> datetime:
    """Return the business time, as an aware datetime in UTC."""
    return await connection.fetchval("select ledger.now()")


async def read_machine_now(connection: Connection) -> datetime:
    """Return the time of leases and deadlines, real unless a test simulates it, aware in UTC."""
    return await connection.fetchval("select ledger.machine_now()")


async def set_machine_clock(connection: Connection, origin: datetime, rate: float) -> None:
    """Simulate the clock of leases and deadlines, for this session alone."""
    anchor = await connection.fetchval("select clock_timestamp()")
    await connection.execute(
        "select set_config('ledger.machine_clock', $1, false)", _setting(origin, anchor, rate)
    )


async def set_clock(
    connection: Connection, origin: datetime, rate: float, *, database: bool = False
) -> None:
    """Let business time flow from `origin` at `rate` simulated seconds a second; 0 stands still.

    With `database`, every later connection sees it; otherwise this session alone. Only members of
    ledger_simulator may use it: for anybody else the next statement fails with ClockRefused.
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
