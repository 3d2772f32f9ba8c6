"""Progress of the demo: one live table on a terminal, plain lines otherwise."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dueledger.ledger.visible_text import visible
from dueledger.time_spans import brief_span

_PLAIN_SECONDS: Final = 5.0
_COLUMNS: Final = (
    *("not due", "due", "oldest for", "claimed", "in Kafka", "completed", "past SLA"),
)


@dataclass(frozen=True, slots=True)
class KindProgress:
    """The counts of one kind's items by state, and when the oldest of its due ones was due."""

    tenant: str
    kind: str
    due: int
    oldest_due_at: datetime | None
    later: int
    claimed: int
    in_kafka: int
    completed: int
    past_sla: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The counts of all kinds at an instant of business time."""

    now: datetime
    kinds: Sequence[KindProgress]


class ProgressView(Protocol):
    """Shows steps, remarks and progress. Use it as a context manager around the demo."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def say(self, message: str) -> None:
        """Print one remark."""
        ...

    def show(self, progress: Progress) -> None:
        """Show the counts."""
        ...


def open_view(console: Console) -> ProgressView:
    """Return the view for a terminal, or for plain output."""
    return LiveView(console) if console.is_terminal else PlainView(console)


class _TimestampedView:
    """Remarks with the seconds since the demo began."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def say(self, message: str) -> None:
        """Print one line with the seconds since the start."""
        seconds = time.monotonic() - self._began
        line = visible(f"{seconds:6.1f} s  {message}")
        self._console.print(line, markup=False, soft_wrap=True)


class PlainView(_TimestampedView):
    """A line every five seconds."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, progress: Progress) -> None:
        """Print the counts, at most every five seconds."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PLAIN_SECONDS
        for kind in progress.kinds:
            oldest = _due_for(kind, progress.now)
            self.say(
                f"{progress.now:%a %H:%M} UTC  {kind.kind}: due {kind.due:,}"
                f"{f' (the oldest for {oldest})' if oldest else ''}, "
                f"claimed {kind.claimed:,}, in Kafka {kind.in_kafka:,}, "
                f"completed {kind.completed:,}, past its SLA {kind.past_sla:,}"
            )


class LiveView(_TimestampedView):
    """A table that is redrawn in place below the remarks."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, progress: Progress) -> None:
        """Redraw the table."""
        table = Table(
            title=f"{progress.now:%A %d %B %Y, %H:%M} UTC",
            title_justify="left",
            box=None,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        table.add_column()
        for name in _COLUMNS:
            table.add_column(name, justify="right")
        for kind in progress.kinds:
            table.add_row(
                Text(visible(kind.kind)),
                *(f"{figure:,}" for figure in (kind.later, kind.due)),
                _due_for(kind, progress.now),
                *(f"{figure:,}" for figure in (kind.claimed, kind.in_kafka, kind.completed)),
                f"{kind.past_sla:,}",
            )
        self._live.update(table, refresh=True)


def _due_for(kind: KindProgress, now: datetime) -> str:
    """Return how long the oldest due item has been due; empty if none is due."""
    return brief_span(now - kind.oldest_due_at) if kind.oldest_due_at is not None else ""
