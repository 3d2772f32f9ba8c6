"""Redaction stays unless somebody who may approve says which fields are shown again."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import orjson
import pytest

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import SCHEDULE, Answer, Api

FIELDS = ["/customer/ssn", "/iban"]


@pytest.fixture(scope="module")
async def operator(api: Api) -> NewApiKey:
    return await api.make_key("operator", Scope.READ, Scope.OPERATE)


@pytest.fixture(scope="module")
async def approver(api: Api) -> NewApiKey:
    return await api.make_key("operator-2", Scope.READ, Scope.OPERATE, Scope.APPROVE)


@pytest.fixture
async def name(api: Api) -> str:
    """A schedule, of a kind of its own, that redacts fields."""
    name = f"Redacting{uuid4().hex[:8]}"
    await api.define("acme", name, document(name, FIELDS))
    return name


def document(name: str, fields: list[str] | None = None, **others: object) -> dict[str, object]:
    said = {} if fields is None else {"redacted_fields": fields}
    return {**SCHEDULE, "kind": name, **said, **others}


async def redacted(api: Api, name: str) -> list[str]:
    return await api.owner.fetchval(
        "select redacted_fields from ledger.kind where tenant = 'acme' and name = $1", name
    )


async def put(
    api: Api, key: NewApiKey, name: str, body: dict[str, object], end: str = ""
) -> Answer:
    method = "POST" if end else "PUT"
    path = f"/v1/definitions/acme/{name}"
    exists = (await api.ask("GET", path, key=key)).status == 200
    match = {"If-Match": "*"} if exists else {}
    return await api.ask(method, path + end, key=key, body=body, headers=match)


@asynccontextmanager
async def signed_in(api: Api, key: NewApiKey) -> AsyncGenerator[Browser]:
    async with open_browser(api) as browser:
        await browser.sign_in(key)
        yield browser


async def test_a_document_that_does_not_say_them_keeps_them(
    api: Api, operator: NewApiKey, approver: NewApiKey, name: str
) -> None:
    changed = document(name, when={"cron": "0 8 1 * *", "timezone": "UTC"})
    note = f"acme/{name}: redacted fields stay: /customer/ssn, /iban"
    shown = await put(api, operator, name, changed, "/preview")
    assert (note in shown.document["notes"], shown.document["diff"]["fields"]) == (True, ["when"])
    for key in (operator, approver):
        assert (await put(api, key, name, changed)).status == 200
        assert await redacted(api, name) == FIELDS
    read = await api.ask("GET", f"/v1/definitions/acme/{name}", key=operator)
    assert read.document["document"]["redacted_fields"] == FIELDS
    again = await put(api, operator, name, read.document["document"])
    assert (again.status, again.document["changed"]) == (200, False)


async def test_another_definition_of_the_kind_has_them_too(
    api: Api, operator: NewApiKey, name: str
) -> None:
    other = f"{name}-2"
    body = document(name, business_key=other)
    assert (await put(api, operator, other, body)).status == 200
    read = await api.ask("GET", f"/v1/definitions/acme/{other}", key=operator)
    assert read.document["document"]["redacted_fields"] == FIELDS
    assert await redacted(api, name) == FIELDS


@pytest.mark.parametrize("fields", [[], ["/iban"], ["/customer/ssn/0", "/iban"]])
async def test_only_who_may_approve_drops_them_and_sees_which(
    api: Api, operator: NewApiKey, approver: NewApiKey, name: str, fields: list[str]
) -> None:
    for end in ("", "/preview"):
        refused = await put(api, operator, name, document(name, fields), end)
        assert (refused.status, refused.document["code"]) == (403, "NOT_PERMITTED")
        assert f"The kind acme/{name} would no longer redact /cust" in refused.document["detail"]
        assert "needs the scope approve" in refused.document["detail"]
    assert await redacted(api, name) == FIELDS
    note = f"acme/{name}: no longer redacted, of items of the past, too: /customer/ssn"
    shown = await put(api, approver, name, document(name, fields), "/preview")
    assert any(each.startswith(note) for each in shown.document["notes"])
    assert await redacted(api, name) == FIELDS
    assert (await put(api, approver, name, document(name, fields))).status == 200
    assert await redacted(api, name) == fields


async def test_who_may_operate_adds_and_widens_them(
    api: Api, operator: NewApiKey, name: str
) -> None:
    for fields in (["/iban", *FIELDS[:1], "/new"], ["/customer", "/*"], [""]):
        assert (await put(api, operator, name, document(name, fields))).status == 200
        assert await redacted(api, name) == fields


async def test_the_editor_keeps_them_and_refuses_to_drop_them(
    api: Api, operator: NewApiKey, approver: NewApiKey, name: str
) -> None:
    def text(fields: list[str] | None, **others: object) -> str:
        named = {"tenant": "acme", "definition": name}
        return orjson.dumps({**named, **document(name, fields, **others)}).decode()

    async with signed_in(api, operator) as browser:
        page = await browser.open(f"/console/schedules/acme/{name}/edit")
        assert "/customer/ssn" in page.text
        silent = {"text": text(None, labels={"a": "b"}), "base_version": "1"}
        shown = await browser.send("/console/schedules/preview", silent)
        assert "redacted fields stay: /customer/ssn, /iban" in shown.text
        assert (await browser.send("/console/schedules/define", silent)).status == 303
        assert await redacted(api, name) == FIELDS
        fewer = {"text": text([]), "base_version": "2"}
        shown = await browser.send("/console/schedules/preview", fewer)
        assert "needs the scope approve" in shown.text
        assert (await browser.send("/console/schedules/define", fewer)).status == 403
    assert await redacted(api, name) == FIELDS
    async with signed_in(api, approver) as browser:
        assert (await browser.send("/console/schedules/define", fewer)).status == 303
    assert await redacted(api, name) == []


async def test_an_import_keeps_them_and_says_so(api: Api, operator: NewApiKey) -> None:
    kind = f"Imported{uuid4().hex[:8]}"
    await api.define("acme", kind, {"kind": kind, "redacted_fields": FIELDS})
    given = {"text": "0 5 * * * /usr/bin/true", "kind": kind, "tenant": "acme"}
    async with signed_in(api, operator) as browser:
        shown = await browser.send("/console/schedules/import", given)
        assert f"acme/{kind}: redacted fields stay: /customer/ssn, /iban" in shown.text
        done = await browser.send("/console/schedules/import/define", given)
        assert done.status == 303, done.text
    assert await redacted(api, kind) == FIELDS
    documents = await api.owner.fetch(
        "select document from ledger.definition where tenant = 'acme' and kind = $1", kind
    )
    assert [each["document"]["redacted_fields"] for each in documents] == [FIELDS, FIELDS]
