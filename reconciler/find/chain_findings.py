"""Fixed delays: the open item of a schedule leads to its next one, and nothing else does."""

from collections.abc import Sequence
from typing import Final

from dueledger.ledger.finding_types import WHOLE_LEDGER, FindingType
from dueledger.ledger.schedule import AfterCompletion
from dueledger.ledger.store import Connection, Record
from dueledger.ledger.store.reconciled_chains import list_loose_links, list_unfit_chains
from dueledger.reconciler.compared_items import ActualItem
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.find.findings import Finding, FindingSubject
from dueledger.reconciler.find.recorder import FindingRecorder

CHUNK_ROWS: Final = 10_000
_FAULTS: Final = {
    "no_item": (FindingType.UNBALANCED, "the ledger has no such item: no next one comes"),
    "ended": (FindingType.UNBALANCED, "it has ended: no next one comes"),
    "other": (FindingType.TAMPERED, "it is of another definition"),
    "delay": (FindingType.TAMPERED, "the delay is not the one of its version"),
}


async def find_unfit_chains(
    connection: Connection, versions: Sequence[DefinitionSpan], recorder: FindingRecorder
) -> None:
    """Find chains that do not go on, or not as their versions say."""
    delays = {
        version.definition_no: when.after_completion.total_seconds()
        for version in versions
        if isinstance(when := version.definition.when, AfterCompletion)
    }
    rows = await list_unfit_chains(connection, delays, recorder.row_max)
    recorder.note_list(rows, *(type_ for type_, _ in _FAULTS.values()))
    recorder.add(map(_unfit_chain, rows))


async def find_loose_links(connection: Connection, links: Sequence[ActualItem]) -> list[ActualItem]:
    """Return those of the open items of fixed delays that lead to no next one."""
    loose: set[int] = set()
    for begin in range(0, len(links), CHUNK_ROWS):
        chunk = links[begin : begin + CHUNK_ROWS]
        loose |= await list_loose_links(
            connection, [(item.effective_date, item.item_no) for item in chunk]
        )
    return [item for item in links if item.item_no in loose]


def _unfit_chain(row: Record) -> Finding:
    number, day, fault = row["item_no"], row["effective_date"], row["fault"]
    type_, why = _FAULTS[fault]
    return Finding(
        type_,
        FindingSubject(
            row["tenant"] or WHOLE_LEDGER,
            row["kind"] or WHOLE_LEDGER,
            f"following:{number}",
            row["id"],
            row["business_key"],
            day,
            row["due_at"],
        ),
        f"Item {number}, effective {day}, leads to the next of {row['name']}, and {why}.",
        expected={"item_no": number, "fault": None},
        actual={"item_no": None if fault == "no_item" else number, "fault": fault},
    )
