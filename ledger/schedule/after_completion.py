"""`when: {after_completion: …}`: a fixed delay after the end of the item before.

It has no times of its own: the transaction that ends an item owes the next. The first is due when
its definition comes into force.
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from dueledger.ledger.schedule.expressions import Period, ZoneName
from dueledger.ledger.schedule.resolution import Decision, Occurrence
from dueledger.ledger.schedule.zones import load_zone


class AfterCompletion(BaseModel):
    """Due `after_completion` after the item before ended. `timezone` gives cycles and dates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after_completion: Period
    timezone: ZoneName = "UTC"

    def first(self, at: datetime) -> Occurrence:
        """Return the first occurrence of a chain, at an instant."""
        local = at.astimezone(load_zone(self.timezone))
        offset = local.utcoffset()
        if offset is None:
            raise ValueError(f"{self.timezone} gives no offset for {at}")
        return Occurrence(at, local.replace(tzinfo=None, fold=0), offset, Decision.EXACT)
