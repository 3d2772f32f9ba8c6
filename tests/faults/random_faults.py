"""Random faults over a steady load. The seed decides which, upon whom, when and for how long."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import Stop

from .programs import eventually, moment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from .programs import Program
    from .proxy import Proxy
    from .site import Site

ALLOCATORS: Final = 2
WORKERS: Final = 3
DIRECT_WORKERS: Final = 1
LOAD_SECONDS: Final = 0.25
LOAD_ITEMS: Final = 30
POISON_EVERY: Final = 200
SPREAD_SECONDS: Final = (-1.0, 2.0)  # when items are due, from their emission
GAP_SECONDS: Final = (0.2, 2.5)
SLOW_SECONDS: Final = 0.02
FAILURES: Final = {"DUELEDGER_FAILURES_PER_THOUSAND": "20"}
RESTART_SECONDS: Final = 0.3
SAID_LINES: Final = 30  # of what a process said before it ended unasked
UNAVAILABLE: Final = 3  # how a process ends that finds no server when it starts
CUTS: Final = (
    "commit record_claims",
    "mark_published",
    "start_runs",
    "settle_runs",
    "commit settle_runs",
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


@dataclass
class Slot:
    """A supervisor of one process: when it ends, the next is started."""

    start: Callable[[], Awaitable[Program]]
    program: Program | None = None
    surprises: list[str] = field(default_factory=list[str])
    _expected: set[int] = field(default_factory=set[int])

    @property
    def running(self) -> bool:
        return self.program is not None and self.program.running

    @property
    def ready(self) -> bool:
        """Whether the process runs and has begun, so that it handles signals."""
        program = self.program
        return (
            program is not None
            and program.running
            and (program.role == "foreign" or bool(program.logged(LogEvent.PROCESS_STARTED)))
        )

    async def keep(self) -> None:
        while True:
            self._expected = {UNAVAILABLE}
            self.program = program = await self.start()
            code = await program.process.wait()
            if code not in self._expected:
                said = program.log.read_text(errors="replace").splitlines()[-SAID_LINES:]
                ended = "\n".join((f"{program.log.name} ended by itself with {code}:", *said))
                self.surprises.append(ended)
            await moment(RESTART_SECONDS)

    async def kill(self, _: float) -> None:
        await self._end(signal.SIGKILL, {-signal.SIGKILL})

    async def terminate(self, _: float) -> None:
        await self._end(signal.SIGTERM, {0, -signal.SIGTERM})  # that early it has no handler yet

    async def freeze(self, seconds: float) -> None:
        if self.program is not None and self.running:
            program = self.program
            program.send(signal.SIGSTOP)
            await moment(seconds)
            program.thaw()

    async def _end(self, number: signal.Signals, codes: set[int]) -> None:
        if self.program is not None and self.running:
            self._expected |= codes
            self.program.send(number)
            await self.program.process.wait()


class RandomFaults:
    """A fault, and its time."""

    def __init__(self, site: Site, seed: int) -> None:
        self.steps: list[str] = []
        self._site = site
        self._faults_by, self._load_by = Random(seed), Random(seed + 1)  # noqa: S311  # no secrets
        self._broken: set[str] = set()
        start_worker = partial(site.start_worker, **FAILURES)
        start_direct = partial(site.start_direct_worker, **FAILURES)
        self._slots = {
            **{f"allocator {number}": Slot(site.start_allocator) for number in range(ALLOCATORS)},
            **{f"worker {number}": Slot(start_worker) for number in range(WORKERS)},
            **{f"direct {number}": Slot(start_direct) for number in range(DIRECT_WORKERS)},
        }
        self._faults: list[Fault] = []

    @property
    def surprises(self) -> list[str]:
        """Return the processes that ended although no fault ended them."""
        return [each for slot in self._slots.values() for each in slot.surprises]

    async def run(self, seconds: float) -> None:
        """Break things for so long; return once all is mended and everything emitted is worked."""
        site = self._site
        kinds = [
            await site.add_kind(handler)
            for handler in ("batch", "single", "threaded", "transaction")
        ]
        kinds.append(await site.add_kind("single", ordering="key"))
        kinds += [await site.add_kind(each, dispatch="direct") for each in ("batch", "transaction")]
        kinds.append(foreign := await site.add_kind("foreign", settled_by="topic"))
        self._slots["foreign 0"] = Slot(partial(site.start_foreign, foreign))
        self._slots["outcomes 0"] = Slot(site.start_outcomes)
        self._faults = [*self._of_processes(), *self._of_servers()]
        # More than an innocent neighbour of poison can lose by faults, each of which takes seconds.
        poisoned = await site.add_kind("batch", attempt_max=10)
        stop = Stop()
        async with self._kept():
            loading = asyncio.create_task(self._load([*kinds, poisoned], poisoned, stop))
            began = monotonic()
            async with asyncio.TaskGroup() as happening:
                while (passed := monotonic() - began) < seconds:
                    fault = self._faults_by.choice(self._faults)
                    lasts = self._faults_by.uniform(0, fault.seconds_max)
                    if fault.whom not in self._broken:
                        self.steps.append(
                            f"{passed:6.1f} s {fault.name} {fault.whom} {lasts:.1f} s"
                        )
                        happening.create_task(self._happen(fault, lasts))
                    await moment(self._faults_by.uniform(*GAP_SECONDS))
            await site.servers.heal()
            stop.request()
            await loading
            self.steps.append(f"{monotonic() - began:6.1f} s healed; {len(site.emitted)} emitted")
            await site.finished()
            self.steps.append(f"{monotonic() - began:6.1f} s finished")
            await eventually(self._all_ready)

    async def _happen(self, fault: Fault, seconds: float) -> None:
        self._broken.add(fault.whom)
        try:
            await fault.happen(seconds)
        finally:
            self._broken.discard(fault.whom)

    @asynccontextmanager
    async def _kept(self) -> AsyncGenerator[None]:
        keepers = [asyncio.create_task(slot.keep()) for slot in self._slots.values()]
        try:
            yield
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)

    async def _all_ready(self) -> bool:
        return all(slot.ready for slot in self._slots.values())

    async def _load(self, kinds: Sequence[str], poisoned: str, stop: Stop) -> None:
        choice, site = self._load_by, self._site
        while not stop.is_requested:
            now = await eventually(site.now)
            due = [
                (choice.choice(kinds), now + timedelta(seconds=choice.uniform(*SPREAD_SECONDS)))
                for _ in range(LOAD_ITEMS)
            ]
            drafts = site.drafts_due(due)
            if (
                len(site.emitted) // POISON_EVERY
                != (len(site.emitted) + LOAD_ITEMS) // POISON_EVERY
            ):
                drafts += site.drafts(poisoned, 1, prefix="poison")
            await site.emit(drafts)
            await stop.wait(LOAD_SECONDS)

    def _of_processes(self) -> list[Fault]:
        return [
            fault
            for whom, slot in self._slots.items()
            for fault in (
                Fault("kill", whom, 0, slot.kill),
                Fault("terminate", whom, 0, slot.terminate),
                Fault("freeze", whom, 8, slot.freeze),
            )
        ]

    def _of_servers(self) -> list[Fault]:
        servers = self._site.servers
        postgres, kafka = servers.stack.postgres, servers.stack.kafka
        stop_at_once = partial(postgres.stop, "immediate")
        return [
            Fault("stop", "kafka", 6, partial(_bounce, kafka.stop, kafka.start)),
            Fault("kill", "kafka", 6, partial(_bounce, kafka.kill, kafka.start)),
            *[Fault("crash", "postgres", 3, partial(_bounce, stop_at_once, postgres.start))] * 2,
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
