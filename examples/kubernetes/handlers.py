"""Runs the periodic jobs; here it only records them."""

from dueledger import Completed, DueItem, Handlers, Verdict

handlers = Handlers()


@handlers.on_batch("PeriodicJobDue", batch_max=500)
async def start_jobs(items: list[DueItem]) -> list[Verdict]:
    """Complete each job with the name that its run would have."""
    return [Completed({"run": f"{item.business_key}@{item.cycle}"}) for item in items]
