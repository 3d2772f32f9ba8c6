"""How far a consumer has read a partition."""

from typing import NamedTuple


class FetchPosition(NamedTuple):
    """Where a consumer is in a partition, by the last response to a fetch; None before the first.

    `end` is the offset after the last record that may be read.
    """

    position: int | None
    end: int | None
    answered_at: float | None

    @property
    def unread(self) -> int:
        """Number of records from the position to the end."""
        if self.position is None or self.end is None:
            return 0
        return max(0, self.end - self.position)

    @property
    def is_read_up(self) -> bool:
        """Return whether the last response had nothing more to read."""
        return self.position is not None and self.end is not None and self.position >= self.end
