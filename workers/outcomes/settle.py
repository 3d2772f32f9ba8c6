"""Settles reported outcomes in one transaction, with few statements."""

from collections.abc import Sequence
from typing import Final

from dueledger.ledger.errors import Conflict
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.reported_outcomes import (
    NO_CLAIM,
    ReportedPlace,
    clear_silent_topics,
    find_outcome_targets,
    lock_topic_runs,
    record_refused_outcomes,
    start_topic_runs,
)
from dueledger.ledger.store.runs import extend_leases, settle_runs
from dueledger.workers.outcomes.decide import OutcomeDecisions, OutcomeReport, decide_outcomes

SLOTS_MAX: Final = 200_000
"""Entries of settlements in one transaction, one for each item of a run: they are in memory."""


async def settle_reports(
    connection: Connection,
    reports: Sequence[OutcomeReport],
    actor_no: int,
    *,
    by_key: bool = False,
    tenants: Sequence[str] | None = None,
) -> OutcomeDecisions | None:
    """Decide about outcomes and write that, in the caller's transaction.

    Returns None, and writes nothing, if the runs of several outcomes are too large for one
    transaction. A refusal with an unknown fence is recorded under `actor_no`. With `by_key` it
    names who reported, in all that is recorded; such outcomes may be of any topic, and items of
    others than `tenants` are unknown. Raises InvalidItem if evidence cannot be stored.
    """
    places = [
        ReportedPlace(
            report.reported.claim_id or NO_CLAIM,
            report.reported.position,
            report.reported.item,
            report.outcome_topic,
        )
        for report in reports
    ]
    await start_topic_runs(connection, places, any_topic=by_key, tenants=tenants)
    await lock_topic_runs(connection, places)
    targets = await find_outcome_targets(connection, places, tenants=tenants)
    decisions = decide_outcomes(reports, targets, await read_now(connection), actor_no)
    if decisions.slots > SLOTS_MAX and len(reports) > 1:
        return None
    await _write(connection, decisions, actor_no if by_key else None)
    return decisions


async def _write(
    connection: Connection, decisions: OutcomeDecisions, reporter_no: int | None
) -> None:
    """Write the decisions. The runs are locked, so no settlement can be refused.

    Leases are extended after settling: most runs of a few items are closed by then.
    """
    for settler_no in sorted(decisions.runs):
        refused = await settle_runs(
            connection, decisions.settlements(settler_no), settler_no, actor_no=reporter_no
        )
        if refused:
            raise Conflict(f"run {refused[0].run_no} was open and is now {refused[0].reason}")
    for (settler_no, lease_seconds), runs in sorted(decisions.extended.items()):
        decisions.lease_seconds |= await extend_leases(
            connection, sorted(runs), settler_no, lease_seconds
        )
    if decisions.extended:
        await clear_silent_topics(
            connection, sorted({settler_no for settler_no, _ in decisions.extended})
        )
    if decisions.refused:
        await record_refused_outcomes(connection, decisions.refused)
