"""The check of claims against Kafka: reads the work topics, then the claims, then what differs.

Records are read before claims: a claim is committed before it is published, so a record that was
read has its claim. What a claim has and Kafka seems not to have is asked for again at the end.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from time import monotonic
from typing import Final, final
from uuid import UUID

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.kafka.envelope import EVENT_TOPIC, INTAKE_GROUP
from dueledger.ledger.kafka.log_reader import LogBounds, LogReader, open_log_reader
from dueledger.ledger.kafka.record_slices import ID_BYTES, RecordSlice, slice_records
from dueledger.ledger.runtime.kafka_settings import KafkaSettings
from dueledger.ledger.store import Connection, items
from dueledger.ledger.store.cells import read_cell
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.published_claims import (
    ClaimDigest,
    PublishedClaim,
    digest_claims,
    find_published_claims,
    list_claim_items,
    list_published_claims,
    list_work_topics,
)
from dueledger.reconciler.compare.published_claims import (
    ClaimComparison,
    Orphan,
    OrphanReason,
    ToVerify,
)
from dueledger.reconciler.event_backlog import EventTopic
from dueledger.reconciler.find.record_findings import (
    orphan_record,
    record_missing,
    record_without_item,
)
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.find.window_findings import AbsentItems
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.read.published_records import (
    DIGEST_BYTES,
    PartitionRecords,
    PublishedRecords,
    PublishedSlice,
    TopicPlace,
)
from dueledger.reconciler.record_index import ALWAYS
from dueledger.reconciler.settings import ReconcilerSettings
from dueledger.reconciler.sources import SourceRead, SourceTotals

NAME: Final = "Kafka"
CLAIMS_A_PAGE: Final = 2_000
ITEMS_A_READ: Final = 20_000
SLICES_A_READ: Final = 1_000
DETAILED_MAX: Final = 1_000
"""Claims of which a pass reads the records again to say which items differ."""
RECORDS_MAX: Final = 10_000_000
"""Records that are kept; of more, the newest of each partition are read."""
CLAIMED_SINCE: Final = timedelta(days=30)
"""Claims and topics older than this are not read, unless records of them are retained."""

_CELL_BITS: Final = 43


@final
class KafkaCheck:
    """Compares claims with their records, in each pass of a process.

    `records` keeps what was read for the next pass, and is the index that repairs ask. `events`
    says which domain events were not read yet.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        event_topic: str = EVENT_TOPIC,
        intake_group: str = INTAKE_GROUP,
        records_max: int = RECORDS_MAX,
    ) -> None:
        self.events = EventTopic(settings, event_topic, intake_group)
        self._settings = settings
        self._records_max = records_max
        self.records = PublishedRecords()

    @classmethod
    def of(cls, settings: ReconcilerSettings) -> "KafkaCheck | None":
        """Return the check that the settings ask for, of their topic of events and its group."""
        if not settings.has_kafka:
            return None
        return cls(settings, event_topic=settings.event_topic, intake_group=settings.intake_group)

    async def run(
        self,
        connection: Connection,
        recorder: FindingRecorder,
        result: PassResult,
        *,
        absent: AbsentItems,
        is_full: bool,
    ) -> None:
        """Read and compare, add what differs to the recorder, and to the result what was read.

        `absent` are items that do not exist and that other findings name. A pass that `is_full`
        compares the items of all claims again, another one those of claims that it did not know.
        A Kafka that cannot be read is a source that failed, and nothing is concluded from it.
        """
        began = monotonic()
        source = SourceRead(NAME, "kafka", None, kinds=frozenset())
        result.sources.append(source)
        self.records.covers_since = None
        if is_full:
            self.records.forget_verified()
        try:
            async with open_log_reader(self._settings, client="dueledger-reconciler") as reader:
                check = _Comparing(connection, reader, recorder, self.records, absent)
                result.published = await check.run(source.extract, result.as_of, self._records_max)
                result.read_from = {
                    place: part.first for place, part in self.records.partitions.items()
                }
        except Unavailable as error:
            source.failure = error.message
        source.duration_seconds = monotonic() - began


@final
class _Comparing:
    """One comparison, with a connection to the ledger and one to Kafka."""

    def __init__(
        self,
        connection: Connection,
        reader: LogReader,
        recorder: FindingRecorder,
        records: PublishedRecords,
        absent: AbsentItems,
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._recorder = recorder
        self._records = records
        self._absent = absent
        self._details_left = DETAILED_MAX

    async def run(
        self, totals: SourceTotals, as_of: datetime, records_max: int
    ) -> set[tuple[str, str]]:
        """Read records, then claims, then again what differs.

        Return the kinds of the topics of which all records were read. Raises Unavailable.
        """
        topics: dict[str, set[tuple[str, str]]] = {}
        for row in await list_work_topics(self._connection, as_of - CLAIMED_SINCE):
            kinds = topics.setdefault(row["topic"], set())
            if row["tenant"] is not None:
                kinds.add((row["tenant"], row["kind"]))
        bounds = await self._reader.read_bounds(await self._reader.find_partitions(topics))
        read_at = await read_now(self._connection)
        await self._read_records(bounds, records_max)
        comparison = ClaimComparison(self._records)
        await self._match_claims(comparison, as_of)
        await self._read_again(comparison)
        await self._match_rest(comparison)
        covers_since = self._covered_since(comparison, read_at)
        comparison.miss_unsent(covers_since)
        self._recorder.add(record_missing(each) for each in comparison.missing.values())
        totals.extracted_at = read_at
        totals.row_count = sum(len(part.keys) for part in self._records.partitions.values())
        totals.hash_total = sum(part.total for part in self._records.partitions.values())
        totals.hash_total &= 0xFFFF_FFFF_FFFF_FFFF
        totals.skipped.update(comparison.left_out)
        self._records.covers_until = read_at
        self._records.covers_since = None if comparison.missing else covers_since
        parts = self._records.partitions.values()
        unread = {part.topic for part in parts if part.retained < part.first}
        return {kind for topic, _ in bounds if topic not in unread for kind in topics[topic]}

    async def _read_records(self, bounds: dict[TopicPlace, LogBounds], records_max: int) -> None:
        """Read what is new; leave out partitions and records that are not there any more."""
        kept = self._records.partitions
        retained = sum(each.end - each.first for each in bounds.values())
        share = min(1.0, records_max / retained) if retained else 1.0
        for place in kept.keys() - bounds.keys():
            del kept[place]
        for place, (first, end) in bounds.items():
            from_offset = max(first, end - int((end - first) * share))
            part = kept.get(place)
            if part is None or end < part.end or from_offset > part.end:  # made anew, or cut off
                part = PartitionRecords(*place, first=from_offset, end=from_offset)
                part.is_whole = from_offset == 0
                kept[place] = part
            part.retained = first
            part.forget_before(from_offset)
            async for found in self._slices(place, part.end, end):
                part.add(found)
            part.end = end

    async def _slices(
        self, place: TopicPlace, from_offset: int, to_offset: int
    ) -> AsyncGenerator[RecordSlice]:
        async with aclosing(self._reader.read(place, from_offset, to_offset)) as batches:
            async for batch in batches:
                for found in slice_records(batch):
                    yield found

    async def _match_claims(self, comparison: ClaimComparison, as_of: datetime) -> None:
        since = as_of - CLAIMED_SINCE
        if (oldest := self._records.oldest_claimed_at) is not None:
            since = min(since, oldest)
        after = 0
        while True:
            claims = await list_published_claims(
                self._connection, after, since, as_of, CLAIMS_A_PAGE
            )
            await self._verify(comparison, comparison.add(claims))
            self._add_orphans(comparison)
            if len(claims) < CLAIMS_A_PAGE:
                break
            after = claims[-1].fence

    async def _read_again(self, comparison: ClaimComparison) -> None:
        """Ask Kafka again for the offsets that it has, where claims seem to lack records."""
        lacking = [each.claim for each in comparison.missing.values()]
        lacking += comparison.unread.values()
        places = {(claim.topic, claim.partition) for claim in lacking}
        if not places:
            return
        bounds = await self._reader.read_bounds(places)
        comparison.read_again(
            {place: bounds[place].first for place in places},
            {place: await self._reader.read_log_end(place, bounds[place].end) for place in places},
        )

    async def _match_rest(self, comparison: ClaimComparison) -> None:
        """Judge records that no marked claim has, by what the ledger has of their fences now."""
        cell_no = await read_cell(self._connection)
        waiting: list[tuple[PublishedSlice, int]] = []
        for records, place in comparison.unmatched():
            if records.claim_id is not None and records.claim_id.fence >> _CELL_BITS != cell_no:
                comparison.left_out["records of another cell"] += records.size
                continue
            waiting.append((records, place))
            if len(waiting) == SLICES_A_READ:
                await self._judge(comparison, waiting)
                waiting = []
        await self._judge(comparison, waiting)

    async def _judge(
        self, comparison: ClaimComparison, waiting: Sequence[tuple[PublishedSlice, int]]
    ) -> None:
        named = [
            (records.claim_id.fence, records.claim_id.claimed_at)
            for records, _ in waiting
            if records.claim_id is not None
        ]
        claims = await find_published_claims(self._connection, named) if named else {}
        found: list[ToVerify] = []
        for records, place in waiting:
            fence = records.claim_id.fence if records.claim_id else None
            claim = None if fence is None else claims.get(fence)
            found += comparison.judge(records, place, claim)
        await self._verify(comparison, found)
        self._add_orphans(comparison)

    async def _verify(self, comparison: ClaimComparison, found: Sequence[ToVerify]) -> None:
        """Compare the items of claims with those of their records, by digest first."""
        waiting: list[ToVerify] = []
        item_count = 0
        for each in found:
            waiting.append(each)
            item_count += each.claim.size
            if item_count >= ITEMS_A_READ:
                await self._verify_some(comparison, waiting)
                waiting, item_count = [], 0
        if waiting:
            await self._verify_some(comparison, waiting)

    async def _verify_some(self, comparison: ClaimComparison, found: Sequence[ToVerify]) -> None:
        tokens = [each.records.token for each in found]
        digests = await digest_claims(self._connection, [each.claim for each in found], tokens)
        for each in found:
            claim, records = each.claim, each.records
            own = digests.get(claim.fence, ClaimDigest())
            if not own.has_token:
                comparison.orphans.append(Orphan(records, OrphanReason.OTHER_TOKEN, claim))
                continue
            is_equal = (
                records.size == claim.size == own.item_count
                and own.digest[:DIGEST_BYTES] == records.digest
            ) or await self._compare_items(comparison, claim, records)
            if is_equal:
                part = self._records.partitions[records.topic, records.partition]
                part.verified[each.place] = 1

    async def _compare_items(
        self, comparison: ClaimComparison, claim: PublishedClaim, records: PublishedSlice
    ) -> bool:
        """Read the records again and compare each; return whether nothing differs."""
        self._details_left -= 1
        if self._details_left < 0:
            comparison.orphans.append(Orphan(records, OrphanReason.OTHER_ITEM, claim))
            return False
        ids = await self._read_ids(records)
        rows = await list_claim_items(self._connection, claim)
        named = {row["position"]: row for row in rows}
        other = False
        absent: dict[int, bytes] = {}
        for position, identity in enumerate(ids, records.position):
            row = named.get(position)
            if row is not None and row["id"] is None and row["item_no"] not in self._absent.numbers:
                absent[position] = identity
            other |= row is not None and row["id"] not in {None, identity}
        if other:
            comparison.orphans.append(Orphan(records, OrphanReason.OTHER_ITEM, claim))
        if absent:
            exist = await items.find_known_ids(
                self._connection, [UUID(bytes=identity) for identity in absent.values()]
            )
            exist |= self._absent.ids
            absent = {place: each for place, each in absent.items() if each not in exist}
        self._recorder.add(
            record_without_item(
                records,
                records.base_offset + position - 1,
                identity,
                named[position]["item_no"],
                named[position]["effective_date"],
            )
            for position, identity in absent.items()
        )
        return not other and not absent

    async def _read_ids(self, records: PublishedSlice) -> list[bytes]:
        """Read the ids of a slice's items again from Kafka; none if they were deleted."""
        before, after = records.offset, records.offset + records.size
        ids = b""
        async for found in self._slices((records.topic, records.partition), before, after):
            if found.offset < after:
                ids += found.ids[max(0, before - found.offset) * ID_BYTES :]
        ids = ids[: records.size * ID_BYTES]
        return [ids[at : at + ID_BYTES] for at in range(0, len(ids), ID_BYTES)]

    def _add_orphans(self, comparison: ClaimComparison) -> None:
        """Add the findings of records that no claim describes."""
        self._recorder.add(map(orphan_record, comparison.orphans))
        comparison.orphans.clear()

    def _covered_since(self, comparison: ClaimComparison, read_at: datetime) -> datetime | None:
        """Return from when on each published record was read, by the oldest that are retained."""
        if comparison.missing or comparison.left_out["claims on a topic that does not exist"]:
            return None
        since = ALWAYS
        for place, part in self._records.partitions.items():
            if not part.is_whole:
                since = max(since, comparison.oldest.get(place, (0, read_at))[1])
        return since
