"""What a kind redacts is in no answer, page, download or output of a command; claims are whole."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import orjson
import pytest

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import RevisionResult, emit_items, revise_items
from dueledger.ledger.store.statements import statement_paths
from tests.console.conftest import Browser
from tests.console.test_pages import ROUTES
from tests.forks import ForkServer
from tests.service.commands import start
from tests.service.conftest import SCHEDULE, Api
from tests.service.test_tenants import ALL, Place, ask, place_of

SECRET: Final = "123-45-6789"  # noqa: S105 - what no answer has
FIELDS: Final = ["/customer/ssn", "/contacts/*/email", "/absent"]
PAYLOAD: Final = {"customer": {"ssn": SECRET, "name": "Jane"}, "contacts": [{"email": SECRET}]}
SHOWN: Final = {
    "customer": {"ssn": "[redacted]", "name": "Jane"},
    "contacts": [{"email": "[redacted]"}],
}
POLICY: Final[dict[str, object]] = {"dispatch": {"direct": {}}, "redacted_fields": FIELDS}
WHOLE: Final = {
    *("claim_and_start_items", "claim_few_items", "claim_serial_items"),
    *("copy_item_columns", "list_item_terms", "list_outcomes_of_items"),
}
"""Statements that claim payloads, or compare them."""
_PAYLOAD = re.compile(r"^(?!--).*payload", re.MULTILINE)


@pytest.fixture(scope="module")
async def places(api: Api, key: NewApiKey) -> Sequence[Place]:
    """Items with the secret: one that waits, one that was revised, and one skipped by a version.

    A parked one, findings, an error, a reason and evidence have it, too.
    """
    for kind in ("PolicyRenewalDue", "LetterDue"):
        await api.define("acme", kind, {"kind": kind, **POLICY})
    for labels in ({}, {"version": "2"}):
        await api.define("acme", "statements", {**SCHEDULE, **POLICY, "labels": labels})
    items = await api.emit(key, *(api.item(name, payload=PAYLOAD) for name in ("P-1", "P-2")))
    await api.park(items[1])
    spare = [await api.make_key("spare", Scope.READ) for _ in range(2)]
    place = await place_of(api, "acme", items, *(each.prefix for each in spare))
    terms = {"payload": orjson.dumps(PAYLOAD).decode()}
    await api.owner.execute(
        "update ledger.finding set expected = $1, actual = $1, terms = $1, item_id = $2",
        terms,
        items[0],
    )
    first, second = await api.owner.fetchval(
        "select array_agg(definition_no order by version) from ledger.definition"
        " where tenant = 'acme' and name = 'statements'"
    )
    now = await read_now(api.owner)
    draft = ItemDraft(
        tenant="acme",
        kind="StatementDue",
        business_key="statements",
        cycle="",
        effective_date=now.date(),
        due_at=now + timedelta(days=1),
        payload=terms["payload"],
    )
    drafts = [replace(draft, cycle=cycle) for cycle in ("revised", "skipped")]
    await emit_items(api.owner, drafts, actor_no=api.person_no, definition_no=first)
    revised = await revise_items(
        api.owner,
        [replace(each, payload="{}") for each in drafts],
        definition_nos=[second, second],
        since=[now, now],
        reason="version",
        actor_no=api.person_no,
        skip_reasons=[None, "catch-up"],
    )
    assert revised == [RevisionResult.REVISED, RevisionResult.REVISED]
    failed = await failed_item(api, key)
    return [place, *(replace(place, item=each) for each in (*(str(d.id) for d in drafts), failed))]


async def failed_item(api: Api, key: NewApiKey) -> str:
    """Return an item that was parked after an error; this and evidence of another quote it."""
    named = {"business_key": "quoting", "kind": "Quoting"}
    await api.define("acme", "quoting", {**SCHEDULE, **named, **POLICY})
    quoting = f"invalid literal for int(): '{SECRET}'"
    items = [api.item(name, kind="Quoting", payload=PAYLOAD) for name in ("Q-1", "Q-2")]
    await api.emit(key, *items)
    asked = {"kinds": ["Quoting"], "items_max": 2}
    given = (await api.ask("POST", "/v1/claims", key=key, body=asked)).document
    said = (
        {"verdict": "park", "reason": "bad number"},
        {"verdict": "completed", "evidence": {"body": {"said": [quoting]}}},
    )
    reports = [
        {name: each[name] for name in ("item", "fence", "token", "position")} | verdict
        for each, verdict in zip(given["items"], said, strict=True)
    ]
    answer = await api.ask("POST", "/v1/outcomes", key=key, body={"outcomes": reports})
    assert {each["result"] for each in answer.document["outcomes"]} == {"recorded"}, answer
    changed = await api.owner.execute(
        "update ledger.transition set detail = $1 where detail ->> 'reason' = 'bad number'",
        {"error": "ValueError", "message": quoting},
    )
    assert changed == "UPDATE 1"
    return str(given["items"][0]["item"])


async def test_no_answer_has_what_a_kind_redacts(
    api: Api, key: NewApiKey, places: Sequence[Place]
) -> None:
    redacting = set[str]()
    for each in ALL:
        for place in places:
            answer = await ask(api, each, key.text, place)
            assert SECRET not in answer.text, each
            if "[redacted]" in answer.text:
                redacting.add(each.route.operation_id or "")
    assert redacting == {
        *("getItem", "getItemTimeline", "listExecutions", "listReviews"),
        *("listFindings", "getFinding"),
    }


async def test_an_item_says_which_of_its_fields_are_redacted(
    api: Api, key: NewApiKey, places: Sequence[Place]
) -> None:
    item = (await api.ask("GET", f"/v1/items/{places[0].item}", key=key)).document
    assert item["payload"] == SHOWN
    assert item["redacted_fields"] == FIELDS[:2]
    reviews = (await api.ask("GET", "/v1/reviews?kind=PolicyRenewalDue", key=key)).document
    assert [each["redacted_fields"] for each in reviews["items"]] == [FIELDS[:2]]
    [plain] = await api.emit(key, api.item("P-3", kind="Plain", payload=PAYLOAD))
    other = (await api.ask("GET", f"/v1/items/{plain}", key=key)).document
    assert (other["payload"], other["redacted_fields"]) == (PAYLOAD, [])


async def test_findings_that_are_listed_by_their_item_are_redacted(
    api: Api, key: NewApiKey, places: Sequence[Place]
) -> None:
    path = f"/v1/findings?item={places[0].item}&closed=true"
    answer = await api.ask("GET", path, key=key)
    assert answer.document["items"]
    assert SECRET not in answer.text
    assert "[redacted]" in answer.text


async def test_a_finding_says_that_it_differs_though_what_differs_is_redacted(
    api: Api, key: NewApiKey, browser: Browser, places: Sequence[Place]
) -> None:
    assert places
    [finding] = await api.find("acme")
    sides = [{"payload": orjson.dumps({"customer": {"ssn": each}}).decode()} for each in "12"]
    await api.owner.execute(
        "update ledger.finding set expected = $1, actual = $2 where id = $3", *sides, finding
    )
    found = (await api.ask("GET", f"/v1/findings/{finding}", key=key)).document
    hidden = {"payload": '{"customer":{"ssn":"[redacted]"}}'}
    assert (found["expected"], found["actual"]) == (hidden, hidden)
    assert found["differing"] == ["payload"]
    path = f"/console/reconciliation/findings/{finding}"
    assert 'class="differs"><th scope="row">payload' in (await browser.open(path)).text
    for form, said in (("csv", "payload,"), ("json", '"differs":true')):
        params = {"format": form, "table": "evidence_list"}
        text = (await browser.open(path, params=params)).text
        assert said in text.replace(": ", ":"), text
        assert "rue" in text, text


async def test_a_claim_has_the_payload_whole(api: Api, key: NewApiKey) -> None:
    await api.define("acme", "Claimed", {"kind": "Claimed", **POLICY})
    await api.emit(key, api.item("C-1", kind="Claimed", payload=PAYLOAD))
    claimed = await api.ask("POST", "/v1/claims", key=key, body={"kinds": ["Claimed"]})
    assert [each["payload"] for each in claimed.document["items"]] == [PAYLOAD]


async def test_no_page_has_what_a_kind_redacts(browser: Browser, places: Sequence[Place]) -> None:
    for place in places:
        named: dict[str, Any] = {"fact": "late", **{n: getattr(place, n) for n in place.__slots__}}
        for route in ROUTES:
            if "GET" in (route.methods or ()):
                for form in ("html", "csv", "json"):
                    path = "/console" + route.path.format(**named)
                    page = await browser.open(path, params={"format": form})
                    assert SECRET not in page.text, (path, form)
        for text in (place.item, "P-1", "statements"):
            page = await browser.open("/console/search", params={"q": text})
            assert SECRET not in page.text
    page = await browser.open(f"/console/items/{places[0].item}")
    assert "Payload, redacted</summary>" in page.text
    assert "<code>/customer/ssn</code>, <code>/contacts/*/email</code>." in page.text
    assert "Jane" in page.text


async def test_a_reason_to_park_is_shown_without_what_it_quotes(
    api: Api, key: NewApiKey, browser: Browser
) -> None:
    await api.define("acme", "Parking", {"kind": "Parking", **POLICY})
    [item] = await api.emit(key, api.item("K-1", kind="Parking", payload=PAYLOAD))
    claims = await api.ask("POST", "/v1/claims", key=key, body={"kinds": ["Parking"]})
    [given] = claims.document["items"]
    report = {name: given[name] for name in ("item", "fence", "token", "position")}
    report |= {"verdict": "park", "reason": f"bad number {SECRET}"}
    await api.ask("POST", "/v1/outcomes", key=key, body={"outcomes": [report]})
    for path in (f"/v1/items/{item}", f"/v1/items/{item}/timeline", "/v1/reviews?kind=Parking"):
        answer = await api.ask("GET", path, key=key)
        assert "bad number [redacted]" in answer.text, path
        assert SECRET not in answer.text, path
    for path in (f"/console/items/{item}", "/console/reviews/parked?kind=Parking"):
        page = (await browser.open(path)).text
        assert ("bad number [redacted]" in page, SECRET in page) == (True, False), path
    decided = {"verb": "write_off", "reason": "INC-1", "ids": [str(item)]}
    answer = await api.ask("POST", "/v1/tenants/acme/decisions", key=key, body=decided)
    assert answer.status == 200, answer.text


async def test_the_live_stream_has_nothing_of_an_item(
    api: Api, key: NewApiKey, browser: Browser, places: Sequence[Place]
) -> None:
    assert places
    reply = await browser.session.get(f"{api.service.url}/console/live")
    await api.emit(key, api.item("P-live", payload=PAYLOAD))
    await api.owner.execute("select pg_stat_force_next_flush()")
    received = ""
    while "due_item" not in received:
        received += (await reply.content.readline()).decode()
    reply.close()
    assert SECRET not in received
    assert "P-live" not in received


@pytest.mark.long
async def test_no_command_prints_what_a_kind_redacts(
    api: Api, places: Sequence[Place], fork_server: ForkServer, tmp_path: Path
) -> None:
    place, report = places[0], tmp_path / "report"
    commands: list[tuple[str, ...]] = [
        *(("show", each.item) for each in places),
        *(("why", each.item) for each in places),
        *(("items",), ("reviews",), ("findings", "--all"), ("finding", "show", place.finding)),
        *(("repair", "list"), ("audit",), ("definitions", "statements"), ("rejected",)),
        *(
            ("reconcile", "--once", each, f"--report={report}")
            for each in ("--read-only", "--repairs=dry_run")
        ),
    ]
    for command in commands:
        for form in ((), ("--json",)):
            process = await start(fork_server, api.dsn, *command, *form)
            printed = await process.communicate()
            assert process.returncode in {0, 4}, printed
            assert SECRET not in str(printed), command
    written = [each.read_text(encoding="utf-8") for each in report.rglob("*") if each.is_file()]
    assert any("[redacted]" in each for each in written)
    assert not any(SECRET in each for each in written)


async def test_which_fields_a_kind_redacts_is_in_the_audit_as_it_was_and_as_it_is(api: Api) -> None:
    name = f"Audited{uuid4().hex[:8]}"
    for fields in ([], ["/a"], ["/a"], ["/a", "/b/*"], []):
        await api.define("acme", name, {"kind": name, "redacted_fields": fields})
    rows = await api.owner.fetch(
        "select operation, detail from ledger.audit where target = $1 order by audit_no",
        f"kinds/acme/{name}",
    )
    changes = [
        (row["detail"]["before"]["redacted_fields"], row["detail"]["redacted_fields"])
        for row in rows
    ]
    assert changes == [([], ["/a"]), (["/a"], ["/a", "/b/*"]), (["/a", "/b/*"], [])]
    assert {row["operation"] for row in rows} == {"putDefinition"}


def test_each_statement_that_reads_payloads_says_what_is_redacted() -> None:
    reading = {
        path.stem: path.read_text(encoding="utf-8")
        for path in statement_paths()
        if _PAYLOAD.search(path.read_text(encoding="utf-8"))
    }
    redacted = {name for name, text in reading.items() if "redacted_fields" in text}
    assert reading.keys() - redacted == WHOLE
