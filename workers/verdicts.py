"""The verdicts that a handler returns about an item. Verdicts are returned, never raised."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, final

Evidence: TypeAlias = Mapping[str, object] | str | None
"""The evidence for the journal: a mapping that JSON can represent, or a JSON object as text.

Evidence that cannot be stored does not change the verdict: the journal has `evidence_refused` and
the reason instead.
"""


@final
@dataclass(frozen=True, slots=True)
class Completed:
    """The item is done."""

    evidence: Evidence = None


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed: count it and try again.

    Without `after_seconds` the kind's backoff decides. After the kind's last attempt the item is
    parked.
    """

    after_seconds: float | None = None
    reason: str = ""
    evidence: Evidence = None


@final
@dataclass(frozen=True, slots=True)
class Snooze:
    """Try again later; no attempt is counted.

    Set `until` (an aware datetime) or `seconds`, never both. Both are business time.
    """

    until: datetime | None = None
    seconds: float | None = None
    reason: str = ""


@final
@dataclass(frozen=True, slots=True)
class Park:
    """A person must decide about the item, for this reason."""

    reason: str
    evidence: Evidence = None


@final
@dataclass(frozen=True, slots=True)
class NotDue:
    """The item is not owed, for this reason. It ends as Cancelled."""

    reason: str


@final
@dataclass(frozen=True, slots=True)
class NotAttempted:
    """The item was not attempted because this worker lacks something; try again after `seconds`.

    Only for the worker's own handlers, so it is no `Verdict`. No start is counted, and an item may
    be released any number of times.
    """

    seconds: float
    reason: str


Verdict = Completed | Retry | Snooze | Park | NotDue
