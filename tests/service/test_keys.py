"""A request needs a valid key; what it writes is in the key's name."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from dueledger.ledger.errors import TooManyAttempts
from dueledger.ledger.store.api_keys import (
    NewApiKey,
    Scope,
    authenticate,
    expire_key,
    revoke_key,
)
from dueledger.service.attempts import ADDRESSES_MAX, FAILURES_MAX, WINDOW_SECONDS, FailedAttempts
from tests.service.conftest import Api
from tests.service.test_requests import NO_ITEM, problem


async def test_without_a_valid_key_nothing_is_answered(api: Api, key: NewApiKey) -> None:
    other = key.text[:-1] + ("A" if key.text[-1] != "A" else "B")
    for given in (None, "nonsense", "due_0011223344556677_" + "x" * 43, other):
        answer = await api.ask("GET", NO_ITEM, key=given)
        problem(answer, 401, "KEY_MISSING")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_revoked_and_an_expired_key_are_refused(api: Api) -> None:
    revoked, expired = [await api.make_key(name, Scope.READ) for name in ("left", "old")]
    for each in (revoked, expired):
        problem(await api.ask("GET", NO_ITEM, key=each), 404, "NOT_FOUND")
    assert await revoke_key(api.owner, revoked.prefix, revoked_by=api.person_no)
    assert await expire_key(api.owner, expired.prefix, timedelta(0))
    for each in (revoked, expired):
        problem(await api.ask("GET", NO_ITEM, key=each), 401, "KEY_MISSING")


async def test_both_keys_are_valid_while_one_replaces_the_other_and_are_one_actor(api: Api) -> None:
    first = await api.make_key("rotated", Scope.EMIT)
    rights = await expire_key(api.owner, first.prefix, timedelta(hours=1))
    assert rights is not None
    second = await api.make_key("rotated", *map(Scope, rights.scopes), tenants=rights.tenants)
    ids = [
        *await api.emit(first, api.item("P-first")),
        *await api.emit(second, api.item("P-second")),
    ]
    actors = await api.owner.fetch(
        "select a.name from ledger.due_item i join ledger.actor a using (actor_no)"
        " where i.id = any ($1::uuid[])",
        ids,
    )
    assert [row["name"] for row in actors] == ["key:rotated"] * 2


async def test_the_database_has_no_key_and_knows_when_it_was_used(api: Api) -> None:
    made = await api.make_key("fresh", Scope.READ)
    read = "select row(k)::text as row, k.last_used_at from ledger.api_key k where prefix = $1"
    before = await api.owner.fetchrow(read, made.prefix)
    assert before is not None
    assert before["last_used_at"] is None
    assert made.text not in before["row"]
    await api.ask("GET", NO_ITEM, key=made)
    after = await api.owner.fetchrow(read, made.prefix)
    assert after is not None
    assert after["last_used_at"] is not None


async def test_a_name_is_for_the_same_tenants_whoever_makes_its_next_key(api: Api) -> None:
    await api.make_key("narrow", Scope.READ, tenants=["acme"])
    with pytest.raises(AssertionError):
        await api.make_key("narrow", Scope.READ, tenants=None)


async def test_an_administrator_gives_rights_for_its_own_tenants_alone(api: Api) -> None:
    admin = await api.make_key("admin", Scope.ADMIN)
    body = {"name": "hired", "scopes": ["read"], "tenants": ["acme"]}
    made = await api.ask("POST", "/v1/keys", key=admin, body=body)
    assert made.status == 201, made.text
    problem(await api.ask("GET", NO_ITEM, key=made.document["key"]), 404, "NOT_FOUND")
    for tenants, pointer in ((None, "/tenants"), (["acme", "umbra"], "/tenants/1")):
        refused = await api.ask("POST", "/v1/keys", key=admin, body={**body, "tenants": tenants})
        found = problem(refused, 403, "NOT_PERMITTED")
        assert [each.pointer for each in found.errors] == [pointer]
    listed = await api.ask("GET", "/v1/keys?name=acme/hired", key=admin)
    assert [each["created_by"] for each in listed.document["items"]] == ["key:admin"]
    prefix = made.document["prefix"]
    rotated = await api.ask(
        "POST", f"/v1/keys/{prefix}/rotate", key=admin, body={"overlap_hours": 0}
    )
    problem(await api.ask("GET", NO_ITEM, key=made.document["key"]), 401, "KEY_MISSING")
    again = await api.ask("POST", f"/v1/keys/{prefix}/rotate", key=admin, body={})
    problem(again, 404, "NOT_FOUND")
    revoke = f"/v1/keys/{rotated.document['prefix']}/revoke"
    assert (await api.ask("POST", revoke, key=admin)).status == 200
    problem(await api.ask("GET", NO_ITEM, key=rotated.document["key"]), 401, "KEY_MISSING")
    everybody = await api.make_key("owner-of-all", Scope.READ, tenants=None)
    problem(
        await api.ask("POST", f"/v1/keys/{everybody.prefix}/revoke", key=admin), 404, "NOT_FOUND"
    )


async def test_names_of_keys_are_each_administrators_own(api: Api) -> None:
    """By a name that is taken, a key would learn of keys of others, and could take theirs."""
    await api.make_key("invoices", Scope.READ, tenants=["umbra"])
    for tenants in (["acme"], ["umbra"], ["acme", "umbra"]):
        admin = await api.make_key(
            f"admin-{len(tenants)}-{tenants[0]}", Scope.ADMIN, tenants=tenants
        )
        body = {"name": "invoices", "scopes": ["read"], "tenants": tenants}
        for _ in range(2):
            made = await api.ask("POST", "/v1/keys", key=admin, body=body)
            assert made.status == 201, made.text
        name = f"{'+'.join(tenants)}/invoices"
        listed = await api.ask("GET", f"/v1/keys?name={name.replace('+', '%2B')}", key=admin)
        assert {each["name"] for each in listed.document["items"]} == {name}


async def test_an_emission_under_the_role_of_an_emitter_is_in_no_other_name(api: Api) -> None:
    """Each login can set the setting; it counts only for the login of a service."""
    async with api.owner.transaction():
        await api.owner.execute(
            "set session authorization test_emitter;"
            " select set_config('ledger.key_name', 'key:billing', true)"
        )
        assert await api.owner.fetchval("select ledger.emitter_name()") == "service:test_emitter"
        await api.owner.execute("select set_config('ledger.token_tenants', '{*}', true)")
        assert await api.owner.fetchval("select ledger.token_has_tenant('acme')") is False
        await api.owner.execute("set session authorization test_service")
        assert await api.owner.fetchval("select ledger.emitter_name()") == "key:billing"
        await api.owner.execute("select set_config('ledger.key_name', 'person:jane', true)")
        assert await api.owner.fetchval("select ledger.emitter_name()") == "service:test_service"
        await api.owner.execute("reset session authorization")


async def test_an_address_with_many_wrong_keys_has_them_compared_one_at_a_time() -> None:
    now = 0.0
    attempts = FailedAttempts(lambda: now)
    for _ in range(FAILURES_MAX):
        async with attempts.turn("203.0.113.7"), attempts.turn("203.0.113.7"):
            attempts.count("203.0.113.7")
    with pytest.raises(TooManyAttempts) as refused:
        attempts.count("203.0.113.7")
    assert refused.value.seconds == WINDOW_SECONDS
    async with AsyncExitStack() as later:
        async with attempts.turn("203.0.113.7"), attempts.turn("203.0.113.8"):
            second = asyncio.create_task(later.enter_async_context(attempts.turn("203.0.113.7")))
            await asyncio.sleep(0)
            assert not second.done()
        await second
    now = WINDOW_SECONDS
    async with attempts.turn("203.0.113.7"), attempts.turn("203.0.113.7"):
        attempts.count("203.0.113.7")


def test_addresses_of_one_ipv6_network_are_one_and_the_count_of_addresses_is_bounded() -> None:
    attempts = FailedAttempts(lambda: 0.0)
    for host in range(FAILURES_MAX):
        attempts.count(f"2001:db8:0:1::{host:x}")
    with pytest.raises(TooManyAttempts):
        attempts.count("2001:db8:0:1:ffff::1")
    attempts.count("2001:db8:0:2::1")
    for number in range(ADDRESSES_MAX):
        attempts.count(f"10.0.{number // 256}.{number % 256}")
    attempts.count("2001:db8:0:1:ffff::1")  # forgotten


async def test_a_key_is_compared_in_constant_time_whether_there_is_one_of_its_prefix_or_not(
    api: Api, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hmac.compare_digest says decides, of two digests of one length."""
    compared: list[tuple[int, int]] = []
    says = True

    def compare(given: bytes, kept: bytes) -> bool:
        compared.append((len(given), len(kept)))
        return says

    wrong = key.text[:-1] + ("A" if key.text[-1] != "A" else "B")
    unknown = "due_0011223344556677_" + "x" * 43
    monkeypatch.setattr("dueledger.ledger.store.api_keys.hmac.compare_digest", compare)
    found = await authenticate(api.owner, wrong)
    assert found is not None
    assert found.name == "key:billing"
    assert await authenticate(api.owner, unknown) is None
    says = False
    assert await authenticate(api.owner, key.text) is None
    assert compared == [(32, 32)] * 3
