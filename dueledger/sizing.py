"""How much a ledger needs: rows, disk, connections and cores, from figures that were measured.

Bytes are those of PostgreSQL 18, indexes included, without bloat and WAL; docs/sizing.md says how
they were measured, and a test holds them to a ledger. CPU is that of full batches
(docs/measured-rates.md).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Final

from dueledger.ledger.store.processes import ProcessRole

SECONDS_A_DAY: Final = 86_400

# Bytes of a row with its index entries.
_DUE_ITEM_BYTES: Final = 270.0  # with a business key of ten characters
_KEY_CHARS: Final = 10
_BYTES_A_KEY_CHAR: Final = 2.6  # in the row and in the index by business key
_BYTES_A_PAYLOAD_BYTE: Final = 1.07  # the rest is what a page cannot be filled with
_TRANSITION_BYTES: Final = 112.0  # 101 to 122, by the order in which outcomes arrive
_BYTES_AN_EVIDENCE_BYTE: Final = 1.2
_PENDING_BYTES: Final = 109.0
_CLAIM_BYTES: Final = 322.0
_RUN_BYTES: Final = 293.0
_CLAIMED_ITEM_BYTES: Final = 27.0  # its place in the arrays of its claim

RECONCILER_BYTES: Final = 56
"""Bytes an item of the reconciler's temporary file."""

# CPU, microseconds an item: the upper end of what was measured in an hour with no other load.
_EMISSION_MICROSECONDS: Final = 17.4
_MICROSECONDS: Final[Mapping[str, float]] = {
    "postgres": 10.3,
    "kafka": 4.9,
    "allocators": 10.1,
    "workers": 7.4,
}
_DIRECT_MICROSECONDS: Final[Mapping[str, float]] = {"postgres": 11.6, "workers": 5.6}
BUSY: Final = 0.7
"""Part of a core that is planned to be busy at the peak."""

CONNECTIONS: Final[Mapping[ProcessRole, int]] = {
    ProcessRole.ALLOCATOR: 9,
    ProcessRole.WORKER: 7,
    ProcessRole.DIRECT_WORKER: 8,
    ProcessRole.OUTCOME_INTAKE: 3,
    ProcessRole.INTAKE: 3,
    ProcessRole.MATERIALISER: 2,
    ProcessRole.RECONCILER: 4,
    ProcessRole.RELAY: 3,  # one of them to the service's outbox
    ProcessRole.SERVICE: 9,
    ProcessRole.ALERTER: 2,
}
"""Most connections of one process to Postgres: its pools', and that of its presence. Transactional
handlers have up to 32 more."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a ledger. Sizes are means.

    `ahead_days` is how long before they are due items are emitted. `items_per_claim` is small where
    items are due evenly, and thousands where many are due at once.
    """

    items_per_day: int
    payload_bytes: int
    retention_days: int = 400
    evidence_bytes: int = 0
    key_chars: int = _KEY_CHARS
    ahead_days: float = 1.0
    items_per_claim: int = 10
    peak_per_second: float | None = None
    is_direct: bool = False

    @property
    def peak(self) -> float:
        """Return items a second at the peak; unless given, a day's items within one hour."""
        return self.items_per_day / 3600 if self.peak_per_second is None else self.peak_per_second


@dataclass(frozen=True, slots=True)
class LedgerSize:
    """What a ledger needs for a load."""

    load: Load
    peak_per_second: float
    bytes_per_item: Mapping[str, float]
    rows: Mapping[str, int]
    disk_bytes: Mapping[str, int]
    connections_per_process: Mapping[str, int]
    cores: Mapping[str, float]

    def document(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return asdict(self)


def size_of(load: Load) -> LedgerSize:
    """Compute what a ledger needs for a load, with all items ended in one attempt."""
    ended = bytes_per_item(load)
    kept = load.items_per_day * load.retention_days
    waiting = ceil(load.items_per_day * load.ahead_days)
    disk = {
        **{name: ceil(each * kept) for name, each in ended.items()},
        "pending": ceil(_PENDING_BYTES * waiting),
    }
    return LedgerSize(
        load,
        round(load.peak, 1),
        {name: round(each, 1) for name, each in (ended | {"pending": _PENDING_BYTES}).items()},
        {
            "due_item": kept,
            "transition": kept,
            "claim": ceil(kept / load.items_per_claim),
            "run": ceil(kept / load.items_per_claim),
            "pending": waiting,
        },
        disk | {"total": sum(disk.values()), "reconciler_temporary": RECONCILER_BYTES * kept},
        {role.value: count for role, count in CONNECTIONS.items()},
        _cores(load),
    )


def bytes_per_item(load: Load) -> dict[str, float]:
    """Return the bytes that an ended item takes in each table, indexes included."""
    key = max(0, load.key_chars - _KEY_CHARS) * _BYTES_A_KEY_CHAR
    return {
        "due_item": _DUE_ITEM_BYTES + key + _BYTES_A_PAYLOAD_BYTE * load.payload_bytes,
        "transition": _TRANSITION_BYTES + _BYTES_AN_EVIDENCE_BYTE * load.evidence_bytes,
        "claim": _CLAIM_BYTES / load.items_per_claim + _CLAIMED_ITEM_BYTES,
        "run": _RUN_BYTES / load.items_per_claim,
    }


def _cores(load: Load) -> dict[str, float]:
    work = dict(_DIRECT_MICROSECONDS if load.is_direct else _MICROSECONDS)
    work["postgres"] += _EMISSION_MICROSECONDS
    cores = {name: load.peak * each / 1e6 / BUSY for name, each in work.items()}
    return {name: round(each, 2) for name, each in (cores | {"total": sum(cores.values())}).items()}
