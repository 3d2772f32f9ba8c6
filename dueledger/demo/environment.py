"""The stage the demo plays on: servers, a clock of its own, an insurer, and the processes."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dueledger.demo.progress_view import KindProgress, Progress, ProgressView
from dueledger.dev.examples import insurer
from dueledger.dev.processes import process_environment
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
    """How large the demo is. `periodics` None takes all; the day takes `day_seconds`."""

    policies: int = 20_000
    periodics: int | None = None
    day_seconds: float = 72.0
    seed: int = 7

    @property
    def rate(self) -> float:
        """Return how many business seconds pass in a real one."""
        return (DAY_END - DAY).total_seconds() / self.day_seconds


@dataclass(slots=True)
class DemoEnvironment:
    """Everything the acts of the demo share."""

    endpoints: Endpoints
    options: DemoOptions
    view: ProgressView
    supervisor: Supervisor
    connection: Connection

    async def set_clock(self, origin: datetime, rate: float) -> None:
        """Set business time for every process that is started from now on, and for this one."""
        await set_clock(self.connection, origin, rate, database=True)

    async def insurer(self, *arguments: str) -> dict[str, Any]:
        """Run a command of the insurer's own service and return its answer."""
        return await insurer(process_environment(self.endpoints), *arguments)

    async def show_progress(self) -> list[KindCounts]:
        """Show where everything stands, and return it."""
        standings = await read_progress(self.connection, before=DAY_END)
        completed = {
            (row.tenant, row.kind): row.completed for row in await read_accounting(self.connection)
        }
        if standings:
            self.view.show(
                Progress(
                    standings[0].now,
                    [
                        KindProgress(
                            tenant=standing.tenant,
                            kind=standing.kind,
                            due=standing.due,
                            later=standing.not_due,
                            claimed=standing.handed_out + standing.running,
                            in_kafka=standing.in_kafka,
                            completed=completed.get((standing.tenant, standing.kind), 0),
                            late=standing.late,
                        )
                        for standing in standings
                    ],
                )
            )
        return standings
