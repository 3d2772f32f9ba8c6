"""Metrics of the whole ledger, and the lead of who reads them."""

from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


async def take_lead(connection: Connection, task: str, holder: str, seconds: float) -> bool:
    """Take or keep a task that one process does at a time; return whether `holder` has it."""
    return await connection.fetchval(statement("take_lead"), task, holder, seconds)


async def measure_gauges(connection: Connection) -> list[Sample]:
    """Return the metrics of the whole ledger."""
    rows = await connection.fetch(statement("measure_gauges"))
    return [Sample(Metric(metric), value, tuple(labels)) for metric, labels, value in rows]
