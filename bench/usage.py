"""CPU and memory of processes, read from outside, and which of them limits a measurement."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple, final

import psutil

BUSY: Final = 0.9
NOTICEABLE: Final = 0.05
WAITING: Final = 0.2
READINGS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Usage:
    """What each process used in a window of time, by name; `cores_busy` counts all processes.

    `cores` are those that this process and its children may run on.
    """

    seconds: float
    cpu_seconds: dict[str, float]
    cores: int
    cores_busy: float
    cores_waiting: float

    @property
    def cores_ours(self) -> float:
        """Cores that the measured processes kept busy."""
        return sum(self.cpu_seconds.values()) / self.seconds

    def share_of_core(self) -> dict[str, float]:
        """Return each process's share of one core."""
        return {name: used / self.seconds for name, used in self.cpu_seconds.items()}

    def microseconds_an_item(self, items: int) -> dict[str, float]:
        """Return the CPU that an item cost, by process."""
        return {name: round(used / items * 1e6, 1) for name, used in self.cpu_seconds.items()}


@final
class Meter:
    """Reads the usage of processes when it is made, and again on `read`."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        """Begin to measure; `roots` are process ids by name, each with its children."""
        self._roots = dict(roots)
        self._began = monotonic()
        self._cpu = _cpu_seconds(self._roots)
        self._machine = _machine_seconds()

    def read(self) -> Usage:
        """Return what was used since the start. A process that has ended counts as last read."""
        seconds = max(monotonic() - self._began, 1e-9)
        machine, before = _machine_seconds(), self._machine
        used = _cpu_seconds(self._roots)
        idle, waiting = machine.idle - before.idle, machine.waiting - before.waiting
        cores = machine.cores
        return Usage(
            seconds=seconds,
            cpu_seconds={
                name: round(used[name] - self._cpu[name], 3) for name in used if name in self._cpu
            },
            cores=cores,
            cores_busy=min(max(cores - (idle + waiting) / seconds, 0.0), cores),
            cores_waiting=waiting / seconds,
        )


def bound_by(usage: Usage) -> str:
    """Return in one line what limits a measurement, computed from the figures."""
    shares = _shares_by_role(usage)
    total = sum(shares.values()) or 1.0
    parts = ", ".join(f"{name} {used / total:.0%}" for name, used in shares.items() if used)
    ours, cores = usage.cores_ours / usage.cores, f"{usage.cores} cores"
    fullest, full = max(usage.share_of_core().items(), key=lambda pair: pair[1], default=("", 0.0))
    strangers = usage.cores_busy - usage.cores_ours
    others = (
        f"; other programs took {strangers / usage.cores:.0%}"
        if strangers > NOTICEABLE * usage.cores
        else ""
    )
    if ours >= BUSY:
        return f"the CPU: {cores} {ours:.0%} busy, of which {parts}"
    if usage.cores_busy / usage.cores >= BUSY:
        return f"the CPU: {cores} full, {ours:.0%} of them with {parts}{others}"
    if full >= BUSY:
        return f"{fullest}, {full:.0%} of a core; {cores} {ours:.0%} busy, of which {parts}{others}"
    if usage.cores_waiting / usage.cores >= WAITING:
        waiting = usage.cores_waiting / usage.cores
        return f"the disk: a core waited for it {waiting:.0%} of the time; {parts}{others}"
    return f"not the CPU: {cores} {ours:.0%} busy, of which {parts}{others}"


def memory_bytes(roots: Mapping[str, int]) -> dict[str, int]:
    """Return the memory by name that each process and its children use privately."""
    return {name: _tree_bytes(pid) for name, pid in roots.items()}


class _Machine(NamedTuple):
    """Seconds that this process's cores were idle, or waited for a disk."""

    cores: int
    idle: float
    waiting: float


def _machine_seconds() -> _Machine:
    every = psutil.cpu_times(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(every))
    cores = [every[number] for number in mine if number < len(every)]
    waiting = sum(float(getattr(core, "iowait", 0.0)) for core in cores)
    return _Machine(len(cores), sum(core.idle for core in cores), waiting)


def _shares_by_role(usage: Usage) -> dict[str, float]:
    roles: dict[str, float] = {}
    for name, used in usage.cpu_seconds.items():
        role = name.rstrip("-0123456789")
        roles[role] = roles.get(role, 0.0) + used
    return dict(sorted(roles.items(), key=lambda pair: -pair[1]))


def _cpu_seconds(roots: Mapping[str, int]) -> dict[str, float]:
    """Return user and system seconds by name: of each process and its children, ended or not."""
    seconds: dict[str, float] = {}
    for name, pid in roots.items():
        try:
            seconds[name] = _tree_seconds(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    return seconds


def _tree_seconds(root: psutil.Process) -> float:
    own = root.cpu_times()
    if root.pid == os.getpid():
        return own.user + own.system  # its children are measured by their own names
    below = 0.0
    for _ in range(READINGS_MAX):
        below = sum(_seconds(process) for process in root.children(recursive=True))
        seen, own = own, root.cpu_times()
        if (seen.children_user, seen.children_system) == (own.children_user, own.children_system):
            break  # otherwise a child ended meanwhile, and was counted twice or not at all
    return own.user + own.system + own.children_user + own.children_system + below


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _tree_bytes(pid: int) -> int:
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in family:
        try:
            total += process.memory_full_info().uss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
