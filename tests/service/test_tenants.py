"""Each route × each scope × another tenant, from the app's own routes."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from fastapi.routing import APIRoute

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.statements import parse_statement, statement_paths
from dueledger.service.app import ROUTES
from dueledger.service.calls import CallRoute
from tests.service.conftest import Answer, Api
from tests.service.test_requests import problem
from tests.sql.statement_callers import statements_of_routes


class Walked(NamedTuple):
    """A route, by one of its methods."""

    route: CallRoute
    method: str

    def __str__(self) -> str:
        return f"{self.method} {self.route.path}"


def walked() -> Iterator[Walked]:
    for route in ROUTES:
        if isinstance(route, CallRoute):
            for method in sorted(route.methods or ()):
                yield Walked(route, method)


ALL = list(walked())
OPEN = {"/health/live", "/health/ready", "/metrics", "/problems"}
UNBOUND = {
    "emit_by_key": "ledger.emitting_actor refuses tenants that are not the key's",
    "find_blockers": "of an item that show_item found for the tenants",
    "find_handed_out": "of an item that show_item found for the tenants",
    "find_operation_of_item": "of an item that show_item found for the tenants",
    "read_roles": "counts processes, which work for all tenants",
}
"""Statements of routes without a parameter for tenants, and why they need none."""


def test_each_route_has_a_scope_or_is_open_by_intent() -> None:
    assert len(ALL) >= 4
    others = [route for route in ROUTES if not isinstance(route, CallRoute)]
    assert {route.path for route in others if isinstance(route, APIRoute)} == OPEN
    assert len(others) == len(OPEN)


def test_each_statement_that_a_route_reaches_takes_the_callers_tenants() -> None:
    parameters = {
        path.stem: {each.name for each in parse_statement(path).parameters}
        for path in statement_paths()
    }
    reached = set[str]().union(*(statements for _, statements in statements_of_routes()))
    assert {name for name in reached if "tenants" not in parameters[name]} == UNBOUND.keys()


@pytest.fixture(scope="module")
async def keys(api: Api) -> dict[Scope, NewApiKey]:
    """A key of the tenant acme for each scope."""
    return {scope: await api.make_key(f"only-{scope}", scope) for scope in Scope}


async def ask(api: Api, each: Walked, key: NewApiKey, tenant: str, item: str) -> Answer:
    path = each.route.path.format(item=item)
    body = {"items": [api.item("P-walk", tenant=tenant)]} if each.method == "POST" else None
    return await api.ask(each.method, path, key=key, body=body)


@pytest.mark.parametrize("each", ALL, ids=str)
async def test_a_key_reaches_the_routes_of_its_scopes_alone(
    api: Api, key: NewApiKey, keys: dict[Scope, NewApiKey], each: Walked
) -> None:
    [item] = await api.emit(key, api.item("P-own"))
    for scope in Scope:
        answer = await ask(api, each, keys[scope], "acme", str(item))
        if scope is each.route.scope:
            assert answer.status == 200, answer.text
        else:
            problem(answer, 403, "NOT_PERMITTED")


@pytest.mark.parametrize("each", ALL, ids=str)
async def test_a_key_neither_sees_nor_touches_another_tenant(
    api: Api, keys: dict[Scope, NewApiKey], each: Walked
) -> None:
    everybody = await api.make_key("everybody", Scope.EMIT, tenants=None)
    [item] = await api.emit(everybody, api.item("P-secret", tenant="umbra"))
    answer = await ask(api, each, keys[each.route.scope], "umbra", str(item))
    assert answer.status in {403, 404}
    assert "P-secret" not in answer.text
    emitted = await api.owner.fetchval(
        "select count(*) from ledger.due_item i join ledger.flow f using (flow_no)"
        " join ledger.kind k using (kind_no)"
        " where k.tenant = 'umbra' and i.business_key = 'P-walk'"
    )
    assert emitted == 0


async def test_the_database_refuses_another_tenant_if_the_service_does_not(
    api: Api, keys: dict[Scope, NewApiKey]
) -> None:
    """Of a member that is given twice, readers of JSON take one or the other."""
    text = (
        '{"items": [{"tenant": "umbra", "kind": "Kind1", "business_key": "P-twice",'
        ' "effective_date": "2027-03-01", "due_at": "2026-01-01T09:00:00Z"}],'
        ' "items": [{"tenant": "acme", "kind": "Kind1", "business_key": "P-twice",'
        ' "effective_date": "2027-03-01", "due_at": "2026-01-01T09:00:00Z"}]}'
    )
    await api.ask("POST", "/v1/items", key=keys[Scope.EMIT], text=text)
    tenants = await api.owner.fetch(
        "select k.tenant from ledger.due_item i join ledger.flow f using (flow_no)"
        " join ledger.kind k using (kind_no) where i.business_key = 'P-twice'"
    )
    assert {row["tenant"] for row in tenants} <= {"acme"}
