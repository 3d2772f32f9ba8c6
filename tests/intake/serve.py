"""An intake process of the tests, configured by its environment."""

import asyncio

from dueledger.ledger.intake import EventIntakeSettings, run_intake
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.runtime.service import Stop


async def main() -> None:
    """Record events until a stop is requested."""
    configure(json=True)
    settings = EventIntakeSettings()  # pyright: ignore[reportCallIssue]  # from the environment
    stop = Stop()
    stop.on_signals()
    await run_intake(settings, stop)


if __name__ == "__main__":
    asyncio.run(main())
