"""The environment of the demo: servers, a simulated clock, an insurer, and the processes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from dueledger.demo.progress_view import KindProgress, Progress, ProgressView
from dueledger.dev.child_processes import process_environment
from dueledger.dev.examples import insurer
from dueledger.dev.supervisor import Supervisor
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import set_clock
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.progress import KindCounts, read_progress
from dueledger.stack import Endpoints

DAY: Final = datetime(2027, 3, 1, tzinfo=UTC)
DAY_END: Final = DAY + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The size of the demo. `periodics` None uses all; the day takes `day_seconds`.

    With `serve` the console stays open on its ledger.
    """

    policies: int = 20_000
    periodics: int | None = None
    day_seconds: float = 72.0
    seed: int = 7
    serve: bool = False

    @property
    def rate(self) -> float:
        """Return the number of business seconds in a real second."""
        return (DAY_END - DAY).total_seconds() / self.day_seconds


@dataclass(slots=True)
class DemoEnvironment:
    """What the steps of the demo share."""

    endpoints: Endpoints
    options: DemoOptions
    view: ProgressView
    supervisor: Supervisor
    connection: Connection

    async def set_clock(self, origin: datetime, rate: float) -> None:
        """Set the business clock for this process and every process started later."""
        await set_clock(self.connection, origin, rate, database=True)

    async def insurer(self, *arguments: str) -> dict[str, Any]:
        """Run a command of the insurer's own service and return its result."""
        return await insurer(process_environment(self.endpoints), *arguments)

    async def defects(self, command: Literal["make", "mend"]) -> dict[str, Any]:
        """Damage the ledger and the bookings on purpose, or put back what was there."""
        environment = process_environment(self.endpoints)
        return await insurer(environment, command, program="defects")

    async def show_progress(self) -> list[KindCounts]:
        """Show the counts of items by state, and return them."""
        progress = await read_progress(self.connection, before=DAY_END)
        completed = {
            (row.tenant, row.kind): row.completed for row in await read_accounting(self.connection)
        }
        if progress:
            self.view.show(
                Progress(
                    progress[0].now,
                    [
                        KindProgress(
                            tenant=counts.tenant,
                            kind=counts.kind,
                            due=counts.due,
                            oldest_due_at=counts.oldest_due_at,
                            later=counts.not_due,
                            claimed=counts.handed_out + counts.running,
                            in_kafka=counts.in_kafka,
                            completed=completed.get((counts.tenant, counts.kind), 0),
                            past_sla=counts.past_sla,
                        )
                        for counts in progress
                    ],
                )
            )
        return progress
