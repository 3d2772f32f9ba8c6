"""Each route × each scope × another tenant, by key and by token, from the app's own routes."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from fastapi.routing import APIRoute

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.audit import AuditTarget, record_audit
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.operations import ItemFilter, record_operation
from dueledger.ledger.store.statements import parse_statement, statement_paths
from dueledger.service.app import ROUTES
from dueledger.service.scoped_routes import CallRoute
from tests.databases import MakeDatabase
from tests.service.answers import examples_of_answers, members_of_answer
from tests.service.conftest import CALENDAR, EVENT, SCHEDULE, Answer, Api, open_api
from tests.service.issuer import Issuer, oidc
from tests.service.test_requests import problem
from tests.sql.statement_callers import statements_by_role, statements_of_routes

pytestmark = pytest.mark.long


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
TABLES = """
select string_agg(
  format('select %L, count(*), sum(x.xmin::text::bigint) from ledger.%I x', relname, relname),
  ' union all ') || ' order by 1'  -- several backends may count
from pg_class
where relnamespace = 'ledger'::regnamespace and relkind in ('r', 'p') and not relispartition
  and relname not in ('api_key', 'process', 'rejected_write')
"""
"""Keys are marked as used, the service renews its presence, and refused outcomes are recorded."""
OPEN = {"/health/live", "/health/ready", "/metrics", "/problems"}
EVENTS = "of the event's tenant, which the route has compared with the key's"
UNBOUND = {
    "emit_by_key": "ledger.emitting_actor refuses tenants that are not the key's",
    "find_other_terms": "ledger.find_other_terms compares items of the key's tenants alone",
    "list_flow_overview": "of a tenant that the route has compared with the key's",
    "count_late_items": "of flows that measure_status found for the tenants",
    "list_keys_from": "not used for a caller of some tenants: suggest_keys asks list_own_keys_from",
    "list_past_days": "of kinds that rank_past_kinds or list_past_kinds found for the tenants",
    "count_fell_due": "of a pause that list_pauses found for the tenants",
    "count_items_on_days": "of definitions of the path's tenant, and not counted by REST",
    "emit_items": "of a definition of the path's tenant, or of the event's",
    "find_open_items": EVENTS,
    "list_event_rules": "all are kept, and an event is applied by those of its tenant",
    "list_unmade_months": "months have no tenant",
    "lock_business_keys": EVENTS,
    "make_partition": "months have no tenant",
    "read_rules_version": "a number that changes with any rule",
    "revise_event_items": EVENTS,
    "withdraw_items": f"of items that find_items_of_tenant found, or {EVENTS}",
    "expedite_items": "of an item that the route has emitted, or that find_items_of_tenant found",
    "find_mixed_compressions": "kinds of others that share a topic are not named",
    "find_topic_uses": "kinds of others that use a topic are not named",
    "limit_lock_wait": "a setting of the transaction",
    "list_calendar_uses": "of versions of a definition of the path's tenant",
    "lock_topics": "topics have no tenant",
    "read_calendars": "named by a definition of the path's tenant",
    "read_execution_versions": "of a tenant that of_definition has compared with the key's",
    "extend_leases": "of runs that find_outcome_targets found for the tenants",
    "find_blockers": "of an item that show_item found for the tenants",
    "find_handed_out": "of an item that show_item found for the tenants",
    "find_operation_of_item": "of an item that show_item found for the tenants",
    "clear_silent_topics": "of runs that find_outcome_targets found for the tenants",
    "park_items": "of items that find_items_of_tenant found",
    "redrive_items": "of items that find_items_of_tenant found",
    "snooze_items": "of items that find_items_of_tenant found",
    "write_off_items": "of items that find_items_of_tenant found",
    "return_reviews": "of items that find_items_of_tenant found",
    "take_reviews": "of items that find_items_of_tenant found",
    "drop_orphans": "of runs that find_outcome_targets found for the tenants",
    "list_due_flows": "for all who wait; what they claim is claimed for their tenants",
    "lock_limited_flows": "locks flows; their items are claimed for the tenants",
    "lock_partitions": "locks tables",
    "lock_serial_stripes": "locks stripes of keys; items are claimed for the tenants",
    "lock_topic_runs": "locks runs of claims whose token the caller has",
    "measure_allowances": "counts the items of flows, which are claimed for the tenants",
    "next_fences": "draws numbers",
    "record_claims": "of items that claim_serial_items claimed for the tenants",
    "record_refused_outcomes": "records what the caller sent",
    "settle_runs": "of runs that find_outcome_targets found, or that were claimed, for the tenants",
    "settle_completed_runs": "as settle_runs",
    "settle_completed_run": "as settle_runs",
    "spend_tokens": "of flows whose items were claimed for the tenants",
    "start_runs": "of claims that record_claims recorded",
    "start_plain_runs": "as start_runs",
    "record_audit": "of what the route has changed for the tenants",
    "find_tenants_of_findings": "of findings and repairs that were decided for the tenants",
    "record_repairs": "of a finding that list_repair_grounds found for the tenants",
    "find_items_of_tenant": "of the tenant of an item that show_item found for the tenants",
    "read_item_states": "of items that find_items_of_tenant found",
    **dict.fromkeys(
        (
            "count_leases",
            "list_processes",
            "request_drain",
            "list_topic_partitions",
            "list_topics",
            "list_applied_migrations",
            "read_schema_version",
        ),
        "not run for a caller for some tenants",
    ),
    **dict.fromkeys(
        ("list_sequences", "list_stalled_partitions", "read_default_partition"),
        "not run for a caller for some tenants",
    ),
    **dict.fromkeys(
        (
            "add_kind",
            "define",
            "find_calendar_version",
            "list_kind_policies",
            "list_shared_keys",
            "lock_definition",
            "lock_versions",
            "put_kind_policy",
        ),
        "of definitions of a form, each of a tenant of the caller (require_tenants)",
    ),
    "list_alerts": "only those whose labels name a tenant of the caller are shown",
    "list_open_operations": "not run for a caller for some tenants",
    "read_last_pass": "a number and a time of the whole ledger",
    "read_overview_place": "a time of the whole ledger",
    "read_past_load_count": "a time of the whole ledger",
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
    unbound = {
        name
        for route, statements in statements_of_routes()
        for name in statements
        # `tenant` is the path's, which CallRoute compares with the key's before the route
        if not parameters[name]
        & ({"tenants", "tenant"} if "{tenant}" in route.path else {"tenants"})
    }
    pulling = statements_by_role()["pull_worker"]  # run by the queue of polls, too
    unbound |= {name for name in pulling if "tenants" not in parameters[name]}
    assert unbound == UNBOUND.keys()


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase, issuer: Issuer) -> AsyncGenerator[Api]:
    async with open_api(make_database, **oidc(issuer.url)) as opened:
        yield opened


Credentials = dict[Scope, str]
"""A key or token of the tenant acme for each scope."""


@pytest.fixture(scope="module")
async def credentials(api: Api, issuer: Issuer) -> dict[str, Credentials]:
    """Keys, and tokens of the issuer, whose subjects are known."""
    keys = {scope: (await api.make_key(f"only-{scope}", scope)).text for scope in Scope}
    tokens = {scope: issuer.token(sub=f"only-{scope}", scope=f"openid {scope}") for scope in Scope}
    for token in tokens.values():
        assert (await api.ask("GET", "/v1/keys", key=token)).status in {200, 403}
    return {"key": keys, "token": tokens}


@pytest.fixture(scope="module")
def keys(credentials: dict[str, Credentials]) -> Credentials:
    """A key of the tenant acme for each scope."""
    return credentials["key"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a request may name: a tenant, and something of it."""

    tenant: str
    item: str
    parked: str
    prefix: str
    revocable: str
    operation: int
    finding: str
    accepted: str
    repair: str
    repairable: str
    number: int
    name: str = "statements"
    kind: str = "PolicyRenewalDue"
    process: str = "worker:host:1:abcd"
    topic: str = "due.PolicyRenewalDue"


VERB = {"verb": "trigger", "reason": "INC-1"}
Asked = tuple[str, object]
"""Path after the route's own, and the body."""


def _item(api: Api, place: Place) -> Asked:
    return "", {"items": [api.item("P-walk", tenant=place.tenant)]}


def _plain(*_: object) -> Asked:
    return "", None


def _sends(body: object) -> Callable[[Api, Place], Asked]:
    return lambda _, __: ("", body)


def _of_tenant(_: Api, place: Place) -> Asked:
    return f"?tenant={place.tenant}", None


def _schedule(*_: object) -> Asked:
    return "", SCHEDULE


def _reason(*_: object) -> Asked:
    return "", {"reason": "INC-1"}


def _outcome(_: Api, place: Place) -> Asked:
    named = {"item": place.item, "fence": 1, "position": 1, "token": "0" * 32}
    return "", {"outcomes": [named | {"verdict": "completed"}]}


WALK: dict[str, Callable[[Api, Place], Asked]] = {
    "emitItems": _item,
    "listItems": lambda _, place: (f"?tenant={place.tenant}&business_key=P-secret", None),
    "getItem": _plain,
    "getItemTimeline": _plain,
    "explainItem": _plain,
    "listDefinitions": _of_tenant,
    "getDefinition": _plain,
    "listDefinitionVersions": _plain,
    "listExecutions": _plain,
    "listOccurrences": _plain,
    "putDefinition": _schedule,
    "previewDefinition": _schedule,
    "convertSchedules": _sends({"text": "0 9 * * * /bin/true"}),
    "pauseDefinition": _reason,
    "resumeDefinition": _plain,
    "triggerDefinition": _reason,
    "listCalendars": lambda _, place: (f"?tenant={place.tenant}", None),
    "getCalendar": _plain,
    "putCalendar": lambda _, _place: ("", CALENDAR),
    "recordEvent": lambda _, place: ("", {**EVENT, "duetenant": place.tenant}),
    "listKeys": _plain,
    "createKey": lambda _, place: (
        "",
        {"name": f"made-{place.tenant}", "scopes": ["read"], "tenants": [place.tenant]},
    ),
    "rotateKey": lambda _, _place: ("", {}),
    "revokeKey": _plain,
    "claimItems": lambda _, place: ("", {"kinds": ["PolicyRenewalDue"], "lanes": [place.tenant]}),
    "reportOutcomes": _outcome,
    "listReviews": _of_tenant,
    "listReviewGroups": _of_tenant,
    "takeReviews": lambda _, place: ("", {"ids": [place.parked]}),
    "returnReviews": lambda _, place: ("", {"ids": [place.parked]}),
    "commentOnReviews": lambda _, place: ("", {"item": place.parked, "comment": "P-secret"}),
    "listReviewComments": lambda _, place: (f"?item={place.parked}", None),
    "countFindings": _of_tenant,
    "listMissing": _of_tenant,
    "listWatermarks": _of_tenant,
    "listProcesses": _plain,
    "drainProcess": _reason,
    "listTopics": _plain,
    "listTopicPartitions": _plain,
    "listAlerts": _plain,
    "listChecks": _plain,
    "listSettings": _plain,
    "decideItems": lambda _, place: ("", VERB | {"ids": [place.item]}),
    "previewOperation": _sends({"verb": "trigger"}),
    "createOperation": _sends(VERB | {"verb": "cancel"}),
    "listOperations": _of_tenant,
    "getOperation": _plain,
    "pauseOperation": _reason,
    "resumeOperation": _reason,
    "abortOperation": _reason,
    "approveOperation": _reason,
    "listFlows": _of_tenant,
    "getFlow": _plain,
    "setFlowLimits": _sends({"lane": None, "weight": 2}),
    "listPauses": lambda _, place: (f"?tenant={place.tenant}&fell_due=true", None),
    "getThroughput": _of_tenant,
    "getOverview": _of_tenant,
    "getStatus": _of_tenant,
    "listPastDays": _of_tenant,
    "listPastHours": _of_tenant,
    "getLateness": _of_tenant,
    "getLoad": _of_tenant,
    "search": lambda _, place: (f"?q={place.item}", None),
    "suggestKeys": lambda _, place: (f"?q={place.kind}", None),
    "pauseFlows": _sends({"kind": "StatementDue", "reason": "INC-1"}),
    "resumeFlows": _sends({"kind": "StatementDue"}),
    "listFindings": _of_tenant,
    "listUndecidedFindings": _of_tenant,
    "takeFinding": lambda _, _place: ("", {}),
    "returnFinding": _plain,
    "commentOnFinding": lambda _, _place: ("", {"comment": "P-secret"}),
    "listFindingComments": _plain,
    "getFinding": _plain,
    "explainFinding": _reason,
    "acceptFinding": _reason,
    "listRepairs": _of_tenant,
    "approveRepair": _reason,
    "listAudit": _of_tenant,
    "planRepair": _plain,
    "proposeRepair": _plain,
    "listReports": _of_tenant,
    "getReport": _of_tenant,
    "getReportPage": _of_tenant,
    "downloadReportFindings": _of_tenant,
    "downloadReportRepairs": _of_tenant,
}
"""A request of each route that succeeds for a key of its tenant, unless it is one of `OF_ALL`."""

OF_ALL = {"drainProcess"}
"""Routes that refuse each caller for some tenants."""
REOPENED = (
    "update ledger.operation set ended_at = null, aborted_by = null, abort_reason = null,"
    " needs_approval = true, approved_at = null, approved_by = null, approval_reason = null"
)
"""What the walk has ended or approved is paused, or approved, again, in any order of the routes."""

LISTS = {
    *("listReviews", "listOperations", "listFlows", "listPauses", "listFindings", "listRepairs"),
    *("listAudit", "listReports", "listReviewGroups", "countFindings", "listWatermarks"),
    *("listProcesses", "listTopics", "listAlerts", "getThroughput"),
    *("getOverview", "getStatus", "listSettings"),
    *("listPastDays", "listPastHours", "listUndecidedFindings"),
    "listTopicPartitions",
    *("listMissing", "listChecks", "getLateness", "getLoad", "search", "suggestKeys"),
}
EMPTY = {"listItems", "listDefinitions", "listCalendars", "claimItems", *LISTS}
"""Routes that answer a key of another tenant as if there were nothing."""


def test_each_route_is_walked() -> None:
    assert {each.route.operation_id for each in ALL} == WALK.keys()


def named_in(operation: str, place: Place) -> dict[str, Any]:
    """Return what the path of a route names, so that its request succeeds once."""
    named = asdict(place)
    match operation:
        case "revokeKey":  # a revoked one cannot be rotated
            named["prefix"] = place.revocable
        case "acceptFinding":  # an explained one is closed
            named["finding"] = place.accepted
        case "planRepair" | "proposeRepair" | "takeFinding" | "returnFinding" | "commentOnFinding":
            named["finding"] = place.repairable
        case _:
            pass
    return named


async def ask(api: Api, each: Walked, key: str, place: Place) -> Answer:
    operation = each.route.operation_id or ""
    after, body = WALK[operation](api, place)
    named = named_in(operation, place)
    path = each.route.path.format(**named)
    headers = {"If-Match": "*"} if each.method == "PUT" else None
    return await api.ask(each.method, path + after, key=key, body=body, headers=headers)


async def place_of(api: Api, tenant: str, items: Sequence[UUID], *prefixes: str) -> Place:
    """Add findings, a repair, an operation and a watermark of a tenant; name what has a name."""
    explained, accepted, repaired, repairable = await api.find(tenant, 4)
    repair = await api.propose(repaired, api.person_no)
    operation_no = await record_operation(
        api.owner,
        OperationVerb.CANCEL,
        ItemFilter(tenant),
        reason="P-secret",
        actor_no=api.person_no,
    )
    assert operation_no is not None
    await api.owner.execute("update ledger.operation set needs_approval = true")
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, blocked_by, as_of)"
        " values ($1, 'LetterDue', 'P-secret', ledger.now()) on conflict do nothing",
        tenant,
    )
    changed = [AuditTarget("P-secret", [tenant])]
    await record_audit(api.owner, api.person_no, "pauseFlows", changed)
    prefix, revocable = prefixes
    found = (str(explained), str(accepted), str(repair), str(repairable))
    number = await api.report(tenant)
    item, parked = map(str, items)
    return Place(tenant, item, parked, prefix, revocable, operation_no, *found, number)


@pytest.fixture(scope="module")
async def own(api: Api, key: NewApiKey) -> dict[str, Place]:
    """What a key, and a token, of the tenant acme may name."""
    items = await api.emit(key, api.item("P-own"), api.item("P-parked"))
    await api.park(items[1])
    await api.define("acme", "statements", SCHEDULE)
    await api.put_calendar("acme", "statements")
    made = [await api.make_key("spare", Scope.READ) for _ in range(4)]
    prefixes = [each.prefix for each in made]
    return {
        "key": await place_of(api, "acme", items, *prefixes[:2]),
        "token": await place_of(api, "acme", items, *prefixes[2:]),
    }


@pytest.fixture(scope="module")
async def secret(api: Api) -> Place:
    """What it may not: the same of the tenant umbra."""
    everybody = await api.make_key("everybody", Scope.EMIT, tenants=None)
    [item] = await api.emit(everybody, api.item("P-secret", tenant="umbra", lane="umbra"))
    await api.define("umbra", "statements", SCHEDULE)
    await api.put_calendar("umbra", "statements")
    made = [await api.make_key("P-secret", Scope.READ, tenants=["umbra", "acme"]) for _ in range(2)]
    parked = await api.emit(everybody, api.item("P-secret", tenant="umbra", cycle="2"))
    await api.park(*parked)
    await pause_flows(api.owner, FlowScope("umbra"), reason="P-secret", actor_no=api.person_no)
    return await place_of(api, "umbra", [item, *parked], *(each.prefix for each in made))


@pytest.fixture(scope="module")
async def examples(api: Api) -> dict[str, Any]:
    """Examples of answers, by operation."""
    openapi = (await api.ask("GET", "/openapi.json")).document
    found = examples_of_answers(openapi)
    del found["getReport"]  # its other members are in docs/report.schema.json
    return {name: example for name, (example, _) in found.items()}


@pytest.mark.parametrize("each", ALL, ids=str)
async def test_a_key_or_token_reaches_the_routes_of_its_scopes_alone(
    api: Api,
    credentials: dict[str, Credentials],
    own: dict[str, Place],
    examples: dict[str, Any],
    each: Walked,
) -> None:
    """And the answer has no member that its example in the OpenAPI document has not."""
    await api.owner.execute(REOPENED)
    for kind, given in credentials.items():
        for scope in Scope:
            answer = await ask(api, each, given[scope], own[kind])
            if scope is each.route.scope and each.route.operation_id not in OF_ALL:
                assert answer.status < 300, (kind, answer.text)
                example = examples.get(each.route.operation_id or "")
                if example is not None:
                    assert members_of_answer(answer.document) <= members_of_answer(example)
            else:
                problem(answer, 403, "NOT_PERMITTED")


@pytest.mark.parametrize("each", ALL, ids=str)
async def test_a_key_or_token_neither_sees_nor_touches_another_tenant(
    api: Api, credentials: dict[str, Credentials], secret: Place, each: Walked
) -> None:
    counted = await api.owner.fetchval(TABLES)
    before = await api.owner.fetch(counted)
    for given in credentials.values():
        answer = await ask(api, each, given[each.route.scope], secret)
        if each.route.operation_id in EMPTY:
            assert answer.document["items"] == []
        elif each.route.operation_id == "listKeys":
            assert secret.prefix not in answer.text
        elif each.route.operation_id == "reportOutcomes":  # as of any item not handed out so
            assert answer.document["outcomes"][0]["result"] == "mismatch"
        else:
            assert answer.status in {403, 404}
        assert "P-secret" not in answer.text
    assert await api.owner.fetch(counted) == before


async def test_the_database_refuses_another_tenant_if_the_service_does_not(
    api: Api, keys: Credentials
) -> None:
    """Of a member that is given twice, readers of JSON take one or the other."""
    text = (
        '{"items": [{"tenant": "umbra", "kind": "Kind1", "business_key": "P-twice",'
        ' "effective_date": "2027-03-01", "due_at": "2026-01-01T09:00:00Z"}],'
        ' "items": [{"tenant": "acme", "kind": "Kind1", "business_key": "P-twice",'
        ' "effective_date": "2027-03-01", "due_at": "2026-01-01T09:00:00Z"}]}'
    )
    answer = await api.ask("POST", "/v1/items", key=keys[Scope.EMIT], text=text)
    tenants = await api.owner.fetch(
        "select k.tenant from ledger.due_item i join ledger.flow f using (flow_no)"
        " join ledger.kind k using (kind_no) where i.business_key = 'P-twice'"
    )
    assert (answer.status, [row["tenant"] for row in tenants]) == (200, ["acme"])
