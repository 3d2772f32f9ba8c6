"""The counts of a worker are logged while it runs."""

from structlog.testing import capture_logs

from dueledger.ledger.runtime.log import LogEvent
from dueledger.workers.counts import CountsReport, WorkerCounts


async def test_counts_are_logged_when_they_have_changed_and_not_before() -> None:
    counts = WorkerCounts()
    report = CountsReport(counts)
    with capture_logs() as logged:
        await report.tick()
        counts.stalls += 1
        await report.tick()
        await report.tick()
    assert [line["event"] for line in logged] == [LogEvent.TICK_COMPLETED]
    assert {name: logged[0][name] for name in counts.snapshot()} == counts.snapshot()
