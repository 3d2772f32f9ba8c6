"""What a key of one tenant is answered is the same whether there is another tenant or not."""

import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import pytest
from fastapi.routing import APIRoute

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.audit import AuditTarget, record_audit
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.items import withdraw_items
from dueledger.ledger.store.operations import ItemFilter, record_operation
from dueledger.ledger.store.reviews import take_findings, take_reviews
from dueledger.ledger.store.statements import statement
from dueledger.service.app import ROUTES
from tests.databases import MakeDatabase
from tests.service.conftest import SCHEDULE, Api, open_api

FLYING, ENDED, PARKED, WAITING = 1_100, 2_100, 1_100, 300
"""Items of the other tenant: more than a list reads of its own."""
BATCH = 500
SCOPES = tuple(Scope)
UNLIKE_TEXT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d| UTC)|(run|Operation) \d+"
)
UNLIKE = {
    "id",
    "finding_id",
    "fence",
    "operation_no",
    "prefix",
    "next_cursor",
    "subject",
    "request_id",
}
"""Members that no two ledgers have alike; of these it counts whether there is one."""
RECORDED = 600
"""Operations, keys, audit entries and proposed repairs of the other tenant."""
READ_MAX = 500
NO_FILTERS = "'{acme}'" + ", null" * 11
READS = {
    "list_flow_items": "'{acme}'" + ", null" * 12 + ", 2000, 51, null, null",
    "list_oldest_flow_items": "'{acme}'" + ", null" * 12 + ", 2000, 51, null, null",
    "list_key_items": "'{acme}', null, null, null, 'crowded'"
    + ", null" * 8
    + ", 2000, 51, null, null, false",
    "list_reviews": "51, '{acme}'" + ", null" * 4 + ", true, null",
    "group_reviews": "'{acme}', null, null, 1000, 100, null",
    "list_findings": "true" + ", null" * 4 + ", 51, '{acme}', null, null",
    "list_newest_findings": "true" + ", null" * 4 + ", 51, '{acme}', null, null",
    "count_missing": "'{acme}'" + ", null" * 5 + ", 1000, 51, 100",
    "list_kinds": "'{acme}', 200",
    "list_lanes": "'{acme}', 500",
    "list_own_keys_from": "'{acme}', 'P', 50, 400, 20",
    "list_definition_names": "'{acme}', 500",
    "list_open_items": NO_FILTERS
    + ", false, 1000, 1000, 51, false, null, null, null, false, false",
    "list_operations": "null, 51, '{acme}', null, null, false, null",
    "list_oldest_operations": "51, '{acme}', null, null, false, null",
    "list_keys": "'{acme}', null, null, 51",
    "list_audit": "'{acme}'" + ", null" * 8 + ", 51",
    "list_oldest_audit": "'{acme}'" + ", null" * 8 + ", 51",
    "list_waiting_repairs": "null, null, 51, '{acme}', null, null, null",
    "list_newest_repairs": "null, null, 51, '{acme}', null, null, null",
    "find_undecided_findings": "null, null, null, 51, '{acme}', null, null",
    "find_newest_undecided_findings": "null, null, null, 51, '{acme}', null, null",
    "find_parked_items": "'acme'" + ", null" * 4 + ", 20000, 1000",
    "measure_operations": "'acme', 'cancel', 100",
    "preview_operation": "'cancel', 'acme'"
    + ", null" * 5
    + ", true"
    + ", null" * 4
    + ", 20000, 10000",
}
"""Statements, and their arguments for a key of the one tenant."""
ROWS_READ = (
    "select sum(pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid))"
    " from pg_class c where c.relnamespace = 'ledger'::regnamespace"
)
"""Rows of tables and entries of indexes that a transaction has read, also in functions."""
UNMADE = {"getReport", "getReportPage", "downloadReportFindings", "downloadReportRepairs"}
"""Routes of what a reconciliation records, which neither ledger has."""
QUERIES = {
    "listReviewComments": ["kind=PolicyRenewalDue"],
    "listItems": [
        *("open=true", "state=Running", "state=Scheduled", "state=Completed", "state=Cancelled"),
        *(
            "late=true",
            "in_flight=true",
            "serial=true",
            "blocked=true",
            "business_key=P-0",
            "business_key=crowded",
            "oldest_first=true",
            "label=line=1",
        ),
        *("open=true&business_key=P-3", "attempt_min=1", "worker=key:all-acme"),
        *("tenant=acme&definition=statements", "tenant=umbra&definition=statements"),
    ],
    "getFlow": ["lane=a", "until=2030-01-01T00:00:00Z"],
    "getLoad": ["start=2027-03-01T00:00:00Z&hour=2027-03-01T09:00:00Z"],
    "getOverview": [f"tenant={tenant}&kind=PolicyRenewalDue" for tenant in ("acme", "umbra")],
    "getStatus": ["kind=PolicyRenewalDue", "kind=PolicyRenewalDue&lane=a"],
    "listDefinitions": ["kind=PolicyRenewalDue", "kind=StatementDue"],
    "listExecutions": ["oldest_first=true"],
    "listPauses": ["fell_due=true"],
    "listOperations": ["awaits_approval=true", "oldest_first=true"],
    "listReviews": ["taken=mine", "taken=nobody"],
    "listReviewGroups": ["taken=mine", "taken=nobody"],
    "listUndecidedFindings": ["taken=mine", "taken=nobody", "newest_first=true"],
    "listRepairs": ["taken=mine", "taken=nobody"],
    "listFindings": ["newest_first=true", "effective_date=2026-03-01"],
    "search": ["q=P-3", "q=crowded", "q=nothing"],
    "suggestKeys": ["q=P"],
    "getLateness": ["tenant=acme&kind=PolicyRenewalDue&lane=a"],
}


@dataclass(frozen=True)
class Ledger:
    """A service on a ledger that has what the tenant acme has, and its key and operation."""

    api: Api
    key: NewApiKey
    items: list[UUID]
    operation_no: int
    finding: UUID
    prefix: str


async def fill(api: Api, tenant: str, *counts: int) -> tuple[NewApiKey, list[UUID], int, UUID]:
    """Give a tenant items in flight, ended, parked and waiting, so many each, and the rest."""
    key = await api.make_key(f"all-{tenant}", *SCOPES, tenants=[tenant])
    emitted: list[UUID] = []
    for group, count in zip(("a", "b", "c", "d"), counts, strict=True):
        names = [f"P-{number}" if number else "crowded" for number in range(count)]
        for first in range(0, count, BATCH):
            items = [
                api.item(
                    name,
                    tenant=tenant,
                    lane=group,
                    cycle=group,
                    labels={"line": str(number % 2)},
                    effective_date=f"2027-03-{1 + number % 28:02}",
                    due_at=f"{2096 if group == 'd' else 2026}-01-{1 + number % 28:02}T09:00:00Z",
                )
                for number, name in enumerate(names[first : first + BATCH], start=first)
            ]
            emitted += await api.emit(key, *items)
    flying, ended, parked, _ = counts
    claimed = 0
    while claimed < flying:
        body = {"kinds": ["PolicyRenewalDue"], "lanes": ["a"], "items_max": BATCH}
        answer = await api.ask("POST", "/v1/claims", key=key, body=body)
        assert answer.document["items"]
        claimed += len(answer.document["items"])
    await withdraw_items(
        api.owner,
        emitted[flying : flying + ended],
        event=TransitionEvent.CANCELLED,
        reason="test",
        actor_no=api.person_no,
    )
    await api.park(*emitted[flying + ended : flying + ended + parked])
    await api.define(tenant, "statements", SCHEDULE)
    await api.put_calendar(tenant, "statements")
    found = sorted(await api.find(tenant, parked))
    await api.propose(found[0], api.person_no)
    conflicts = sorted(await api.find(tenant, parked))
    await api.owner.execute(
        "update ledger.finding set type = 'OUTCOME_CONFLICT',"
        " first_seen_at = first_seen_at + interval '1 hour' where id = any ($1)",
        conflicts,
    )
    own = "select actor_no from ledger.api_key where prefix = $1"
    own_no = await api.owner.fetchval(own, key.prefix)
    await take_findings(api.owner, [found[0], conflicts[0]], actor_no=own_no)
    await take_reviews(api.owner, emitted[flying + ended :][:2], actor_no=own_no)
    operation_no = await record_operation(
        api.owner,
        OperationVerb.CANCEL,
        ItemFilter(tenant, lane="d"),
        reason="test",
        actor_no=api.person_no,
    )
    assert operation_no is not None
    await pause_flows(
        api.owner, FlowScope(tenant, kind="Other"), reason="test", actor_no=api.person_no
    )
    await record_audit(api.owner, api.person_no, "pauseFlows", [AuditTarget("flows", [tenant])])
    return key, emitted, operation_no, found[0]


async def record_more(api: Api, finding: UUID) -> None:
    """Give the other tenant operations, keys and repairs, all before those of the one."""
    await api.owner.execute(
        "insert into ledger.operation (verb, tenant, in_flight, as_of, item_no_max, matched,"
        " matched_capped, actor_no, reason, ended_at)"
        " select 'cancel', 'umbra', false, now(), 1, 1, false, $1, 'test', now()"
        " from generate_series(1, $2)",
        api.person_no,
        RECORDED,
    )
    await api.owner.execute(
        "insert into ledger.api_key (prefix, secret_digest, actor_no, scopes, created_by)"
        " select n::text, sha256('1'), (select a.actor_no from ledger.actor a"
        "  where a.name = 'key:all-umbra'), array['read'], $1 from generate_series(1, $2) n",
        api.person_no,
        RECORDED,
    )
    await api.owner.execute(
        "insert into ledger.audit (actor_no, operation, target, tenants)"
        " select $1, 'pauseFlows', n::text, array['umbra', 'acme'] from generate_series(1, $2) n",
        api.person_no,
        RECORDED,
    )
    await api.owner.execute(
        "insert into ledger.repair (id, finding_id, action, opened_count, status, proposed_at,"
        " proposed_by, command) select gen_random_uuid(), $3, 'materialise', 1, 'proposed',"
        " now(), $1, '{}' from generate_series(1, $2)",
        api.person_no,
        RECORDED,
        finding,
    )


@pytest.fixture(scope="module")
async def ledgers(make_database: MakeDatabase) -> AsyncGenerator[list[Ledger]]:
    """Two that have the same of the tenant acme; the second one has much of another, too."""
    made: list[Ledger] = []
    async with AsyncExitStack() as exits:
        for is_crowded in (False, True):
            api = await exits.enter_async_context(
                open_api(make_database, service_body_bytes_max=1024 * 1024)
            )
            if is_crowded:
                _, _, _, finding = await fill(api, "umbra", FLYING, ENDED, PARKED, WAITING)
                await record_more(api, finding)
            key, items, operation_no, finding = await fill(api, "acme", 3, 3, 3, 4)
            prefix = (await api.make_key("spare", Scope.READ)).prefix
            made.append(Ledger(api, key, items, operation_no, finding, prefix))
        yield made


def alike(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return an answer without what differs between any two ledgers."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {
                name: member is not None if name in UNLIKE else alike(member)
                for name, member in members.items()
            }
        case list():
            return [alike(each) for each in cast("list[Any]", value)]
        case str():
            return UNLIKE_TEXT.sub("…", value)
        case _:
            return value


def requests(ledger: Ledger) -> list[tuple[str, str]]:
    """Return the routes that read, by name and path, with queries."""
    named = {
        "tenant": "acme",
        "name": "statements",
        "kind": "PolicyRenewalDue",
        "operation": ledger.operation_no,
        "finding": ledger.finding,
        "prefix": ledger.prefix,
        "topic": "due.PolicyRenewalDue",
        "number": 1,
    }
    asked: list[tuple[str, str]] = []
    for route in ROUTES:
        if not isinstance(route, APIRoute) or not route.path.startswith("/v1"):
            continue
        if "GET" not in (route.methods or ()):
            continue
        name = route.operation_id or ""
        for item in ledger.items if "{item}" in route.path else [None]:
            path = route.path.format(item=item, **named)
            takes_limit = any(each.name == "limit" for each in route.dependant.query_params) or any(
                each.name == "limit"
                for inner in route.dependant.dependencies
                for each in inner.query_params
            )
            queries = ["", *(["limit=2"] if takes_limit else []), *QUERIES.get(name, [])]
            asked += [(name, f"{path}?{query}" if query else path) for query in queries]
    return asked


async def pages(ledger: Ledger, path: str) -> list[Any]:
    """Return what all pages of a list say, or the one answer."""
    found: list[Any] = []
    cursor: str | None = ""
    while cursor is not None and len(found) < 50:
        answer = await ledger.api.ask("GET", path + cursor, key=ledger.key)
        found.append((answer.status, alike(answer.document), answer.headers.get("ETag")))
        following = answer.document.get("next_cursor")
        cursor = following and f"{'&' if '?' in path else '?'}cursor={following}"
    return found


async def test_an_answer_is_the_same_without_the_other_tenant(ledgers: list[Ledger]) -> None:
    alone, beside = ledgers
    differing: dict[str, Any] = {}
    answered: dict[str, set[int]] = {}
    for (name, path), (_, path_beside) in zip(requests(alone), requests(beside), strict=True):
        one, other = await pages(alone, path), await pages(beside, path_beside)
        answered.setdefault(name, set()).add(one[0][0])
        if one != other:
            differing[f"{name} {path}"] = (one, other)
    assert differing == {}
    assert {name for name, statuses in answered.items() if 200 not in statuses} == UNMADE


@pytest.mark.parametrize("verb", ["trigger", "redrive", "cancel"])
async def test_a_preview_is_the_same_without_the_other_tenant(
    ledgers: list[Ledger], verb: str
) -> None:
    answers = [
        await each.api.ask(
            "POST",
            "/v1/tenants/acme/operations/preview",
            key=each.key,
            body={"verb": verb},
        )
        for each in ledgers
    ]
    assert {each.status for each in answers} == {200}
    assert alike(answers[0].document) == alike(answers[1].document)


@pytest.mark.parametrize("name", READS)
async def test_a_list_reads_nothing_of_the_other_tenant(ledgers: list[Ledger], name: str) -> None:
    _, beside = ledgers
    owner = beside.api.owner
    await owner.execute(f"prepare {name} as {statement(name)}")  # its plan is for any tenant
    async with owner.transaction():
        before = await owner.fetchval(ROWS_READ)
        await owner.execute(f"execute {name} ({READS[name]})")
        assert 0 < await owner.fetchval(ROWS_READ) - before <= READ_MAX
