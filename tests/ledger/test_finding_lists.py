"""Lists of findings have what was asked for, of the caller's tenants, and no more than a limit."""

from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from dueledger.ledger.store import Connection
from dueledger.ledger.store.findings import MissingPlace, count_missing, list_findings_of_item

NOON: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
MONDAY, TUESDAY = date(2027, 3, 1), date(2027, 3, 2)
FINDING: Final = """
    insert into ledger.finding (
      id, type, severity, tenant, kind, subject, item_id, effective_date, due_at, sentence,
      first_seen_at, last_seen_at, closed_at, resolution)
    select gen_random_uuid(), $1, 'error', $2, $3, '', $4, $5, $6, '', $6, $6,
      case when $7 then $6::timestamptz end, case when $7 then 'explained' else 'open' end
    returning id
"""
REPAIR: Final = """
    insert into ledger.repair (
      id, finding_id, tenant, action, opened_count, status, proposed_at, proposed_by, command)
    select gen_random_uuid(), $4, 'acme', a.action, 1, 'proposed',
      $1::timestamptz + a.place * interval '1s', $2, '{}'
    from unnest($3::text[]) with ordinality a (action, place)
"""
Row = tuple[str, str, date]


async def _add(
    connection: Connection,
    tenant: str,
    kind: str,
    day: date = MONDAY,
    *,
    type_: str = "MISSING",
    item: UUID | None = None,
    seen_at: datetime = NOON,
    is_closed: bool = False,
) -> UUID:
    return await connection.fetchval(FINDING, type_, tenant, kind, item, day, seen_at, is_closed)


async def test_days_with_missing_items_are_those_of_the_filter_after_a_place(
    connection: Connection,
) -> None:
    rows: list[Row] = [
        ("acme", "A", MONDAY),
        ("acme", "A", TUESDAY),
        ("acme", "B", MONDAY),
        ("globex", "A", MONDAY),
        ("umbra", "B", TUESDAY),
    ]
    for place, row in enumerate(rows, 1):
        for number in range(place):
            await _add(connection, *row, seen_at=NOON + timedelta(hours=number))
        await _add(connection, *row, is_closed=True)
        await _add(connection, *row, type_="LATE")

    async def counted(
        wanted: Collection[int],
        *,
        after: int | None = None,
        count_max: int = 100,
        limit: int = 9,
        **filters: Any,  # noqa: ANN401 - as count_missing takes them
    ) -> None:
        place = None if after is None else MissingPlace(*rows[after - 1])
        found = await count_missing(
            connection, after=place, limit=limit, count_max=count_max, **filters
        )
        assert [(row["tenant"], row["kind"], row["effective_date"]) for row in found] == [
            rows[number - 1] for number in wanted
        ], filters
        for row, number in zip(found, wanted, strict=True):
            assert (row["missing"], row["missing_capped"]) == (number, False)
            assert (row["first_due_at"], row["first_seen_at"]) == (NOON, NOON)

    for tenants in (None, ["acme", "globex", "umbra", "acme"]):
        await counted([1, 2, 3, 4, 5], tenants=tenants)
        await counted([1, 2], tenants=tenants, limit=2)
        await counted([1, 2, 3], tenants=tenants, tenant="acme")
        await counted([1, 2, 4], tenants=tenants, kind="A")
        await counted([1, 2], tenants=tenants, tenant="acme", kind="A")
        await counted([3, 4, 5], tenants=tenants, after=2)
        await counted([4], tenants=tenants, after=2, kind="A")
        await counted([3], tenants=tenants, after=2, tenant="acme")
    await counted([1, 2, 3, 5], tenants=["acme", "umbra"])
    await counted([], tenants=["acme"], tenant="globex")
    await counted([], tenants=[])

    for tenants in (None, ["acme", "umbra"]):
        found = await count_missing(connection, tenants=tenants, limit=9, count_max=5)
        assert [(row["missing"], row["missing_capped"]) for row in found] == [
            (1, False),
            (2, False),
            (2, True),
        ]


async def test_the_findings_of_an_item_are_its_own_with_the_last_repair_of_each(
    connection: Connection, actor_no: int
) -> None:
    item = uuid4()
    first = await _add(connection, "acme", "A", item=item, type_="LATE", is_closed=True)
    last = await _add(connection, "acme", "A", item=item, seen_at=NOON + timedelta(hours=1))
    await _add(connection, "acme", "A", item=uuid4())
    await connection.execute(REPAIR, NOON, actor_no, ["release", "redrive"], first)
    for tenants in (None, ["acme", "globex"]):
        rows = await list_findings_of_item(connection, item, 9, tenants=tenants)
        assert [(row["id"], row["action"]) for row in rows] == [(last, None), (first, "redrive")]
    (row,) = await list_findings_of_item(connection, item, 1)
    assert row["id"] == last
    assert await list_findings_of_item(connection, item, 9, tenants=["globex"]) == []
