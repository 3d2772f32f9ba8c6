"""The document of a benchmark: its figures and their goals."""

import platform
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC
from importlib.metadata import version
from typing import Any, ClassVar, Protocol, TypeVar, final

from bench.measurements import BenchServer
from bench.rig import Rig
from bench.usage import Usage, bound_by
from dueledger import __version__
from dueledger.stack.kafka_jars import VERSION as KAFKA_VERSION


class OptionsClass(Protocol):
    """A dataclass: the options of a benchmark."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


_Options = TypeVar("_Options", bound=OptionsClass)


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure and its goal: a lower bound, or an upper bound with `ceiling`.

    Figure and bound are in `unit`. A figure of None could not be measured.
    """

    says: str
    figure: float | None
    bound: float
    unit: str
    ceiling: bool = False

    @property
    def reached(self) -> bool:
        """Whether the figure reaches the goal."""
        if self.figure is None:
            return False
        return self.figure <= self.bound if self.ceiling else self.figure >= self.bound

    def document(self) -> dict[str, Any]:
        """Return it as it is printed."""
        return {
            "goal": self.says,
            "figure": self.figure,
            "unit": self.unit,
            "bound": self.bound,
            "reached": self.reached,
        }


def at_most(says: str, figure: float | None, bound: float, unit: str) -> Goal:
    """Return a goal with an upper bound."""
    return Goal(says, figure, bound, unit, ceiling=True)


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a benchmark. `usage` is of the time that its main figure is measured in."""

    goals: list[Goal]
    figures: dict[str, Any]
    usage: Usage
    items: int | None = None


async def take(
    name: str, rig: Rig, bench: Callable[[Rig, _Options], Awaitable[Measured]], options: _Options
) -> dict[str, Any]:
    """Run one benchmark and return the document that it prints."""
    measured = await bench(rig, options)
    return document(name, asdict(options), measured, await rig.read_server())


def document(
    name: str, options: dict[str, Any], measured: Measured, server: BenchServer
) -> dict[str, Any]:
    """Return the document of one benchmark, the same in shape for all of them."""
    usage = measured.usage
    return {
        "benchmark": name,
        "options": options,
        "goals": [goal.document() for goal in measured.goals],
        **measured.figures,
        **usage_fields(usage, measured.items),
        "bound_by": bound_by(usage),
        "cores": usage.cores,
        "machine": platform.machine(),
        "dueledger": __version__,
        "python": platform.python_version(),
        "postgres": server.version,
        "kafka": KAFKA_VERSION,
        "asyncpg": version("asyncpg"),
        "aiokafka": version("aiokafka"),
        "fsync": server.fsync,
        "full_page_writes": server.full_page_writes,
        "synchronous_commit": server.synchronous_commit,
        "measured_at": server.now.astimezone(UTC).isoformat(timespec="seconds"),
    }


def usage_fields(usage: Usage, items: int | None) -> dict[str, Any]:
    """Return CPU by process: in seconds, of a core, and an item where items were counted."""
    fields: dict[str, Any] = {
        "cpu_seconds": {name: round(used, 2) for name, used in usage.cpu_seconds.items()},
        "cpu_share_of_core": {
            name: round(share, 4) for name, share in usage.share_of_core().items()
        },
    }
    if items:
        fields["cpu_microseconds_an_item"] = usage.microseconds_an_item(items)
    return fields
