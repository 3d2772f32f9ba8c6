"""Reports by HTTP are those that a reconciliation made, and stay as they were."""

import csv
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import SecretStr

from dueledger.client import AsyncClient, calls
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.states import State
from dueledger.ledger.store import PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import Scope
from dueledger.reconciler import (
    Reconciler,
    ReconcilerSettings,
    ReconcilerSources,
    ReconciliationResult,
    reconcile_once,
)
from dueledger.reconciler.repair_policy import RepairPolicies, Treatment
from dueledger.reconciler.report.model import FindingDetail
from tests.databases import MakeDatabase
from tests.logins import with_login
from tests.service.conftest import Api, open_api
from tests.service.test_requests import problem


class Reported(NamedTuple):
    """A ledger with an overdue item of each of two tenants, one of them parked, and its report."""

    api: Api
    result: ReconciliationResult


@pytest.fixture(scope="module")
async def reported(
    make_database: MakeDatabase, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Reported]:
    async with open_api(make_database) as api:
        emitter = await api.make_key("emitter", Scope.EMIT, tenants=None)
        items = [api.item("P-1"), api.item("P-2", tenant="umbra", labels={"secret": "P-secret"})]
        await api.park((await api.emit(emitter, *items))[0])
        settings = ReconcilerSettings(
            dsn=SecretStr(with_login(api.dsn, "reconciler")), reconcile_kafka=False
        )
        directory = tmp_path_factory.mktemp("report")
        result = await reconcile_once(settings, ReconcilerSources(), report_directory=directory)
        yield Reported(api, result)


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines(keepends=True)))


async def test_a_report_by_http_is_that_of_the_command(reported: Reported) -> None:
    api, result = reported
    key = await api.make_key("auditor", Scope.AUDIT, tenants=None)
    [listed] = (await api.ask("GET", "/v1/reports", key=key)).document["items"]
    assert (listed["tenant"], listed["verdict"]) == ("*", "not_complete")
    assert (listed["sentence"], listed["findings_open"]) == (
        result.report.statement.sentence,
        result.report.findings_open,
    )
    path = f"/v1/reports/{listed['reconciliation_no']}"
    assert result.files is not None

    def text_of(file: Path) -> str:
        return file.read_text("utf-8")

    assert (await api.ask("GET", path, key=key)).text == text_of(result.files.json)
    page = await api.ask("GET", f"{path}/page", key=key)
    assert page.text == text_of(result.files.html)
    assert "script-src" not in page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    found = await api.ask("GET", f"{path}/findings", key=key)
    assert found.headers["Content-Disposition"].endswith(f'"{result.files.findings.name}"')
    assert sorted(found.text.splitlines()) == sorted(text_of(result.files.findings).splitlines())
    repairs = await api.ask("GET", f"{path}/repairs", key=key)
    assert repairs.text.splitlines() == text_of(result.files.repairs).splitlines()


async def test_a_key_reads_the_report_of_its_tenant_which_names_no_other(
    reported: Reported,
) -> None:
    api, _ = reported
    key = await api.make_key("acme-auditor", Scope.AUDIT)
    async with AsyncClient(api.service.url, key.text) as client:
        [listed] = (await client.send(calls.list_reports())).items
        assert (listed.tenant, listed.findings_open) == ("acme", 2)
        number = listed.reconciliation_no
        report = await client.send(calls.get_report(number))
        page = await client.send(calls.get_report_page(number))
        found = await client.send(calls.download_report_findings(number))
        repairs = await client.send(calls.download_report_repairs(number))
    assert report.tenant == "acme"
    assert report.statement.sentence.startswith("Not complete: 2 findings are open")
    rows = lines(found.text)
    assert {row["type"] for row in rows} == {"OVERDUE", "TAMPERED"}  # parked by no run
    assert {(row["tenant"], row["business_key"]) for row in rows} == {("acme", "P-1")}
    assert tuple(rows[0]) == tuple(FindingDetail.model_fields)
    assert lines(repairs.text) == []
    for text in (report.model_dump_json(), page.text, found.text):
        assert "umbra" not in text

    both = await api.make_key("both", Scope.AUDIT, tenants=["acme", "umbra"])
    path = f"/v1/reports/{number}"
    asked = problem(await api.ask("GET", path, key=both), 422, "INVALID_INPUT")
    assert asked.errors[0].pointer == "tenant"
    named = await api.ask("GET", f"{path}?tenant=umbra", key=both)
    assert named.document["accounting"][0]["tenant"] == "umbra"
    for unknown in (f"{path}?tenant=umbra", f"{path}?tenant=*", f"{path}/findings?tenant=umbra"):
        problem(await api.ask("GET", unknown, key=key), 404, "NOT_FOUND")
    listed_both = await api.ask("GET", "/v1/reports?limit=1", key=both)
    cursor = listed_both.document["next_cursor"]
    more = await api.ask("GET", f"/v1/reports?limit=1&cursor={cursor}", key=both)
    shown = [each.document["items"][0]["tenant"] for each in (listed_both, more)]
    assert shown == ["acme", "umbra"]


async def test_g11_a_repair_is_planned_proposed_and_approved_by_two_keys_before_it_is_executed(
    reported: Reported,
) -> None:
    api, result = reported
    auditor = await api.make_key("repair-auditor", Scope.AUDIT)
    maker, checker = [await api.make_key(f"repair-{each}", Scope.APPROVE) for each in "ab"]
    finding = next(
        each
        for each in result.report.findings
        if (each.tenant, each.type) == ("acme", FindingType.OVERDUE)
    )
    path = f"/v1/findings/{finding.id}/repair"

    plan = (await api.ask("GET", path, key=auditor)).document
    assert plan["would"].startswith("Send PolicyRenewalDue of P-1")
    assert (plan["before"], plan["after"]) == ("ManualReview, attempt 5", "Scheduled, attempt 0")
    assert (plan["item_state"], plan["item_attempt"]) == ("ManualReview", 5)
    assert (plan["status"], plan["proposed_by"], plan["judged_at"]) == (None, None, None)
    assert await api.owner.fetchval("select count(*) from ledger.repair") == 0

    proposals = [await api.ask("POST", path, key=maker) for _ in range(2)]
    assert [each.document["verdict"] for each in proposals] == ["created", "exists"]
    assert {each.document["id"] for each in proposals} == {plan["id"]}
    auditing = "/v1/audit?operation=proposeRepair&actor=key:repair-a"
    entries = (await api.ask("GET", auditing, key=auditor)).document["items"]
    assert [(each["target"], each["tenants"]) for each in entries] == [
        (path.removeprefix("/v1/").removesuffix("/repair"), ["acme"])
    ]
    assert await _repair(api) == 0
    held = (await api.ask("GET", path, key=auditor)).document
    assert (held["status"], held["proposed_by"]) == ("proposed", "key:repair-a")
    assert held["held_because"] == "unknown: it was handed out before"
    assert held["judged_at"]

    approving, reason = f"/v1/repairs/{plan['id']}/approve", {"reason": "INC-1"}
    own = await api.ask("POST", approving, key=maker, body=reason)
    assert "somebody else" in problem(own, 409, "CONFLICT").detail
    assert (await api.ask("POST", approving, key=checker, body=reason)).status == 200
    assert await _repair(api) == 1
    states = (
        "select state from ledger.pending join ledger.due_item i using (item_no) where i.id = $1"
    )
    assert await api.owner.fetchval(states, finding.item_id) == State.SCHEDULED
    other = await api.make_key("other", Scope.AUDIT, tenants=["umbra"])
    problem(await api.ask("GET", path, key=other), 404, "NOT_FOUND")


async def test_a_finding_without_a_repair_has_no_plan_and_takes_no_proposal(
    reported: Reported,
) -> None:
    api, result = reported
    scopes = (Scope.AUDIT, Scope.APPROVE)
    keys = [await api.make_key(f"plan-{each}", each, tenants=["umbra"]) for each in scopes]
    [finding] = [each for each in result.report.findings if each.tenant == "umbra"]  # waits
    path = f"/v1/findings/{finding.id}/repair"
    for method, key in zip(("GET", "POST"), keys, strict=True):
        refused = problem(await api.ask(method, path, key=key), 409, "CONFLICT")
        assert "no repair that can be applied" in refused.detail


async def test_findings_of_each_type_have_a_plan_or_a_reason_why_not(api: Api) -> None:
    auditor = await api.make_key("types", Scope.AUDIT)
    answers: dict[FindingType, int] = {}
    for each in FindingType:
        [finding] = await api.find("acme")
        await api.owner.execute(
            "update ledger.finding set type = $2, item_id = gen_random_uuid() where id = $1",
            finding,
            each,
        )
        path = f"/v1/findings/{finding}/repair"
        answers[each] = (await api.ask("GET", path, key=auditor)).status
        await api.owner.execute("delete from ledger.finding where id = $1", finding)
    assert set(answers.values()) <= {200, 409}, answers
    assert answers[FindingType.EFFECT_MISSING] == 200


@pytest.mark.parametrize("treatment", [Treatment.NEVER, Treatment.ESCALATE])
async def test_g11_a_proposal_that_the_policy_of_its_kind_forbids_is_refused_and_waits_no_longer(
    api: Api, treatment: Treatment
) -> None:
    keys = [await api.make_key(f"{treatment}-{each}", each) for each in (Scope.EMIT, Scope.AUDIT)]
    maker = await api.make_key(f"{treatment}-maker", Scope.APPROVE)
    kind = f"Forbidden{treatment.title()}"
    [item] = await api.emit(keys[0], api.item("P-1", kind=kind))
    await api.park(item)
    policies = RepairPolicies({("acme", kind): {FindingType.OVERDUE: treatment}})
    async with _reconciler(api, policies) as reconciler:
        await reconciler.run_pass()
        listed = await api.ask("GET", f"/v1/findings?kind={kind}", key=keys[1])
        [finding] = [each for each in listed.document["items"] if each["type"] == "OVERDUE"]
        path = f"/v1/findings/{finding['id']}/repair"
        proposed = await api.ask("POST", path, key=maker)
        assert proposed.document["status"] == "proposed"
        [planned] = [each for each in await reconciler.plan() if each.is_forbidden]
        assert await reconciler.repair([planned]) == 0
        assert [each for each in await reconciler.plan() if each.is_forbidden] == []
    shown = await api.ask("GET", path, key=keys[1])
    assert shown.document["status"] == "refused"
    again = await api.ask("POST", path, key=maker)
    assert (again.document["verdict"], again.document["status"]) == ("exists", "refused")
    waiting = await api.ask("GET", f"/v1/repairs?kind={kind}", key=keys[1])
    assert waiting.document["items"] == []


async def _repair(api: Api) -> int:
    """Execute the repairs of open findings, as a reconciler does."""
    async with _reconciler(api, RepairPolicies()) as reconciler:
        return await reconciler.repair(await reconciler.plan())


@asynccontextmanager
async def _reconciler(api: Api, policies: RepairPolicies) -> AsyncGenerator[Reconciler]:
    actor_no = await register_actor(api.owner, "reconciler:test", ActorKind.RECONCILER)
    dsn = with_login(api.dsn, "reconciler")
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        yield Reconciler(pool, ReconcilerSources((), (), policies), actor_no)
