"""Items of one schedule in a window, as columns: they differ in their occurrence alone. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, final, overload

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.schedule import OccurrenceColumns


@final
@dataclass(frozen=True, slots=True, eq=False)
class DraftRun(Sequence[ItemDraft]):
    """Drafts of a schedule without smear; one is made only where it is read by itself.

    `constant` has the fields that all have in common. A column of deadlines is None without them.
    """

    constant: Mapping[str, Any]
    columns: OccurrenceColumns
    start_bys: Sequence[datetime] | None = None
    complete_bys: Sequence[datetime] | None = None

    @property
    def effective_dates(self) -> Sequence[date]:
        """Return the effective date of each."""
        return self.columns.effective_dates

    def __len__(self) -> int:
        return len(self.columns.cycles)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list

    def __iter__(self) -> Iterator[ItemDraft]:
        return map(self._draft, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> ItemDraft: ...
    @overload
    def __getitem__(self, index: slice) -> "DraftRun": ...
    def __getitem__(self, index: int | slice) -> "ItemDraft | DraftRun":
        if isinstance(index, int):
            return self._draft(index)
        return DraftRun(
            self.constant,
            OccurrenceColumns(*(column[index] for column in self.columns)),
            self.start_bys[index] if self.start_bys else None,
            self.complete_bys[index] if self.complete_bys else None,
        )

    def _draft(self, index: int) -> ItemDraft:
        columns = self.columns
        return ItemDraft(
            **self.constant,
            cycle=columns.cycles[index],
            effective_date=columns.effective_dates[index],
            due_at=columns.due_ats[index],
            start_by=self.start_bys[index] if self.start_bys else None,
            complete_by=self.complete_bys[index] if self.complete_bys else None,
            nominal=columns.nominals[index],
            decision=columns.decisions[index],
        )
