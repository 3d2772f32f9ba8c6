"""The handler that benchmarks work with: it does nothing, and leaves evidence of every item."""

from dueledger.bench.workload import KIND
from workers import Completed, DueItem, Handlers, Verdict

handlers = Handlers()


@handlers.on_batch(KIND, batch_max=2000, concurrency=4)
async def complete(items: list[DueItem]) -> list[Verdict]:
    """Complete each item with a reference of its own, as a provider would give."""
    return [Completed(f'{{"reference":"{item.fence}-{item.position}"}}') for item in items]
