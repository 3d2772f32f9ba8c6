"""What a handler may answer about an item. Verdicts are returned, never raised."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, final

Evidence: TypeAlias = Mapping[str, object] | str | None
"""What the journal keeps of it: a mapping that JSON can carry, or a JSON object as text.

What cannot be kept does not change the verdict: the journal says `evidence_refused` and why.
"""


@final
@dataclass(frozen=True, slots=True)
class Completed:
    """It happened."""

    evidence: Evidence = None


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """It did not work; count an attempt and try again.

    Without `after_seconds` the kind's backoff decides. Beyond the kind's attempts it parks.
    """

    after_seconds: float | None = None
    reason: str = ""
    evidence: Evidence = None


@final
@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now; ask again later without counting an attempt.

    Give `until` (an aware time) or `seconds`, never both. Both are business time.
    """

    until: datetime | None = None
    seconds: float | None = None
    reason: str = ""


@final
@dataclass(frozen=True, slots=True)
class Park:
    """A person must look at it, for this reason."""

    reason: str
    evidence: Evidence = None


@final
@dataclass(frozen=True, slots=True)
class NotDue:
    """It is not owed, for this reason; the item ends as Cancelled with it."""

    reason: str


@final
@dataclass(frozen=True, slots=True)
class NotAttempted:
    """Nothing was begun: this worker lacks what the item needs. Ask again after so many seconds.

    For the worker's own handlers, so it is no `Verdict`: no start is counted, and no cap ends it.
    """

    seconds: float
    reason: str


Verdict = Completed | Retry | Snooze | Park | NotDue
