"""Smear: occurrences at one instant are spread over a window, the same on any host.

`floor(H64(item id) · min(window, next − due))` in whole seconds, where H64 is the first 8 bytes of
the SHA-256 of the id's text as a fraction of 2^64. Nominal time and identity stay unchanged, and no
item is moved to or past the next occurrence.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import islice, pairwise
from typing import Final
from uuid import UUID

from dueledger.ledger.schedule.business import Business
from dueledger.ledger.schedule.cron import Cron
from dueledger.ledger.schedule.every import Every
from dueledger.ledger.schedule.resolution import Occurrence
from dueledger.ledger.schedule.rrule import Rrule
from dueledger.ledger.schedule.rrule_text import parse_rrule
from dueledger.ledger.schedule.when import When, expand

_SECOND: Final = timedelta(seconds=1)
_SAMPLE_START: Final = datetime(2024, 1, 1)  # noqa: DTZ001 -- naive by design; fixed, so no clock
_SAMPLE_SPAN: Final = timedelta(days=8 * 366)
_SAMPLE_OCCURRENCES: Final = 1_000


def smear_seconds(item: UUID, window: timedelta, gap: timedelta | None = None) -> int:
    """Return by how much the item is delayed; `gap` is the time until the next occurrence."""
    width = window if gap is None else min(window, gap)
    part = int.from_bytes(sha256(str(item).encode()).digest()[:8])
    return part * (width // _SECOND) >> 64


def gaps_after(
    occurrences: Sequence[Occurrence], following: Sequence[Occurrence]
) -> list[timedelta]:
    """Return the time from each occurrence to the next; `following` are the ones after them.

    Without a next occurrence it is the longest timedelta.
    """
    instants = [found.due_at for found in (*occurrences, *following[:1])]
    gaps = [after - before for before, after in pairwise(instants)]
    return gaps if following else [*gaps, timedelta.max][: len(occurrences)]


def shortest_period(when: When | None) -> timedelta | None:
    """Return the shortest nominal time between two occurrences; None if there are not two."""
    if isinstance(when, Cron):
        return when.shortest_period
    if isinstance(when, Every):
        return when.every
    return _sampled(when) if isinstance(when, Rrule | Business) else None


def _sampled(when: Rrule | Business) -> timedelta | None:
    """Sample its first occurrences; later ones are limited by `smear_seconds` in any case."""
    begin = when.start or _SAMPLE_START
    end = begin + _SAMPLE_SPAN
    if isinstance(when, Business):  # Monday to Friday, whatever calendar it uses
        window = expand(when, begin.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
        found = [each.nominal for each in window.occurrences]
    else:
        count = parse_rrule(when.rrule).count or _SAMPLE_OCCURRENCES
        found = list(islice(when.nominals(begin, end), min(count, _SAMPLE_OCCURRENCES)))
    return min((after - before for before, after in pairwise(found)), default=None)
