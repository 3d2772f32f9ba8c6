"""Checks of a ledger: its server, schema, clock and partitions, its processes and operations."""

import platform
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from time import monotonic
from typing import Final

from dueledger.flow_status import describe_failures
from dueledger.hindrances import has_upkeep
from dueledger.ledger.errors import SchemaTooNew
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import STATEMENT_REFUSED, Connection, is_lost
from dueledger.ledger.store.cells import list_sequences
from dueledger.ledger.store.migrations import pending_migrations
from dueledger.ledger.store.operations import list_open_operations
from dueledger.ledger.store.partitions import read_default_partition
from dueledger.ledger.store.processes import ProcessStatus, list_processes, read_roles
from dueledger.ledger.store.schema_version import require_usable_schema
from dueledger.ledger.store.server_version import SUPPORTED, read_server_version
from dueledger.ledger.store.topic_partitions import list_stalled_partitions

_XMIN_WARN: Final = (
    10_000_000  # transactions; a pinned snapshot cuts claiming to a fifth long before
)
_COUNTED_MAX: Final = 1_000_000
_SHOWN_MAX: Final = 6
_PROCESSES_MAX: Final = 1_000
_OPERATIONS_MAX: Final = 100

_STRIPE_WARN: Final = 0.8
_AHEAD_WARN_SECONDS: Final = 60.0  # a burst beyond the clock's rate is soon behind it again


class Health(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One line of the doctor's output. `remedy` is None if there is nothing to do."""

    name: str
    health: Health
    text: str
    remedy: str | None = None


def check_machine() -> tuple[DoctorCheck, DoctorCheck]:
    """Check what the process runs on."""
    return _python(), _tzdata()


async def check_ledger(connection: Connection) -> list[DoctorCheck]:
    """Return the checks of a ledger. One that the server refuses fails, and others go on."""
    try:
        async with connection.transaction():
            return [await check(connection) for check in _CHECKS]
    except STATEMENT_REFUSED:
        if is_lost(connection):
            raise
    return [await _check_alone(connection, check) for check in _CHECKS]


async def _check_alone(
    connection: Connection, check: Callable[[Connection], Awaitable[DoctorCheck]]
) -> DoctorCheck:
    try:
        async with connection.transaction():
            return await check(connection)
    except STATEMENT_REFUSED as error:
        if is_lost(connection):
            raise
        remedy = "run it as an auditor: `dueledger grant auditor TO …`"
        return DoctorCheck(check.__name__.strip("_"), Health.FAIL, str(error), remedy)


def _python() -> DoctorCheck:
    return DoctorCheck("python", Health.OK, f"{platform.python_version()} on {platform.system()}")


def _tzdata() -> DoctorCheck:
    try:
        version = version_of("tzdata")
        says = f"IANA {tzdata_version()}, of the pinned package {version}"
        return DoctorCheck("tzdata", Health.OK, f"{says}; the machine's own is not used")
    except PackageNotFoundError:
        return DoctorCheck(
            "tzdata", Health.FAIL, "the package is not installed", "install dueledger again"
        )


async def _postgres(connection: Connection) -> DoctorCheck:
    began = monotonic()
    version = await read_server_version(connection)
    answered = f"{version.text}, answers in {(monotonic() - began) * 500:.1f} ms"
    if not version.is_supported:
        return DoctorCheck("postgres", Health.FAIL, answered, f"use {SUPPORTED}")
    return DoctorCheck("postgres", Health.OK, answered)


async def _schema(connection: Connection) -> DoctorCheck:
    pending = await pending_migrations(connection)
    if pending:
        lacks = f"lacks {', '.join(pending)}"
        return DoctorCheck("schema", Health.FAIL, lacks, "run `dueledger migrate`")
    try:
        await require_usable_schema(connection)
    except SchemaTooNew as error:
        return DoctorCheck("schema", Health.FAIL, error.message, "install a newer version")
    return DoctorCheck("schema", Health.OK, "up to date")


async def _clock(connection: Connection) -> DoctorCheck:
    setting = await connection.fetchval("select current_setting('ledger.clock', true)")
    if setting:
        return DoctorCheck(
            "clock",
            Health.WARN,
            f"business time is simulated: {setting}",
            "fine for a demo; in production `alter database … reset ledger.clock`",
        )
    return DoctorCheck("clock", Health.OK, "not simulated")


async def _snapshots(connection: Connection) -> DoctorCheck:
    age = await connection.fetchval(
        "select coalesce(max(age(backend_xmin)), 0) from pg_stat_activity"
    )
    if age > _XMIN_WARN:
        held = f"the oldest snapshot is {age:,} transactions old"
        return DoctorCheck(
            "snapshots", Health.WARN, held, "end the transaction that holds it (pg_stat_activity)"
        )
    return DoctorCheck("snapshots", Health.OK, f"the oldest is {age:,} transactions old")


async def _partitions(connection: Connection) -> DoctorCheck:
    default = await read_default_partition(connection, items_max=_COUNTED_MAX)
    outside = f"{default.items:,}{'' if default.items < _COUNTED_MAX else ' or more'} items"
    if default.unmade:
        return DoctorCheck(
            "partitions",
            Health.WARN,
            f"{outside} are in the default partition, and upkeep cannot move them: those of "
            + ", ".join(f"{day:%Y-%m}" for day in default.unmade[:_SHOWN_MAX])
            + (", …" if len(default.unmade) > _SHOWN_MAX else ""),
            "run `dueledger migrate --move-all` at a quiet time: others wait 6 s a million items",
        )
    if default.lacks_next:
        return DoctorCheck(
            "partitions",
            Health.WARN,
            "the next month has none; its items would go to the default partition",
            "run `dueledger migrate`, and allocators or direct workers; end long transactions",
        )
    return DoctorCheck("partitions", Health.OK, f"{outside} in the default partition")


async def _sequences(connection: Connection) -> DoctorCheck:
    if await connection.fetchval("select to_regprocedure('ledger.list_sequences()')") is None:
        return DoctorCheck("sequences", Health.FAIL, "none", "run `dueledger migrate`")
    rows = await list_sequences(connection)
    full = [row for row in rows if row["used"] >= _STRIPE_WARN]
    if full:
        given = ", ".join(f"{row['name']} {row['used']:.0%}" for row in full)
        return DoctorCheck(
            "sequences",
            Health.WARN,
            f"the numbers of this cell run out: {given} are given",
            "plan a ledger with another cell: `dueledger migrate --cell`",
        )
    ahead = [row for row in rows if (row["seconds_ahead"] or 0) > _AHEAD_WARN_SECONDS]
    if ahead:
        says = ", ".join(f"{row['name']} by {row['seconds_ahead']:,.0f} s" for row in ahead)
        return DoctorCheck(
            "sequences",
            Health.WARN,
            f"ahead of the clock: {says}; a copy restored meanwhile may give numbers again",
            "check the server's clock; the clock reaches them by itself, never set them back",
        )
    return DoctorCheck("sequences", Health.OK, f"{len(rows)} within the numbers of the cell")


async def _workers(connection: Connection) -> DoctorCheck:
    if await connection.fetchval("select to_regclass('ledger.stalled_partition')") is None:
        return DoctorCheck("workers", Health.FAIL, "none", "run `dueledger migrate`")
    stalled = await list_stalled_partitions(connection)
    if stalled:
        named = ", ".join(
            f"{row['partition']} of {row['topic']} since {row['stalled_at']:%Y-%m-%d %H:%M:%S}Z"
            for row in stalled[:_SHOWN_MAX]
        )
        return DoctorCheck(
            "workers",
            Health.WARN,
            f"{len(stalled)} partitions are stalled: {named}"
            + (", …" if len(stalled) > _SHOWN_MAX else ""),
            "see `partition.stalled` in the workers' logs: brokers away, or handlers that hang",
        )
    return DoctorCheck("workers", Health.OK, "no partition is stalled")


async def _processes(connection: Connection) -> DoctorCheck:
    if await connection.fetchval("select to_regclass('ledger.process')") is None:
        return DoctorCheck("processes", Health.FAIL, "none", "run `dueledger migrate`")
    processes = await list_processes(connection, _PROCESSES_MAX)
    live = Counter(row.role.label for row in processes if row.status is ProcessStatus.LIVE)
    lives = ", ".join(f"{count} {role}" for role, count in live.items()) or "none"
    lost = [row for row in processes if row.status is not ProcessStatus.LIVE]
    if lost:
        named = ", ".join(
            f"{row.name} ({row.status}) since {row.seen_at:%Y-%m-%d %H:%M:%S}Z"
            for row in lost[:_SHOWN_MAX]
        )
        return DoctorCheck(
            "processes",
            Health.WARN,
            f"live: {lives}; not live, and not stopped: {named}"
            + (", …" if len(lost) > _SHOWN_MAX else ""),
            "gone: killed or cut off, start it again; silent: see whether it is stopped or hangs",
        )
    return DoctorCheck("processes", Health.OK, f"live: {lives}")


async def _failures(connection: Connection) -> DoctorCheck:
    failures = describe_failures(await read_roles(connection))
    if not failures:
        return DoctorCheck("failures", Health.OK, "every live process can take work")
    return DoctorCheck(
        "failures",
        Health.WARN,
        "; ".join(failures),
        "see `tick.failed` and `service.awaited` in their logs; the checks of kafka are below",
    )


async def _operations(connection: Connection) -> DoctorCheck:
    opened = await list_open_operations(connection, _OPERATIONS_MAX + 1)
    if not opened:
        return DoctorCheck("operations", Health.OK, "none is open")
    named = ", ".join(
        f"{each.operation_no} ({each.verb}{', paused' if each.is_paused else ''}"
        f"{', waits for a second person' if each.awaits_approval else ''})"
        for each in opened[:_SHOWN_MAX]
    )
    more = ", …" if len(opened) > _SHOWN_MAX else ""
    count = f"{_OPERATIONS_MAX}+" if len(opened) > _OPERATIONS_MAX else f"{len(opened)}"
    shown = f"{count} open: {named}{more}"
    if has_upkeep(await read_roles(connection)):
        return DoctorCheck("operations", Health.OK, shown)
    return DoctorCheck(
        "operations",
        Health.WARN,
        f"{shown}; no process carries operations out",
        "start one: `dueledger allocate`, or `dueledger work --direct module:handlers`",
    )


_CHECKS: Final = (
    _postgres,
    _schema,
    _clock,
    _snapshots,
    _partitions,
    _sequences,
    _processes,
    _failures,
    _operations,
    _workers,
)
