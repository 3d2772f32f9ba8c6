"""Runs the periodic jobs, which here means taking note of them."""

from dueledger import Completed, DueItem, Handlers, Verdict

handlers = Handlers()


@handlers.on_batch("PeriodicJobDue", batch_max=500)
async def start_jobs(items: list[DueItem]) -> list[Verdict]:
    """Answer each job with the name its run would have had."""
    return [Completed({"run": f"{item.business_key}@{item.cycle}"}) for item in items]
