"""Up to when all is known of a kind, what blocks that, and what is not known of it at all."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.store import passes
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.event_backlog import kinds_of_events
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.tallies import KindTally

OF_ANY_KIND: Final = (WHOLE_LEDGER, WHOLE_LEDGER)
"""The kind of findings about what may have items of any kind, as a claim."""


def watermarks_of(expectation: Expectation, result: PassResult) -> list[passes.WatermarkRecord]:
    """Return the watermark of each kind, and what blocks it."""
    unknown = expectation.unknown_since(result.as_of)
    backlog = result.backlog
    of_events = kinds_of_events(expectation.versions) if backlog else set[KindKey]()
    failed_versions = {(each.tenant, each.kind): each for each in expectation.failures}
    failed_reads = [read for read in result.sources if read.failure]
    named = {key for read in failed_reads for key in read.kinds or ()}
    tallies = result.comparison.tallies
    records: list[passes.WatermarkRecord] = []
    for key in sorted({*tallies, *unknown, *of_events, *failed_versions, *named}):
        tally = tallies.get(key, KindTally())
        before: datetime | None = result.as_of
        blocked_by: str | None = None
        if tally.blocked_at is not None and tally.blocked_by is not None:
            before = tally.blocked_at
            blocked_by = f"item {UUID(bytes=tally.blocked_by)}, due and within its grace"
        if key in unknown and unknown[key][0] < before:
            before, name = unknown[key]
            blocked_by = f"the schedule {name}, which is materialised up to there"
        if backlog and key in of_events:
            read_before, blocked = backlog
            if read_before is None or read_before <= before:
                before, blocked_by = read_before, blocked
        if version := failed_versions.get(key):
            name = f"version {version.version} of {version.name}"
            before, blocked_by = None, f"{name}, which was changed in place or cannot be read"
        failed = [read.name for read in failed_reads if read.kinds is None or key in read.kinds]
        if failed:
            before, blocked_by = None, f"{', '.join(failed)} could not be read"
        omitted = result.omitted_open[key] + result.omitted_open[OF_ANY_KIND]
        if omitted or result.cut:
            before, blocked_by = None, "more findings than one pass lists"
        records.append(passes.WatermarkRecord(*key, before, blocked_by))
    return records


def unknown_kinds(
    expectation: Expectation, result: PassResult, graces: Mapping[KindKey, timedelta]
) -> dict[KindKey, str]:
    """Return why what is owed of a kind is not known, where no finding says it.

    A schedule that is not materialised for longer than the grace of its kind, or events that are
    unread for longer; the time of events is the broker's, so their age is by the machine's clock.
    """
    found: dict[KindKey, str] = {}
    for key, (since, name) in expectation.unknown_since(result.as_of).items():
        is_late = result.as_of - since > graces.get(key, timedelta())
        # By local time its first effective date may be the day before.
        if is_late and since.date() - timedelta(days=1) < result.scope.to_date:
            found[key] = (
                f"the schedule {name} is materialised only up to {since:%Y-%m-%d %H:%M} UTC"
            )
    backlog = result.backlog
    if backlog is not None:
        unread = backlog.read_before
        for key in kinds_of_events(expectation.versions):
            if unread is None or result.started_at - unread > graces.get(key, timedelta()):
                found[key] = backlog.blocked_by
    return found
