"""What may break at random: processes, servers, and the wires between them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from .programs import moment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from .proxy import Proxy
    from .servers import Servers
    from .supervision import Slot

SLOW_SECONDS: Final = 0.02
CUTS: Final = (
    "commit record_claims",
    "mark_published",
    "start_plain_runs",
    "settle_runs",
    "settle_completed_runs",
    "commit settle_completed_run",
    "commit settle_completed_runs",
    "extend_leases",
    "reap_runs",
    "reap_claims",
    "claim_and_start_items",
)


class Fault(NamedTuple):
    """Something that breaks `whom` for a time and mends it again; only one at a time does."""

    name: str
    whom: str
    seconds_max: float
    happen: Callable[[float], Awaitable[object]]


def faults_of_processes(slots: Mapping[str, Slot]) -> list[Fault]:
    """Kill, stop and freeze each process."""
    return [
        fault
        for whom, slot in slots.items()
        for fault in (
            Fault("kill", whom, 0, slot.kill),
            Fault("terminate", whom, 0, slot.terminate),
            Fault("freeze", whom, 8, slot.freeze),
        )
    ]


def faults_of_servers(servers: Servers) -> list[Fault]:
    """Stop and kill Postgres and the broker."""
    postgres, kafka = servers.stack.postgres, servers.stack.kafka
    stop_at_once = partial(postgres.stop, "immediate")
    return [
        Fault("stop", "kafka", 6, partial(_bounce, kafka.stop, kafka.start)),
        Fault("kill", "kafka", 6, partial(_bounce, kafka.kill, kafka.start)),
        *[Fault("crash", "postgres", 3, partial(_bounce, stop_at_once, postgres.start))] * 2,
    ]


def faults_of_wires(servers: Servers) -> list[Fault]:
    """Reset, slow down, silence, refuse and cut connections."""
    return [
        *(
            Fault(name, whom, seconds, partial(happen, proxy))
            for whom, proxy in (("kafka", servers.kafka), ("postgres", servers.postgres))
            for name, seconds, happen in (
                ("reset", 0, _reset),
                ("slow", 5, _slow),
                ("silence", 6, _stop_answers),
                ("refuse", 4, _refuse),
            )
        ),
        *(
            Fault(
                f"cut {'after' if answered else 'before'} {label}",
                "postgres",
                5,
                partial(_cut, servers.postgres, label, answered=answered),
            )
            for label in CUTS
            for answered in (False, True)
        ),
        Fault(
            "cut after produce",
            "kafka",
            5,
            partial(_cut, servers.kafka, "produce", answered=True),
        ),
    ]


async def _bounce(break_: Callable[[], object], mend: Callable[[], object], seconds: float) -> None:
    await asyncio.to_thread(break_)
    await moment(seconds)
    await asyncio.to_thread(mend)


async def _reset(proxy: Proxy, _: float) -> None:
    await proxy.reset()


async def _slow(proxy: Proxy, seconds: float) -> None:
    proxy.delay_seconds = SLOW_SECONDS
    await moment(seconds)
    proxy.heal()


async def _stop_answers(proxy: Proxy, seconds: float) -> None:
    proxy.silence()
    await moment(seconds)
    proxy.heal()


async def _refuse(proxy: Proxy, seconds: float) -> None:
    proxy.is_refusing = True
    await proxy.reset()
    await moment(seconds)
    proxy.heal()


async def _cut(proxy: Proxy, label: str, seconds: float, *, answered: bool) -> None:
    cut = proxy.hold(label, answered=answered)
    await asyncio.wait({cut.reached}, timeout=seconds)
    if cut.reached.done():
        cut.decide(passes=False)
    proxy.heal()
