"""What a benchmark reads back: how many items ended, and how long each step took."""

from dataclasses import dataclass

from ledger.store.connection import Connection
from ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class Steps:
    """Times between the steps of completed items; `seconds` is first claim to last completion."""

    seconds: float
    claims: int
    runs: int
    milliseconds: dict[str, dict[str, float]]


async def count_ended(connection: Connection) -> int:
    """Count the items that ended in a run. Reads all runs: for benchmarks alone."""
    return await connection.fetchval(statement("count_ended"))


async def measure_steps(connection: Connection, *, key_prefix: str) -> Steps:
    """Measure the steps of the items whose business key begins with `key_prefix`."""
    rows = await connection.fetch(statement("measure_steps"), key_prefix)
    row = rows[0]
    return Steps(
        seconds=row["seconds"],
        claims=row["claims"],
        runs=row["runs"],
        milliseconds={
            name: {"p50": round(row[column][0] * 1e3, 1), "p99": round(row[column][1] * 1e3, 1)}
            for name, column in (
                ("claim_to_publish", "published"),
                ("claim_to_start", "started"),
                ("start_to_complete", "completed"),
                ("claim_to_complete", "whole"),
            )
        },
    )


async def rest_tables(connection: Connection) -> None:
    """Vacuum and analyze what a bulk load has filled, so that a measurement starts settled."""
    for table in ("due_item", "pending", "transition"):
        await connection.execute(f"vacuum (analyze) ledger.{table}")
