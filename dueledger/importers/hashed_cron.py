"""`H` of Jenkins, which chooses a value for each job by a hash, as a smear.

`H 4 * * *` is some minute after four: due at four, spread over an hour.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dueledger.importers.import_result import ImportRefusal
from dueledger.ledger.schedule.expressions import period_text

_HASH: Final = re.compile(r"h(?:\((?P<low>\d{1,2})-(?P<high>\d{1,2})\))?(?:/(?P<step>\d{1,2}))?")
_FIELDS: Final = (
    (0, 59, timedelta(minutes=1)),
    (0, 23, timedelta(hours=1)),
    (1, 28, timedelta(days=1)),  # Jenkins leaves out the days that some months lack
)
_ACCEPTED: Final = "`H` in all smaller fields, or fixed values"


@dataclass(frozen=True, slots=True)
class HashedCron:
    """An expression without `H`, and the time over which its starts are spread."""

    expression: str
    smear: timedelta | None = None

    @property
    def note(self) -> str | None:
        """Return how `H` is spread."""
        if self.smear is None:
            return None
        return f"`H` is spread by the id of each item, over {period_text(self.smear)}"


def read_hashed(text: str) -> HashedCron | ImportRefusal:
    """Return an expression with the first value of each `H`. Without `H` it does not change."""
    texts = text.split()
    hashed = [_HASH.fullmatch(each.lower()) for each in texts]
    if not any(hashed):
        return HashedCron(text)
    last = max(place for place, found in enumerate(hashed) if found)
    if last >= len(_FIELDS):
        return ImportRefusal(f"`{texts[last]}` in a month or a weekday is no span", "fixed values")
    smear = timedelta()
    for place, ((low, high, unit), found) in enumerate(zip(_FIELDS, hashed, strict=False)):
        if place > last:
            break
        if found is None or (found["step"] and place < last):
            return ImportRefusal(f"`{texts[last]}` beside `{texts[place]}`", _ACCEPTED)
        first, end = int(found["low"] or low), int(found["high"] or high)
        step = int(found["step"] or 0)
        if not low <= first <= end <= high or step > end - first + 1:
            return ImportRefusal(f"`{texts[place]}` is outside the field", f"{low} to {high}")
        texts[place] = f"{first}-{end}/{step}" if step else str(first)
        smear = unit * (step or end - first + 1)
    return HashedCron(" ".join(texts), smear)
