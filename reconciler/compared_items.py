"""Items as both sides of the comparison know them: expected, and in the ledger."""

from datetime import date, datetime
from typing import Any, Final, NamedTuple

KindKey = tuple[str, str]
"""Tenant and kind."""

NOT_SAID: Final = -1
"""In place of a term: its source does not say it."""
OutsideTerms = tuple[int, int, int]
"""What a population may say of an item's terms, or NOT_SAID: the digest of its payload
(`terms.payload_digest`), `start_by` and `complete_by` (in microseconds since 2000)."""
NOTHING_SAID: Final[OutsideTerms] = (NOT_SAID, NOT_SAID, NOT_SAID)


class ExpectedItem(NamedTuple):
    """One item that the ledger should have.

    `source` is the index of its source in the pass. `is_live` is false where the domain withdrew
    it: then no item is owed, and one that exists is no finding. `reference` is what the source
    needs to find the terms again (an event's number); `payload` and `partition_key` are a
    population's, which is not read again. `is_missed`: its event, `received` so many microseconds
    after the epoch, came too late to owe it, and the item is recorded as skipped. `later` has the
    rows of other versions of the definition with the same nominal time at other instants: each of
    them is an issue. `is_tolerated`: an issue that may exist and may be absent. `reinstates`: the
    event owes the item again if another withdrew it before. `terms_digest`: of what the item says
    beside its identity and due time (`item_terms.terms_digest`); None where its source does not.
    `is_asserted`: a population names it. `skipped_for`: why its schedule records it as skipped.
    `outside_terms`: what a population says of its terms.
    """

    id: bytes
    tenant: str
    kind: str
    business_key: str
    cycle: str
    day: int
    due_microseconds: int
    source: int
    is_live: bool = True
    definition_no: int | None = None
    reference: int | None = None
    payload: str | None = None
    partition_key: str | None = None
    moment: tuple[int, str, str] | None = None
    received: int | None = None
    is_missed: bool = False
    later: tuple[tuple[Any, ...], ...] = ()
    is_tolerated: bool = False
    reinstates: bool = True
    terms_digest: int | None = None
    is_asserted: bool = False
    skipped_for: str | None = None
    outside_terms: OutsideTerms = NOTHING_SAID


ID: Final = ExpectedItem._fields.index("id")
DAY: Final = ExpectedItem._fields.index("day")
SUBJECT: Final = slice(
    ExpectedItem._fields.index("tenant"), ExpectedItem._fields.index("business_key") + 1
)
SOURCE: Final = ExpectedItem._fields.index("source")
LATER: Final = ExpectedItem._fields.index("later")
ASSERTED: Final = ExpectedItem._fields.index("is_asserted")


def expected_row(
    *,
    id: bytes,  # noqa: A002 - the field's name
    tenant: str,
    kind: str,
    business_key: str,
    cycle: str,
    day: int,
    due_microseconds: int,
    source: int,
    is_live: bool = True,
    definition_no: int | None = None,
    reference: int | None = None,
    payload: str | None = None,
    partition_key: str | None = None,
    moment: tuple[int, str, str] | None = None,
    received: int | None = None,
    is_missed: bool = False,
    later: tuple[tuple[Any, ...], ...] = (),
    is_tolerated: bool = False,
    reinstates: bool = True,
    terms_digest: int | None = None,
    is_asserted: bool = False,
    skipped_for: str | None = None,
    outside_terms: OutsideTerms = NOTHING_SAID,
) -> tuple[Any, ...]:
    """Return the fields of an ExpectedItem as a plain tuple, in a quarter of the time."""
    return (
        id,
        tenant,
        kind,
        business_key,
        cycle,
        day,
        due_microseconds,
        source,
        is_live,
        definition_no,
        reference,
        payload,
        partition_key,
        moment,
        received,
        is_missed,
        later,
        is_tolerated,
        reinstates,
        terms_digest,
        is_asserted,
        skipped_for,
        outside_terms,
    )


class ActualItem(NamedTuple):
    """One item of the ledger and what ended it, as ``list_outcomes_of_items`` lists them.

    `ended_by` is the kind of actor that ended it without completing it, `ended_for` its reason; no
    person is one whose name is not a person's. `is_repair`: an executed repair did so. `has_run`:
    it ended in a run, after its start. `places`: in how many of `pending` and `review` it is.
    `outside_terms`: what a population may say of it; its payload is NOT_SAID where none of the pass
    says payloads.
    """

    effective_date: date
    item_no: int
    id: bytes
    flow_no: int
    business_key: str
    cycle: str
    due_at: datetime
    complete_by: datetime | None
    definition_no: int | None
    event_no: int | None
    emitted_at: datetime
    terms_digest: int
    event: int | None
    ended_at: datetime | None
    ended_by: str | None
    ended_for: str | None
    is_repair: bool
    has_run: bool
    overlap: int | None
    tzdata: str | None
    places: int
    outside_terms: OutsideTerms = NOTHING_SAID
