"""Findings about rows beside items: what has one, which has a key, what a person decided of it."""

from collections.abc import Iterable, Mapping
from typing import Final

from dueledger.ledger.finding_types import WHOLE_LEDGER, FindingType
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.compare.comparison import FlowRules
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.find.findings import Finding, FindingSubject, stuck_claim, stuck_run
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.ledger_flows import LedgerFlows
from dueledger.reconciler.windows import DateRange

_UNANSWERED: Final = (FindingType.STUCK, FindingType.PUBLISHED_NO_OUTCOME)
_KEY_FAULTS: Final = {
    "no_item": "is held for it, and the ledger has no such item",
    "ended": "is still held for it, although it has ended",
    "other": "is not the one that is held for it, or is held for it in another flow",
    "early": "is held for it, although it is not due and was never started",
    "not_held": "is not held for it, although it is handed out",
}


async def find_beside_items(
    connection: Connection,
    flows: LedgerFlows,
    recorder: FindingRecorder,
    stuck_seconds: float,
    *,
    fit_windows: Iterable[DateRange],
) -> set[KindKey]:
    """Find what is wrong with runs, claims, decisions, keys and places.

    In `fit_windows` all that waits or is parked is known to fit its item. Return the kinds of which
    an item has no place that fits it.
    """
    row_max = recorder.row_max
    runs = await reconciled_rows.list_stuck_runs(connection, stuck_seconds, row_max)
    recorder.note_list(runs, *_UNANSWERED)
    recorder.add(map(stuck_run, runs))
    claims = await reconciled_rows.list_stuck_claims(connection, stuck_seconds, row_max)
    recorder.note_list(claims, *_UNANSWERED)
    recorder.add(map(stuck_claim, claims))
    runs = await reconciled_rows.list_unfit_runs(connection, row_max)
    recorder.note_list(runs, FindingType.UNBALANCED, FindingType.STUCK)
    recorder.add(map(unfit_run, runs))
    claims = await reconciled_rows.list_unfit_claims(connection, row_max)
    recorder.note_list(claims, FindingType.UNBALANCED, FindingType.STUCK)
    recorder.add(map(unfit_claim, claims))
    watermarks = await reconciled_rows.list_unfit_watermarks(connection, row_max)
    recorder.note_list(watermarks, FindingType.TAMPERED)
    recorder.add(map(unfit_watermark, watermarks))
    seals = await reconciled_rows.list_broken_seals(connection, row_max)
    recorder.note_list(seals, FindingType.TAMPERED)
    recorder.add(map(broken_seal, seals))
    decisions = await reconciled_rows.list_unfounded_decisions(connection, row_max)
    recorder.note_list(decisions, FindingType.UNBALANCED, FindingType.TAMPERED)
    rules = await flows.meet(connection, (row["flow_no"] for row in decisions))
    recorder.add(unfounded_decision(row, rules) for row in decisions)
    async for keys in reconciled_rows.list_unfit_keys(connection):
        recorder.add(map(unfit_key, keys))
    unbalanced: set[KindKey] = set()
    async for places in reconciled_rows.list_unfit_places(
        connection, [(window.from_date, window.to_date) for window in fit_windows]
    ):
        numbers = {row[name] for row in places for name in ("flow_no", "place_flow_no")} - {None}
        rules = await flows.meet(connection, numbers)
        recorder.add(unfit_place(row, rules) for row in places)
        unbalanced |= {rules[number].key for number in numbers}
    return unbalanced


def unfit_key(row: Record) -> Finding:
    """Return the finding about a row of `list_unfit_keys` or `list_unheld_items`."""
    fault, item = row["fault"], row["id"] or row["item_no"]
    of_key = f" of {row['business_key']}" if row["business_key"] else ""
    may_others = "may be worked beside it" if fault == "not_held" else "wait or are skipped"
    ended_at = row["ended_at"]
    return Finding(
        FindingType.HELD_KEY,
        FindingSubject(
            WHOLE_LEDGER,
            WHOLE_LEDGER,
            f"key:{item}",
            row["id"],
            row["business_key"],
            row["effective_date"],
        ),
        f"The item {item}{of_key}: its key {_KEY_FAULTS[fault]}. Other items of the key "
        f"{may_others}.",
        expected={"held": fault == "not_held"},
        actual={
            "fault": fault,
            "held": fault != "not_held",
            "item_no": row["item_no"],
            "held_at": row["held_at"].isoformat() if row["held_at"] else None,
            "ended_at": ended_at.isoformat() if ended_at else None,
        },
    )


def unfit_place(row: Record, flows: Mapping[int, FlowRules]) -> Finding:
    """Return the finding about a row of `list_unfit_places`."""
    if row["is_unowned"]:
        return _unowned(row)
    flow = flows[row["flow_no"]]
    key, day, item = row["business_key"], row["effective_date"], row["id"]
    subject = FindingSubject(flow.tenant, flow.kind, str(item), item, key, day, row["due_at"])
    what = f"{flow.kind} of {key}, effective {day},"
    if row["is_other"]:
        return Finding(
            FindingType.TAMPERED,
            subject,
            f"{what} is {row['state']}, and the row that says so has another flow, ordering key, "
            "overlap or due time than the item, or an attempt that the journal does not have.",
            expected={"fits": True},
            actual={"fits": False, "state": row["state"]},
        )
    # PostgreSQL's `infinity` is the greatest datetime here.
    available_at = row["available_at"]
    return Finding(
        FindingType.WRONG_DATE,
        subject,
        f"{what} is due {row['due_at']:%Y-%m-%d %H:%M} UTC, and may be claimed from "
        f"{available_at:%Y-%m-%d %H:%M} UTC on.",
        expected={"available_at": row["due_at"].isoformat()},
        actual={"available_at": available_at.isoformat()},
    )


def _unowned(row: Record) -> Finding:
    """Return the finding that a row says where an item is, and there is no such item."""
    number, day, state = row["item_no"], row["effective_date"], row["state"]
    is_ = state.replace("_", " ")
    return Finding(
        FindingType.UNBALANCED,
        FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"{state}:{number}", effective_date=day),
        f"Item {number}, effective {day}, is {is_}, and the ledger has no such item.",
        expected={"item_no": number},
        actual={"item_no": None, "state": state},
    )


def unfit_run(row: Record) -> Finding:
    """Return the finding about a row of `list_unfit_runs`."""
    run_no, size, to_position = row["run_no"], row["size"], row["to_position"]
    subject = FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"run:{run_no}")
    if row["fault"] == "worker":
        return Finding(
            FindingType.STUCK,
            subject,
            f"Run {run_no} is open and of worker {row['worker_no']}, which nobody registered as: "
            "nobody can settle it.",
            expected={"registered": True},
            actual={"worker_no": row["worker_no"], "registered": False},
        )
    if row["fault"] == "lease":
        return Finding(
            FindingType.STUCK,
            subject,
            f"Run {run_no} is open, and its lease until {row['lease_until']:%Y-%m-%d %H:%M} UTC is "
            "longer than its worker can have asked for: nobody releases its items before.",
            expected={"possible": True},
            actual={"lease_until": row["lease_until"].isoformat(), "possible": False},
        )
    if row["fault"] == "ended":
        return Finding(
            FindingType.UNBALANCED,
            subject,
            f"Run {run_no} is open, and all of its items have ended.",
            expected={"closed": True},
            actual={"closed": False},
        )
    return Finding(
        FindingType.UNBALANCED,
        subject,
        f"Run {run_no} is open up to position {to_position} of claim {row['fence']}, which has "
        f"{size} items, or not as many as its bits.",
        expected={"items": size},
        actual={"to_position": to_position},
    )


def unfit_claim(row: Record) -> Finding:
    """Return the finding about a row of `list_unfit_claims`."""
    fence, size, items = row["fence"], row["size"], row["items"]
    subject = FindingSubject(WHOLE_LEDGER, WHOLE_LEDGER, f"claim:{fence}")
    if row["fault"] == "deadline":
        return Finding(
            FindingType.STUCK,
            subject,
            f"Claim {fence} is open, and its deadline at {row['deadline']:%Y-%m-%d %H:%M} UTC is "
            "later than its kinds can have asked for: nobody releases its items before.",
            expected={"possible": True},
            actual={"deadline": row["deadline"].isoformat(), "possible": False},
        )
    return Finding(
        FindingType.UNBALANCED,
        subject,
        f"Claim {fence} is open with {size} items, of which {row['started']} are started; "
        f"it lists {items}.",
        expected={"items": items, "started_less_than": items},
        actual={"items": size, "started": row["started"]},
    )


_WATERMARK_FAULTS: Final = {
    "no_version": "it is of no version of a definition",
    "no_watermark": "there is none, so nothing of the version is materialised",
    "end": "it ends at another time than its version is in force",
}


def unfit_watermark(row: Record) -> Finding:
    """Return the finding about a row of `list_unfit_watermarks`."""
    is_known = row["name"] is not None
    name = f"{row['name']}, version {row['version']}" if is_known else f"{row['definition_no']}"
    return Finding(
        FindingType.TAMPERED,
        FindingSubject(
            row["tenant"] or WHOLE_LEDGER, row["kind"] or WHOLE_LEDGER, f"watermark:{name}"
        ),
        f"The watermark of materialisation of {name} cannot be: {_WATERMARK_FAULTS[row['fault']]}.",
        expected={"fits": True},
        actual={"fits": False, "fault": row["fault"]},
    )


_SEALED: Final = {
    "actor": ("actor", "Nothing is repaired."),
    "calendar": (
        "calendar",
        "Nothing was concluded from it, and nothing of its tenant is repaired.",
    ),
    "definition": ("definition", "Nothing of its kind is repaired."),
    "flow": ("flow", "It is not as its kind says, and nothing of the kind is repaired."),
    "kind": ("policy of the kind", "Nothing of the kind is repaired."),
}


def broken_seal(row: Record) -> Finding:
    """Return the finding about a row of `list_broken_seals`."""
    what, follows = _SEALED[row["what"]]
    name, is_removed = row["name"], row["is_removed"]
    how = "was removed" if is_removed else "was changed in place"
    return Finding(
        FindingType.TAMPERED,
        FindingSubject(row["tenant"], row["kind"] or WHOLE_LEDGER, f"{what}:{name}"),
        f"The {what} {name} {how}. {follows}",
        expected={"digest": "as sealed"},
        actual={"digest": None if is_removed else "another"},
    )


_DECISION_FAULTS: Final = {
    "no_item": "the ledger has no such item",
    "nobody": "whom it names may not decide",
    "unasked": "nobody who could asked for it",
    "time": "its times are not possible",
    "no_pause": "no pause is in force for it",
    "not_paused": "a flow that it covers is not paused",
}


def unfounded_decision(row: Record, flows: Mapping[int, FlowRules]) -> Finding:
    """Return the finding about a row of `list_unfounded_decisions`."""
    what, number, fault = row["what"], row["number"], row["fault"]
    flow = flows.get(row["flow_no"])
    tenant, kind = (flow.tenant, flow.kind) if flow else (row["tenant"], row["kind"])
    return Finding(
        FindingType.UNBALANCED if fault == "no_item" else FindingType.TAMPERED,
        FindingSubject(
            tenant or WHOLE_LEDGER,
            kind or WHOLE_LEDGER,
            f"{what}:{number}",
            row["id"],
            row["business_key"],
            row["effective_date"],
            row["due_at"],
        ),
        f"The record {what} {number} cannot be: {_DECISION_FAULTS[fault]}.",
        expected={what: None},
        actual={what: number, "fault": fault},
    )
