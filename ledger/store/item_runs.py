"""Emission of runs of items: columns that need no draft of each item."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, final

from dueledger.ledger.rules.draft_runs import DraftRun
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.error_mapping import mapped_errors
from dueledger.ledger.store.statements import statement


@final
@dataclass(frozen=True, slots=True)
class ItemRun:
    """A run of one version's items; `since`: the version is in force from then on."""

    definition_no: int
    drafts: DraftRun
    since: datetime


def split_runs(runs: Iterable[ItemRun], items_max: int) -> Iterator[list[ItemRun]]:
    """Yield batches of `items_max` items, the last of fewer; a run may be in several."""
    batch: list[ItemRun] = []
    left = items_max
    for run in runs:
        rest = run.drafts
        while len(rest) >= left:
            batch.append(ItemRun(run.definition_no, rest[:left], run.since))
            yield batch
            batch, rest, left = [], rest[left:], items_max
        if rest:
            batch.append(ItemRun(run.definition_no, rest, run.since))
            left -= len(rest)
    if batch:
        yield batch


async def emit_runs(
    connection: Connection, runs: Sequence[ItemRun], *, actor_no: int
) -> list[tuple[ItemRun, int]]:
    """Emit the items of runs, as `emit_items` does drafts; return each that existed before.

    An item is a run and its index there, in input order. Repeating it changes nothing. Raises
    InvalidItem with the field, and then emits nothing.
    """
    with mapped_errors():
        rows = await connection.fetch(
            statement("emit_items"), *_flow_columns(runs), actor_no, *_other_columns(runs)
        )
    if not rows:
        return []
    places = [(run, index) for run in runs for index in range(len(run.drafts))]
    return [places[row["ord"] - 1] for row in rows]


def _flow_columns(runs: Sequence[ItemRun]) -> list[object]:
    """Return the parameters of the statement before `actor`."""
    flows: dict[tuple[str, str, str], int] = {}
    flow_of: list[int] = []
    for run in runs:
        constant = run.drafts.constant
        flow = constant["tenant"], constant["kind"], constant["lane"]
        flow_of += [flows.setdefault(flow, len(flows) + 1)] * len(run.drafts)
    columns = [run.drafts.columns for run in runs]
    return [
        *zip(*flows, strict=True),
        flow_of,
        _repeated(runs, "business_key"),
        _joined(each.cycles for each in columns),
        _joined(each.effective_dates for each in columns),
        _joined(each.due_ats for each in columns),
        _repeated(runs, "payload"),
    ]


def _other_columns(runs: Sequence[ItemRun]) -> list[object]:
    """Return the parameters of the statement after `actor`; a schedule's items have no others."""
    columns = [run.drafts.columns for run in runs]
    return [
        None,  # partition keys
        _repeated(runs, "labels"),
        _deadlines([(run.drafts.start_bys, len(run.drafts)) for run in runs]),
        _deadlines([(run.drafts.complete_bys, len(run.drafts)) for run in runs]),
        _joined([run.definition_no] * len(run.drafts) for run in runs),
        None,  # event numbers
        runs[0].drafts.constant["tzdata"],
        _joined(each.nominals for each in columns),
        _repeated(runs, "zone"),
        _joined(each.decisions for each in columns),
        None,  # smears
        None,  # traceparents
        None,  # reasons of skips
        _repeated(runs, "overlap"),
        _repeated(runs, "overlap_key"),
    ]


def _joined(parts: Iterable[Sequence[Any]]) -> list[Any]:
    joined: list[Any] = []
    for part in parts:
        joined += part
    return joined


def _repeated(runs: Sequence[ItemRun], field: str) -> list[Any] | None:
    """Return a column of a field that all items of a run share; None if no run has it."""
    values = [run.drafts.constant[field] for run in runs]
    if all(value is None for value in values):
        return None
    return _joined([value] * len(run.drafts) for value, run in zip(values, runs, strict=True))


def _deadlines(parts: Sequence[tuple[Sequence[datetime] | None, int]]) -> list[Any] | None:
    if all(deadlines is None for deadlines, _ in parts):
        return None
    return _joined([None] * count if deadlines is None else deadlines for deadlines, count in parts)
