"""Connections that are reset at each request of a start, one request later each time."""

from collections.abc import Collection


class Cuts:
    """Resets the connection at the first request of a start, at the second of the next, and so on.

    Requests are counted over all connections since the last reset.
    """

    def __init__(self) -> None:
        self.count = 0
        self.has_ended = False
        self._passed = 0

    def tap(self) -> "CutTap":
        """Return what a proxy shows the requests of a connection."""
        return CutTap(self)

    def hear(self) -> None:
        if self._passed < self.count or self.has_ended:
            self._passed += 1
            return
        self.count += 1
        self._passed = 0
        raise ConnectionResetError


class CutTap:
    """Counts the requests of one connection."""

    answer_end = b""

    def __init__(self, cuts: Cuts) -> None:
        self._cuts = cuts

    def heard(self, chunk: bytes) -> Collection[str]:
        del chunk
        self._cuts.hear()
        return ()
