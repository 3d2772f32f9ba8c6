"""The process that sends alerts. Any number may run; one of them sends at a time."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import Final, NamedTuple, final

from dueledger.alerts.channels import AlertChannel, NotSent, open_channels
from dueledger.alerts.notices import (
    TEST,
    AlertRows,
    Notice,
    after_sending,
    due_notices,
    is_known,
    update_rows,
)
from dueledger.alerts.rules import DATABASE_BYTES_MAX, AlertKey, Alerts, evaluate
from dueledger.alerts.settings import AlertSettings
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import STATEMENT_REFUSED, Pool, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.alerts import AlertLead, AlertRow, list_alerts, record_alerts
from dueledger.ledger.store.clock import read_machine_now
from dueledger.ledger.store.gauges import measure_gauges, take_lead
from dueledger.ledger.store.processes import ProcessRole

LEAD_SECONDS: Final = 90.0
PASS_SECONDS: Final = 60.0
"""Time after which a pass begins no further send; the next pass goes on."""
TASK: Final = "alerts"
SENT: Final = "sent"
_CANNOT_USE: Final = (Unavailable, STATEMENT_REFUSED)
"""Postgres is away, or refuses to be read or written, as with a full disk or on a standby."""

Record = Callable[[AlertRow], Awaitable[bool]]


class _Found(NamedTuple):
    """What a process found that leads: its lead, and the alerts as they are recorded now."""

    lead: AlertLead
    rows: AlertRows


@final
class Alerter:
    """Finds alerts and sends them.

    Who led last when Postgres went away says so by itself, since nobody can take the lead then, and
    says itself that it is over.
    """

    def __init__(
        self,
        pool: Pool,
        channels: Mapping[str, AlertChannel],
        *,
        holder: str,
        database_bytes_max: float = DATABASE_BYTES_MAX,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._pool = pool
        self._channels = channels
        self._holder = holder
        self._database_bytes_max = database_bytes_max
        self._leads = False
        self._clock = clock
        self._read_at: tuple[datetime, float] | None = None
        self._own: AlertRows = {}
        """Alerts about Postgres: they cannot be recorded there."""
        self._log = get_logger("alert")

    async def tick(self) -> dict[str, int]:
        """Make a pass; return how many notices were sent and not sent."""
        try:
            found = await self._find()
        except _CANNOT_USE:
            if self._leads:
                await self._report_postgres(is_usable=False)
            raise
        await self._report_postgres(is_usable=True)
        if found is None:
            return {}
        return await self._send(
            found.rows, self._now(), lambda row: self._record([row], found.lead)
        )

    async def _find(self) -> _Found | None:
        """Take the lead, find what stands and record it; None if another process leads."""
        async with self._pool.acquire() as connection:
            term = await take_lead(connection, TASK, self._holder, LEAD_SECONDS)
            self._read_at = await read_machine_now(connection), self._clock()
            if term is None:
                self._leads = False
                return None
            self._leads = True
            before = {
                AlertKey(row.name, row.labels): row if is_known(row) else _forgotten(row)
                for row in await list_alerts(connection)
            }
            alerts = evaluate(
                await measure_gauges(connection), database_bytes_max=self._database_bytes_max
            )
        lead = AlertLead(TASK, self._holder, term, LEAD_SECONDS)
        rows = update_rows(before, alerts, self._now())
        return _Found(lead, rows) if await self._record(list(rows.values()), lead) else None

    def _now(self) -> datetime:
        """Return the machine clock of Postgres, as it was read and has gone on since."""
        assert self._read_at is not None  # noqa: S101 - it is read before
        at, then = self._read_at
        return at + timedelta(seconds=self._clock() - then)

    async def _record(self, rows: Sequence[AlertRow], lead: AlertLead) -> bool:
        async with self._pool.acquire() as connection:
            self._leads = await record_alerts(connection, rows, lead)
        return self._leads

    async def _report_postgres(self, *, is_usable: bool) -> None:
        if is_usable and not self._own:
            return
        alerts: Alerts = {}
        if not is_usable:
            sample = Sample(Metric.SERVER_UNREACHABLE, 1, ("postgres", "alert"))
            alerts = {
                key: value
                for key, value in evaluate([sample]).items()
                if key.name == "PostgresUnreachable"
            }
        now = self._now()
        self._own = update_rows(self._own, alerts, now)
        await self._send(self._own, now, _kept)
        self._own = {key: row for key, row in self._own.items() if not row.is_over}

    async def _send(self, rows: AlertRows, now: datetime, record: Record) -> dict[str, int]:
        """Send what is due, and record after each which channels have it, while it may."""
        sent = failed = 0
        refused: set[str] = set()
        ends_at = self._clock() + PASS_SECONDS
        for notice in due_notices(rows, self._channels, now, beside=self._own):
            if self._clock() > ends_at:
                break
            if notice.channel in refused:
                continue
            try:
                await self._send_one(notice, now)
            except NotSent as error:
                failed += 1
                refused.add(notice.channel)
                self._log.warning(
                    LogEvent.ALERT_NOT_SENT,
                    alert=notice.row.name,
                    channel=notice.channel,
                    message=str(error),
                )
                continue
            sent += 1
            key = AlertKey(notice.row.name, notice.row.labels)
            rows[key] = after_sending(rows[key], notice.channel)
            if not await record(rows[key]):
                break
        return {"sent": sent, "failed": failed}

    async def _send_one(self, notice: Notice, now: datetime) -> None:
        channel = self._channels.get(notice.channel)
        if channel is None:  # the settings have it no more
            return
        await channel.send(notice, int(now.timestamp()))
        self._log.info(
            LogEvent.ALERT_SENT,
            alert=notice.row.name,
            labels=notice.row.labels,
            channel=notice.channel,
            has_ended=notice.row.ended_at is not None,
        )

    async def send_test(self) -> dict[str, str]:
        """Send one notice of a test to each channel; return what each says."""
        async with self._pool.acquire() as connection:
            now = await read_machine_now(connection)
        results: dict[str, str] = {}
        for name, channel in self._channels.items():
            notice = Notice(AlertRow(TEST, (), 1.0, now), name)
            try:
                await channel.send(notice, int(now.timestamp()))
            except NotSent as error:
                results[name] = str(error)
            else:
                results[name] = SENT
        return results


def _forgotten(row: AlertRow) -> AlertRow:
    """Return the row of an alert without a rule as one that is over, of which nothing is sent."""
    return row._replace(ended_at=row.since, end_sent_to=row.sent_to)


async def _kept(_: AlertRow) -> bool:
    return True


@asynccontextmanager
async def open_alerter(settings: AlertSettings) -> AsyncGenerator[Alerter]:
    """Connect, and open the channels. Raises Unavailable if Postgres cannot be reached.

    Once it is open it goes on while Postgres is away.
    """
    holder = incarnation(ActorKind.ALERTER)
    dsn = settings.dsn.get_secret_value()
    async with (
        open_channels(settings) as channels,
        open_pool(
            dsn, application_name=holder, size_max=1, roles=("alerter",), command_seconds=20.0
        ) as pool,
        open_presence(dsn, holder, ProcessRole.ALERTER) as presence,
    ):
        log = get_logger("alert")
        log.info(
            LogEvent.PROCESS_STARTED,
            actor=holder,
            actor_no=presence.process_no,
            channels=list(channels),
        )
        yield Alerter(
            pool, channels, holder=holder, database_bytes_max=settings.alert_database_bytes_max
        )
        log.info(LogEvent.PROCESS_STOPPED, actor=holder)


async def run_alerter(settings: AlertSettings, stop: Stop) -> None:
    """Send alerts until a stop is requested."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: AlertSettings, stop: Stop) -> None:
    async with open_alerter(settings) as alerter:
        stop.mark_started()
        await run_service(
            "alert", alerter.tick, stop=stop, idle_seconds=settings.alert_interval_seconds
        )
