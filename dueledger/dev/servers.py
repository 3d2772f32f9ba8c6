"""The servers of `dueledger dev`: one that ends by itself is named, and started again once."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol, final

from dueledger.stack import StackError

ENDS_MAX: Final = 1


class Server(Protocol):
    """What is watched of a server."""

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        ...

    def start(self) -> None:
        """Start it and return when it is ready; on the ports that it had before."""
        ...

    def log_tail(self) -> str:
        """Return the last lines that it wrote since it was started."""
        ...


@final
class ServerWatch:
    """Looks after servers by name. `remark` takes the name of a server and a line about it."""

    def __init__(self, servers: Mapping[str, Server], remark: Callable[[str, str], object]) -> None:
        self._servers = servers
        self._remark = remark
        self._ends = dict.fromkeys(servers, 0)

    async def check(self) -> None:
        """Start each server again that has ended; say so, and what it wrote last.

        Raises StackError where one has ended once more.
        """
        for name, server in self._servers.items():
            if server.running:
                continue
            lines = server.log_tail().splitlines()
            self._remark(name, f"ended by itself; its last {len(lines)} lines:")
            for line in lines:
                self._remark(name, f"  {line}")
            self._ends[name] += 1
            if self._ends[name] > ENDS_MAX:
                raise StackError(
                    "server_ended", f"{name} ended again.", "Its last lines above say why."
                )
            self._remark(name, "is started again, once")
            await asyncio.to_thread(server.start)
