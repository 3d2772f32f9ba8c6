"""A materialiser process of the tests, configured by its environment."""

import asyncio

from dueledger.ledger.materialise import MaterialiserSettings, run_materialiser
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.runtime.service import Stop


async def main() -> None:
    """Materialise until a stop is requested."""
    configure(json=True)
    settings = MaterialiserSettings()  # pyright: ignore[reportCallIssue]  # from the environment
    stop = Stop()
    stop.on_signals()
    await run_materialiser(settings, stop)


if __name__ == "__main__":
    asyncio.run(main())
