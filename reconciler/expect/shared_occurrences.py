"""Occurrences that two definitions owe under one identity: one of the two lacks its item."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.reconciler.expect.spool import Spool
from dueledger.reconciler.expect.versions import DefinitionSpan

ScheduleSubject = tuple[str, str, str]
"""Tenant, kind and business key."""


class SharedOccurrences:
    """Occurrences of schedules that share a business key, spooled until all are known."""

    def __init__(self, versions: Sequence[DefinitionSpan], spool: Spool) -> None:
        names: defaultdict[ScheduleSubject, set[str]] = defaultdict(set)
        for version in versions:
            if version.definition.is_schedule:
                names[*version.key, version.definition.business_key].add(version.name)
        self._subjects = {subject for subject, found in names.items() if len(found) > 1}
        self._versions = {version.definition_no: version for version in versions}
        self._spool = spool

    def may_share(self, version: DefinitionSpan) -> bool:
        """Return whether another definition might owe occurrences of the version."""
        return (*version.key, version.definition.business_key) in self._subjects

    def add(self, version: DefinitionSpan, draft: ItemDraft, identity: bytes) -> None:
        """Spool an owed occurrence, where another definition might owe it as well."""
        if (draft.tenant, draft.kind, draft.business_key) in self._subjects:
            row = (identity, version.definition_no, draft.cycle)
            self._spool.add(draft.effective_date.toordinal(), row)

    def find(self) -> Iterator[tuple[DefinitionSpan, str]]:
        """Yield each version once of which an older definition owes an occurrence too, and why."""
        reported: set[int] = set()
        for day in sorted(self._spool.counts):
            first: dict[bytes, DefinitionSpan] = {}
            rows = sorted(self._spool.read(day, day + 1), key=itemgetter(1, 2))
            for identity, definition_no, cycle in rows:
                version = self._versions[definition_no]
                kept = first.setdefault(identity, version)
                if kept.name != version.name and definition_no not in reported:
                    reported.add(definition_no)
                    yield version, _reason(version, kept, cycle)


def _reason(version: DefinitionSpan, kept: DefinitionSpan, cycle: str) -> str:
    key = version.definition.business_key
    return (
        f"its occurrence {cycle} is the same item as {kept.name}'s: both have business key {key}; "
        "give it another key"
    )
