"""What lies outside the ledger: what a domain says is owed, and evidence that it happened.

A source that cannot be read raises `SourceFailed`; a missing answer never means "gone".
`sql_sources` reads both from Postgres, `csv_sources` from files.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.identity import total_of

ROWS_MAX: Final = 20_000_000
BYTES_MAX: Final = 8_589_934_592
"""What is read of a source unless it says otherwise."""


class SourceFailed(DueledgerError):
    """A source could not be read. Nothing may be concluded from it."""

    code = "SOURCE_FAILED"
    exit_code = 3

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"the source {name} could not be read: {reason}; check its query and its address",
            source=name,
            reason=reason,
        )
        self.name = name
        self.reason = reason


@dataclass(slots=True)
class SourceTotals:
    """Control totals of what was read of one source; of a file also the digest of its bytes."""

    row_count: int = 0
    hash_total: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    extracted_at: datetime | None = None
    digest: str | None = None

    def add(self, identity: bytes) -> None:
        """Count one row and add the hash of its id: an order-free control total."""
        self.add_rows(1, total_of(identity))

    def add_rows(self, count: int, hash_total: int) -> None:
        """Count rows and add the sum of the hashes of their ids."""
        self.row_count += count
        self.hash_total = (self.hash_total + hash_total) & 0xFFFF_FFFF_FFFF_FFFF

    def copy(self, other: "SourceTotals") -> None:
        """Take the totals of another read of the same source."""
        self.row_count, self.hash_total = other.row_count, other.hash_total
        self.skipped = other.skipped.copy()
        self.extracted_at, self.digest = other.extracted_at, other.digest


@dataclass(slots=True)
class SourceRead:
    """A source as it was read in one pass."""

    name: str
    origin: str
    digest: str | None
    extract: SourceTotals = field(default_factory=SourceTotals)
    duration_seconds: float = 0.0
    failure: str | None = None
    kinds: frozenset[tuple[str, str]] | None = None
    """Tenants and kinds that it may name; None: it does not say, so a failure concerns all."""


class PopulationRow(NamedTuple):
    """One item that a domain says is owed; `ended`: it was, and is not owed any more.

    `says` are the columns that its source has: without `start_by`, that is not known; with it,
    None is that there is none. A tuple: a frozen dataclass costs a microsecond more.
    """

    id: bytes
    tenant: str
    kind: str
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    payload: str | None = None
    partition_key: str | None = None
    ended: bool = False
    start_by: datetime | None = None
    complete_by: datetime | None = None
    says: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PopulationBounds:
    """What a population may have to be believed: beyond it, the source counts as not read.

    `rows_min`: fewest rows. `change_max`: greatest change of their number since it was last read,
    as a share of that; None: any. `skipped_max`: rows that cannot be used; None: any number.
    """

    rows_min: int = 0
    change_max: float | None = None
    skipped_max: int | None = None

    def breach(self, totals: SourceTotals, rows_before: int | None) -> str | None:
        """Return why what was read is not believed; `rows_before` were read the last time."""
        rows, skipped = totals.row_count, totals.skipped.total()
        if self.skipped_max is not None and skipped > self.skipped_max:
            reason, count = totals.skipped.most_common(1)[0]
            return (
                f"{skipped:,} of its rows cannot be used, more than the {self.skipped_max:,} that "
                f"`skipped_max` allows: in {count:,} {reason}"
            )
        if rows < self.rows_min:
            return f"it has {rows:,} rows, fewer than the {self.rows_min:,} of `rows_min`"
        if self.change_max is not None and rows_before is not None:
            changed = abs(rows - rows_before)
            if changed > self.change_max * rows_before:
                return (
                    f"it has {rows:,} rows and had {rows_before:,}, a change beyond the "
                    f"{self.change_max:.0%} of `change_max`"
                )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPopulation:
    """What is declared of a population, wherever its rows are.

    If it is `complete`, it names all items of its kinds. With a `tenant`, each row is of it and of
    one of the `kinds`, or the source fails; so it does with more rows or bytes.
    """

    complete: bool = False
    tenant: str | None = None
    kinds: frozenset[str] = frozenset()
    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    bounds: PopulationBounds = field(default_factory=PopulationBounds)

    @property
    def named_kinds(self) -> frozenset[tuple[str, str]] | None:
        """Return the tenants and kinds that its rows may have; None if it does not say."""
        if self.tenant is None:
            return None
        return frozenset((self.tenant, kind) for kind in self.kinds)


class PopulationReader(Protocol):
    """What a domain says is owed, read from outside the ledger.

    If it is `complete`, an item of its kinds that it does not name is UNEXPECTED.
    """

    @property
    def name(self) -> str:
        """Return its name in reports."""
        ...

    @property
    def origin(self) -> str:
        """Return what it is in reports: `sql` or `csv`."""
        ...

    @property
    def complete(self) -> bool:
        """Return whether it names everything that is owed of its kinds."""
        ...

    @property
    def digest(self) -> str | None:
        """Return the digest of its query; None if it has none."""
        ...

    @property
    def named_kinds(self) -> frozenset[tuple[str, str]] | None:
        """Return the tenants and kinds that it may name; None if it does not say."""
        ...

    @property
    def bounds(self) -> "PopulationBounds":
        """Return what it may have to be believed."""
        ...

    def read(self, extract: SourceTotals) -> AsyncIterator[Sequence[PopulationRow]]:
        """Yield rows in chunks and count them. Raises SourceFailed."""
        ...


@dataclass(frozen=True, slots=True)
class EvidenceQuery:
    """A completed item that needs evidence."""

    id: bytes
    business_key: str
    cycle: str
    effective_date: date


@dataclass(frozen=True, slots=True)
class ListedEffect:
    """What a source has of one item, named by its id, or by business key and what else it gives.

    `count`: how many rows have it, of which `reference` is the least.
    """

    id: UUID | None
    business_key: str | None
    cycle: str | None
    effective_date: date | None
    count: int
    reference: str

    @property
    def name(self) -> str:
        """Return what names the item, as a text."""
        parts = (self.id, self.business_key, self.cycle, self.effective_date)
        return " ".join(str(part) for part in parts if part is not None)


class EvidenceReader(Protocol):
    """Evidence outside the ledger that a completed item had its effect."""

    @property
    def name(self) -> str:
        """Return its name in reports."""
        ...

    @property
    def tenant(self) -> str:
        """Return the tenant whose completed items need it."""
        ...

    @property
    def kind(self) -> str:
        """Return the kind whose completed items need it."""
        ...

    @property
    def after_seconds(self) -> float:
        """Return how long after completion the effect may take to show."""
        ...

    @property
    def digest(self) -> str | None:
        """Return the digest of its query; None if it has none."""
        ...

    @property
    def complete(self) -> bool:
        """Return whether all its rows are effects of items of the kind, so that each has one."""
        ...

    @property
    def bounds(self) -> PopulationBounds:
        """Return what it may have to be believed, where it is complete."""
        ...

    async def find_lacking(
        self, wanted: Sequence[EvidenceQuery], extract: SourceTotals
    ) -> list[EvidenceQuery]:
        """Return those without evidence. Raises SourceFailed."""
        ...

    def list_effects(
        self, extract: SourceTotals, from_date: date, to_date: date
    ) -> AsyncIterator[Sequence[ListedEffect]]:
        """Yield the effects in chunks, each item once. Raises SourceFailed.

        Those of a half-open range of effective dates, where its rows have one.
        """
        ...
