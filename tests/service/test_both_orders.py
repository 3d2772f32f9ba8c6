"""Lists that go both ways by the same index: audit, reports, repairs, findings, items."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.statements import statement
from tests.service.conftest import SCHEDULE, Api
from tests.service.test_beside_another_tenant import ROWS_READ

TENANTS = ("both", "ways")


@pytest.fixture(scope="module")
async def reader(api: Api) -> NewApiKey:
    return await api.make_key("both-ways", *Scope, tenants=TENANTS)


async def walk(api: Api, reader: NewApiKey, path: str, **query: str) -> list[dict[str, Any]]:
    """Return all rows of a list, two a page."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        page = await api.ask("GET", f"{path}?limit=2&{asked}{cursor}", key=reader)
        assert page.status == 200, page.text
        rows += page.document["items"]
        if page.document["next_cursor"] is None:
            return rows
        cursor = f"&cursor={page.document['next_cursor']}"


def places(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize(
    "filters", [{}, {"tenant": "both"}, {"operation": "both"}, {"target": "both"}]
)
async def test_the_audit_read_the_other_way_has_each_entry_once_in_reverse(
    api: Api, reader: NewApiKey, filters: dict[str, str]
) -> None:
    await api.owner.execute(
        "insert into ledger.audit (actor_no, operation, target, tenants, reason, at)"
        " select $1, 'both', 'both', array[t.tenant], t.tenant || n,"
        " timestamptz '2026-01-01' + n / 4 * interval '1 hour'"
        " from generate_series(1, 9) n cross join unnest($2::text[]) t (tenant)"
        " where not exists (select from ledger.audit where operation = 'both')",
        api.person_no,
        TENANTS,
    )
    for key in (reader, await api.make_key("of-all", *Scope, tenants=None)):
        wanted = {"until": "2026-01-02T00:00:00Z", **filters}
        newest = await walk(api, key, "/v1/audit", **wanted)
        oldest = await walk(api, key, "/v1/audit", **wanted, oldest_first="true")
        assert oldest == newest[::-1]
        times = [row["at"] for row in oldest]
        assert times == sorted(times)
        assert len(set(places(oldest, "reason"))) == (9 if "tenant" in filters else 18)


async def test_reports_read_the_other_way_are_each_there_once(api: Api, reader: NewApiKey) -> None:
    for _ in range(3):
        await api.report("both")
    await api.owner.execute(
        "insert into ledger.report select 'ways', reconciliation_no, as_of, verdict, sentence,"
        " findings_open, document from ledger.report where tenant = 'both'"
    )
    names = "reconciliation_no", "tenant"
    newest = places(await walk(api, reader, "/v1/reports"), *names)
    oldest = places(await walk(api, reader, "/v1/reports", oldest_first="true"), *names)
    assert (len(newest), oldest) == (6, sorted(newest))
    assert newest == sorted(newest, key=lambda place: (-place[0], place[1]))


@pytest.mark.parametrize("filters", [{}, {"tenant": "both"}, {"taken": "mine"}])
async def test_repairs_that_wait_read_the_other_way_have_each_once_in_reverse(
    api: Api, reader: NewApiKey, filters: dict[str, str]
) -> None:
    for tenant in TENANTS:
        for finding in await api.find(tenant, 3):
            await api.propose(finding, api.person_no)
            await api.ask("POST", f"/v1/findings/{finding}/take", key=reader, body={})
    await api.owner.execute("update ledger.repair set proposed_at = '2026-01-01 09:00+00'")
    oldest = await walk(api, reader, "/v1/repairs", **filters)
    newest = await walk(api, reader, "/v1/repairs", **filters, newest_first="true")
    assert oldest
    assert newest == oldest[::-1]
    assert len(set(places(newest, "id"))) == len(newest)


@pytest.mark.parametrize("filters", [{}, {"tenant": "both"}, {"taken": "mine"}])
async def test_undecided_findings_read_the_other_way_are_each_there_once_in_reverse(
    api: Api, reader: NewApiKey, filters: dict[str, str]
) -> None:
    for tenant in TENANTS:
        found = await api.find(tenant, 3)
        await api.owner.execute(
            "update ledger.finding set type = 'OUTCOME_CONFLICT', first_seen_at = '2026-01-01Z'"
            " where id = any ($1)",
            found,
        )
        await api.ask("POST", f"/v1/findings/{found[0]}/take", key=reader, body={})
    for key in (reader, await api.make_key("decides-all", *Scope, tenants=None)):
        oldest = await walk(api, key, "/v1/findings/undecided", **filters)
        newest = await walk(api, key, "/v1/findings/undecided", **filters, newest_first="true")
        assert newest == oldest[::-1]
        assert len(set(places(newest, "id"))) == len(newest)
        assert newest or key is not reader


@pytest.mark.parametrize("filters", [{}, {"tenant": "both"}, {"awaits_approval": "true"}])
async def test_operations_read_the_other_way_are_each_there_once_in_reverse(
    api: Api, reader: NewApiKey, filters: dict[str, str]
) -> None:
    await record_operations(api, TENANTS, 5)
    for key in (reader, await api.make_key("operates-all", *Scope, tenants=None)):
        newest = await walk(api, key, "/v1/operations", **filters)
        oldest = await walk(api, key, "/v1/operations", **filters, oldest_first="true")
        assert len(newest) >= 5
        assert oldest == newest[::-1]
        numbers = places(oldest, "operation_no")
        assert numbers == sorted(set(numbers))


async def record_operations(api: Api, tenants: Sequence[str], count: int) -> None:
    await api.owner.execute(
        "insert into ledger.operation (verb, tenant, in_flight, as_of, item_no_max, matched,"
        " matched_capped, needs_approval, actor_no, reason)"
        " select 'cancel', t.tenant, false, now(), 1, 1, false, true, $1, 'test'"
        " from generate_series(1, $3) n cross join unnest($2::text[]) t (tenant)",
        api.person_no,
        tenants,
        count,
    )


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"tenant": "both"},
        {"tenant": "both", "definition": "statements"},
        {"kind": "LetterDue"},
        {"business_key": "B-1"},
        {"due_before": "2026-01-20T00:00:00Z"},
        {"state": "Cancelled"},
    ],
)
async def test_items_read_the_other_way_are_each_there_once_in_reverse(
    api: Api, reader: NewApiKey, filters: dict[str, str]
) -> None:
    made = [
        api.item(
            f"B-{number // 4}",
            tenant=tenant,
            kind=("PolicyRenewalDue", "LetterDue")[number % 2],
            lane=str(number % 3),
            cycle=str(number),
            effective_date=f"2027-0{1 + number % 3}-0{1 + number % 2}",
            due_at=f"2026-01-{10 + number}T09:00:00Z",
        )
        for tenant in TENANTS
        for number in range(12)
    ]
    emitted = await api.emit(reader, *made)
    decision = {"verb": "cancel", "ids": [str(emitted[0]), str(emitted[7])], "reason": "test"}
    await api.ask("POST", "/v1/tenants/both/decisions", key=reader, body=decision)
    for key in (reader, await api.make_key("lists-all", *Scope, tenants=None)):
        latest = await walk(api, key, "/v1/items", **filters)
        earliest = await walk(api, key, "/v1/items", **filters, oldest_first="true")
        assert earliest == latest[::-1]
        assert len(set(places(latest, "id"))) == len(latest)
        assert latest or "definition" in filters
        dates = places(earliest, "effective_date")
        assert dates == sorted(dates)


async def test_executions_read_the_other_way_are_each_there_once_in_reverse(
    api: Api, reader: NewApiKey
) -> None:
    await api.define("both", "executed", SCHEDULE)
    path = "/v1/definitions/both/executed"
    for number in range(5):
        body = {"cycle": str(number), "reason": "test"}
        triggered = await api.ask("POST", f"{path}/trigger", key=reader, body=body)
        assert triggered.status < 300, triggered.text
    latest = await walk(api, reader, f"{path}/executions")
    earliest = await walk(api, reader, f"{path}/executions", oldest_first="true")
    assert len(latest) == 5
    assert earliest == latest[::-1]


@pytest.mark.parametrize(
    ("name", "arguments", "scan"),
    [
        ("list_oldest_operations", "51, null, null, null, false, null", "using operation_pkey"),
        (
            "list_oldest_operations",
            "51, '{planned}', null, null, false, null",
            "Backward using operation_tenant_idx",
        ),
        (
            "list_oldest_operations",
            "51, null, null, null, true, null",
            "using operation_awaited_idx",
        ),
        (
            "list_oldest_operations",
            "51, '{planned}', null, null, true, null",
            "Backward using operation_tenant_awaited_idx",
        ),
        (
            "find_newest_undecided_findings",
            "null, null, null, 51, null, null, null",
            "Backward using finding_undecided_idx",
        ),
        (
            "find_newest_undecided_findings",
            "null, null, null, 51, '{planned}', null, null",
            "Backward using finding_undecided_tenant_idx",
        ),
    ],
)
async def test_the_other_order_is_that_of_the_index_and_reads_one_page(
    api: Api, name: str, arguments: str, scan: str
) -> None:
    transaction = api.owner.transaction()
    await transaction.start()
    await record_operations(api, ["planned"], 3_000)
    await api.find("planned", 3_000)
    await api.owner.execute(
        "update ledger.finding set type = 'OUTCOME_CONFLICT' where tenant = 'planned'"
    )
    await api.owner.execute("analyze ledger.operation, ledger.finding")
    await api.owner.execute(f"prepare planned as {statement(name)}")
    rows = await api.owner.fetch(
        f"explain (analyze, costs off, timing off) execute planned ({arguments})"
    )
    await api.owner.execute("deallocate planned")
    await transaction.rollback()
    plan = "\n".join(row[0] for row in rows)
    assert re.search(rf"{scan} .*actual rows=51\b", plan), plan
    steps = [float(each) for each in re.findall(r"actual rows=([\d.]+)", plan)]
    assert max(steps) == 51, plan


@pytest.mark.parametrize(("name", "last"), [("list_reports", 2_900), ("list_oldest_reports", 100)])
async def test_a_page_of_reports_reads_none_of_the_pages_before(
    api: Api, name: str, last: int
) -> None:
    number = await api.report(name)
    transaction = api.owner.transaction()
    await transaction.start()
    await api.owner.execute(
        "insert into ledger.report select tenant, $1 + n, as_of, verdict, sentence, findings_open,"
        " '{}' from ledger.report cross join generate_series(1, 3000) n where tenant = $2",
        number,
        name,
    )
    await api.owner.execute("analyze ledger.report")
    place = number + last
    before = await api.owner.fetchval(ROWS_READ)
    found = await api.owner.fetch(statement(name), [name], place, name, 51)
    read = await api.owner.fetchval(ROWS_READ) - before
    await transaction.rollback()
    step = 1 if name == "list_oldest_reports" else -1
    assert [row["reconciliation_no"] for row in found][:2] == [place + step, place + 2 * step]
    assert (len(found), 0 < read < 200) == (51, True), read
