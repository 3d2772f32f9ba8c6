"""Metrics of the whole ledger, and the lead of who reads them."""

from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


async def take_lead(connection: Connection, task: str, holder: str, seconds: float) -> int | None:
    """Take or keep a task that one process does at a time; return the term of the lead.

    None if another process has it. The term is the same until another process takes the task.
    """
    return await connection.fetchval(statement("take_lead"), task, holder, seconds)


async def measure_gauges(connection: Connection) -> list[Sample]:
    """Return the metrics of the whole ledger."""
    rows = await connection.fetch(statement("measure_gauges"))
    return [Sample(Metric(metric), value, tuple(labels)) for metric, labels, value in rows]
