"""The process that sends alerts. Any number may run; one of them sends at a time."""

import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import Final, final

from dueledger.alerts.channels import AlertChannel, NotSent, open_channels
from dueledger.alerts.notices import AlertRows, Notice, after_sending, due_notices, update_rows
from dueledger.alerts.rules import AlertKey, Alerts, evaluate
from dueledger.alerts.settings import AlertSettings
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.metrics import Metric, Sample
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import Pool, open_pool
from dueledger.ledger.store.alerts import AlertRow, list_alerts, record_alerts
from dueledger.ledger.store.clock import read_machine_now
from dueledger.ledger.store.gauges import measure_gauges, take_lead

LEAD_SECONDS: Final = 90.0
SENDS_MAX: Final = 50
"""Notices of one pass to one channel; the others are sent in the next ones."""
TASK: Final = "alerts"


@final
class Alerter:
    """Finds alerts and sends them.

    Who led last when Postgres went away says so by itself: nobody can take the lead then.
    """

    def __init__(
        self,
        pool: Pool,
        channels: Mapping[str, AlertChannel],
        *,
        holder: str,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._pool = pool
        self._channels = channels
        self._holder = holder
        self._leads = False
        self._clock = clock
        self._read: tuple[datetime, float] | None = None
        self._own: AlertRows = {}
        """Alerts about Postgres: they cannot be recorded there."""
        self._log = get_logger("alert")

    async def tick(self) -> dict[str, int]:
        """Make a pass; return how many notices were sent and not sent."""
        try:
            async with self._pool.acquire() as connection:
                self._leads = await take_lead(connection, TASK, self._holder, LEAD_SECONDS)
                if not self._leads:
                    return {}
                now = await read_machine_now(connection)
                self._read = now, self._clock()
                rows = {
                    AlertKey(row.name, row.labels): row for row in await list_alerts(connection)
                }
                alerts = evaluate(await measure_gauges(connection))
        except Unavailable:
            await self._report_postgres(unreachable=True)
            raise
        await self._report_postgres(unreachable=False)
        updated = update_rows(rows, alerts, now)
        counts = await self._send(updated, now)
        async with self._pool.acquire() as connection:
            await record_alerts(connection, list(updated.values()))
        return counts

    async def _report_postgres(self, *, unreachable: bool) -> None:
        if self._read is None or not self._leads or not (unreachable or self._own):
            return
        at, then = self._read
        now = at + timedelta(seconds=self._clock() - then)
        alerts: Alerts = {}
        if unreachable:
            sample = Sample(Metric.SERVER_UNREACHABLE, 1, ("postgres", "alert"))
            alerts = {
                key: value
                for key, value in evaluate([sample]).items()
                if key.name == "PostgresUnreachable"
            }
        self._own = update_rows(self._own, alerts, now)
        await self._send(self._own, now)
        self._own = {
            key: row for key, row in self._own.items() if row.ended_at is None or row.sent_to
        }

    async def _send(self, rows: AlertRows, now: datetime) -> dict[str, int]:
        """Send what is due, and note in `rows` which channels have it."""
        sent = failed = 0
        refused: set[str] = set()
        for notice in due_notices(rows, self._channels, now)[: SENDS_MAX * len(self._channels)]:
            channel = self._channels.get(notice.channel)
            key = AlertKey(notice.row.name, notice.row.labels)
            if notice.channel in refused:
                continue
            try:
                if channel is not None:  # otherwise the settings have it no more
                    await channel.send(notice, int(now.timestamp()))
            except NotSent as error:
                failed += 1
                refused.add(notice.channel)
                self._log.warning(
                    LogEvent.ALERT_NOT_SENT,
                    alert=notice.row.name,
                    channel=notice.channel,
                    message=str(error),
                )
            else:
                sent += 1
                rows[key] = after_sending(rows[key], notice.channel)
                self._log.info(
                    LogEvent.ALERT_SENT,
                    alert=notice.row.name,
                    labels=notice.row.labels,
                    channel=notice.channel,
                    has_ended=notice.row.ended_at is not None,
                )
        return {"sent": sent, "failed": failed}

    async def send_test(self) -> dict[str, str]:
        """Send one notice of a test to each channel; return what each says."""
        async with self._pool.acquire() as connection:
            now = await read_machine_now(connection)
        results: dict[str, str] = {}
        for name, channel in self._channels.items():
            row = AlertRow("ItemsParked", ("test", "test"), 1.0, now, None, frozenset())
            try:
                await channel.send(Notice(row, name), int(now.timestamp()))
            except NotSent as error:
                results[name] = str(error)
            else:
                results[name] = "sent"
        return results


@asynccontextmanager
async def open_alerter(settings: AlertSettings) -> AsyncGenerator[Alerter]:
    """Connect, and open the channels. Raises Unavailable if Postgres cannot be reached."""
    holder = f"alert:{socket.gethostname()}:{os.getpid()}"
    dsn = settings.dsn.get_secret_value()
    async with (
        open_channels(settings) as channels,
        open_pool(
            dsn, application_name=holder, size_max=1, roles=("alerter",), command_seconds=20.0
        ) as pool,
    ):
        log = get_logger("alert")
        log.info(LogEvent.PROCESS_STARTED, actor=holder, channels=list(channels))
        yield Alerter(pool, channels, holder=holder)
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
