"""What a reconciler knows of Kafka when it has read all topics, and no record is there."""

from dueledger.reconciler.read.published_records import PublishedRecords
from dueledger.reconciler.record_index import ALWAYS


def nothing_published() -> PublishedRecords:
    """Return the index of no record at all: no item was ever handed out."""
    return PublishedRecords(covers_since=ALWAYS, covers_until=ALWAYS)
