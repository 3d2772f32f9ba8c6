"""A kind without a definition and a definition without settings have the same defaults."""

from datetime import timedelta

from dueledger.ledger.definitions.policies import DeadlinePolicy, RetryPolicy
from dueledger.ledger.store import Connection
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy


async def test_the_defaults_of_a_kind_are_those_of_documents_and_handlers(
    connection: Connection,
) -> None:
    kind_no = (await put_kind_policy(connection, KindPolicy("acme", "Renewal"))).kind_no
    row = await connection.fetchrow("select * from ledger.kind where kind_no = $1", kind_no)
    assert row is not None
    retry, deadlines = RetryPolicy(), DeadlinePolicy()
    assert retry.attempt_max == row["attempt_max"]
    assert retry.base == timedelta(seconds=row["backoff_base_seconds"])
    assert retry.cap == timedelta(seconds=row["backoff_cap_seconds"])
    assert deadlines.dispatch == timedelta(seconds=row["dispatch_seconds"])
    assert deadlines.queue == timedelta(seconds=row["queue_seconds"])
    assert deadlines.queue_late == row["queue_late"]
    assert deadlines.run_late == row["run_late"]


async def test_a_kind_put_in_force_first_keeps_a_cap_above_its_base_and_starts_above_attempts(
    connection: Connection,
) -> None:
    policy = KindPolicy("acme", "Renewal", attempt_max=40, backoff_base_seconds=900.0)
    kind_no = (await put_kind_policy(connection, policy)).kind_no
    row = await connection.fetchrow(
        "select start_max, backoff_cap_seconds, topic from ledger.kind where kind_no = $1", kind_no
    )
    assert row is not None
    assert tuple(row) == (40, 900.0, "due.Renewal")
