"""Items that ended in a run, and of which the journal does not say how, or says so twice.

A window of dates shows this of runs that its journal names. A run that no transition names any more
is found by its count, in a pass that reads everything.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Final

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection
from dueledger.ledger.store.reconciled_runs import list_unrecorded_endings
from dueledger.reconciler.find import item_findings
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.ledger_flows import LedgerFlows
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import PassScope
from dueledger.reconciler.read.run_counts import SuspectRuns

ITEMS_A_READ: Final = 20_000
_BY_COUNT: Final = {item_findings.UNRECORDED, item_findings.REPEATED}
_ALWAYS: Final = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC))


async def find_unrecorded_endings(
    connection: Connection,
    suspects: AsyncGenerator[SuspectRuns],
    flows: LedgerFlows,
    recorder: FindingRecorder,
    *,
    scope: PassScope,
    shown: AbstractSet[bytes],
) -> None:
    """Judge suspects, each by one snapshot; items of `shown` have a finding that says as much."""
    listed = set(shown)
    async for runs in suspects:
        for run_nos in _cut(runs):
            rows = await list_unrecorded_endings(
                connection, run_nos, runs.started, recorder.row_max
            )
            recorder.note_list(rows, FindingType.OUTCOME_CONFLICT)
            rules = await flows.meet(connection, (row["flow_no"] for row in rows))
            for row in rows:
                if row["id"] not in listed and scope.has(row["effective_date"]):
                    listed.add(row["id"])
                    recorder.add((item_findings.contradicted(row, rules[row["flow_no"]]),))


async def known_suspects(connection: Connection, record: PassRecord) -> AsyncGenerator[SuspectRuns]:
    """Yield the runs of open findings: a pass that does not count all runs judges these again."""
    async for page in record.list_open(connection):
        run_nos = [
            row["actual"]["run"]
            for row in page
            if row["type"] == FindingType.OUTCOME_CONFLICT
            and row["actual"].get("fault") in _BY_COUNT
        ]
        if run_nos:
            yield SuspectRuns(run_nos, [1] * len(run_nos), _ALWAYS)


def _cut(runs: SuspectRuns) -> Iterator[Sequence[int]]:
    """Yield the runs some at a time, by how many items they had."""
    begin = items = 0
    for place, size in enumerate(runs.sizes):
        if items and items + size > ITEMS_A_READ:
            yield runs.run_nos[begin:place]
            begin, items = place, 0
        items += size
    yield runs.run_nos[begin:]
