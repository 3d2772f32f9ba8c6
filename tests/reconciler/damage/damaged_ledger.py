"""Applies declared edits to a copy of the clean ledger, and puts back what was."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dueledger.ledger.store import Connection

from .edit import Edit

HERE: Final = Path(__file__).parent
TARGETS: Final = (HERE / "targets.sql").read_text()
UNDO: Final = (HERE / "undo.sql").read_text()
TAKE: Final = """
with taken as (
  select item_no from damage.target
  where not is_taken and ({condition})
  order by md5($1 || item_no::text) limit $2
)
update damage.target t set is_taken = true from taken k where k.item_no = t.item_no
returning t.item_no
"""


TAKE_CLAIMS: Final = """
update damage.target t set is_taken = true
where t.fence in (select o.fence from damage.target o where o.item_no = any ($1::bigint[]))
"""

Expected = set[tuple[str, str]]
"""Types and subjects of findings."""


@dataclass(slots=True)
class DamagedLedger:
    """A copy of the clean ledger; `seed` selects the items that are edited."""

    connection: Connection
    seed: str
    expected: dict[str, Expected] = field(default_factory=dict[str, Expected])
    """What has to be found, by edit."""

    async def apply(self, edits: Sequence[Edit]) -> None:
        """Apply edits, each to other items, and note what has to be found."""
        connection = self.connection
        await connection.execute("set session_replication_role = replica")  # no guard objects
        for edit in sorted(edits, key=lambda edit: not edit.takes_claim):
            taken = await connection.fetch(
                TAKE.format(condition=edit.of), f"{self.seed}:{edit.name}", edit.items
            )
            assert len(taken) == edit.items, edit.name
            if edit.takes_claim:
                await connection.execute(TAKE_CLAIMS, [row["item_no"] for row in taken])
            await connection.execute("select set_config('damage.edit', $1, false)", edit.name)
            expected = self.expected.setdefault(edit.name, set())
            for row in taken:
                item_no = row["item_no"]
                if not edit.named_after:
                    expected |= await self._subjects(edit, item_no)
                for change in edit.changes:
                    status = await connection.execute(change, item_no)
                    assert not status.endswith(" 0"), (edit.name, status)
                if edit.named_after:
                    expected |= await self._subjects(edit, item_no)
            assert len(expected) >= len(taken), edit.name
        await connection.execute("select set_config('damage.edit', '', false)")
        await connection.execute("reset session_replication_role")

    async def _subjects(self, edit: Edit, item_no: int) -> Expected:
        return {
            (type_, row[0])
            for type_, subjects in edit.finds
            for row in await self.connection.fetch(subjects, item_no)
        }

    async def undo(self, edits: Sequence[Edit]) -> None:
        """Put back what these edits changed, as a person would from a backup."""
        connection = self.connection
        await connection.execute("set session_replication_role = replica")
        await connection.execute(
            "select set_config('damage.undo', $1, false)", "|".join(edit.name for edit in edits)
        )
        await connection.execute(UNDO)
        await connection.execute("reset session_replication_role")
