"""A real service on a real Postgres, and clients with keys."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, get_origin
from uuid import UUID, uuid4

import aiohttp
import pytest
from pydantic import SecretStr

from dueledger.calendars.import_calendar import import_calendar
from dueledger.calendars.source_calendar import SourceCalendar
from dueledger.definitions.put_in_force import put_in_force
from dueledger.ledger.definitions.calendar_document import parse_calendar
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope, create_key, revoke_key
from dueledger.ledger.store.repairs import RepairRecord, record_repairs
from dueledger.ledger.store.reports import ReportRecord, record_reports
from dueledger.reconciler.report.model import AccountingRow, KindChecks, ReconciliationReport
from dueledger.service import RunningService, ServiceSettings, open_service
from dueledger.service.application import OpenConsole
from tests.databases import MakeDatabase
from tests.logins import with_login
from tests.service.issuer import Issuer, open_issuer

BODY_BYTES_MAX = 64 * 1024
SCHEDULE: dict[str, object] = {
    "kind": "StatementDue",
    "business_key": "statements",
    "when": {"cron": "0 9 1 * *", "timezone": "Europe/Berlin"},
    "dispatch": {"direct": {}},
}
"""A definition without tenant and name, which paths have."""
CALENDAR: dict[str, object] = {
    "weekend": ["sat", "sun"],
    "holidays": ["2027-01-01"],
    "first_day": "2027-01-01",
    "last_day": "2027-12-31",
    "names": {"2027-01-01": "New Year"},
}
EVENT: dict[str, object] = {
    "specversion": "1.0",
    "id": "1",
    "source": "/policies",
    "type": "PolicyActivated",
    "time": "2026-03-01T09:00:00Z",
    "duetenant": "acme",
    "data": {"policy": "P-77", "renews_on": "2027-03-01"},
}


@dataclass(frozen=True)
class Answer:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]
    text: str
    document: Any


@dataclass
class Api:
    """The service, a connection of the ledger's owner, and keys by scopes and tenants."""

    service: RunningService
    owner: Connection
    session: aiohttp.ClientSession
    person_no: int
    dsn: str

    async def make_key(
        self, name: str, *scopes: Scope, tenants: Sequence[str] | None = ("acme",)
    ) -> NewApiKey:
        made = await create_key(
            self.owner,
            f"key:{name}",
            scopes=scopes,
            tenants=tenants,
            expires_at=None,
            created_by=self.person_no,
        )
        assert made is not None
        return made

    async def ask(
        self,
        method: str,
        path: str,
        *,
        key: NewApiKey | str | None = None,
        body: object = None,
        text: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        given = dict(headers or {})
        if method == "POST":
            given.setdefault("Idempotency-Key", uuid4().hex)
        if key is not None:
            secret = key if isinstance(key, str) else key.text
            given["Authorization"] = f"Bearer {secret}"
        if text is not None:
            given.setdefault("Content-Type", "application/json")
        url = self.service.url + path
        async with self.session.request(method, url, json=body, data=text, headers=given) as reply:
            content = await reply.text()
            is_json = reply.content_type.endswith("json")
            return Answer(
                reply.status,
                reply.headers,
                content,
                await reply.json(content_type=None) if is_json else None,
            )

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[Connection]:
        """Lend the connection of the ledger's owner."""
        yield self.owner

    async def polling(self, count: int) -> None:
        """Wait until so many long polls wait."""
        while self.service.pulls.waiting != count:
            await self.service.pulls.signals.expect("pulls.changed")

    async def revoke(self, key: NewApiKey) -> None:
        assert await revoke_key(self.owner, key.prefix, revoked_by=self.person_no)

    def item(self, key: str = "P-1", **members: object) -> dict[str, object]:
        return {
            "tenant": "acme",
            "kind": "PolicyRenewalDue",
            "business_key": key,
            "effective_date": "2027-03-01",
            "due_at": "2026-01-01T09:00:00Z",
            "payload": {"premium": "123.45"},
        } | members

    async def define(self, tenant: str, name: str, document: dict[str, object]) -> None:
        definition = parse_definition({"tenant": tenant, "definition": name, **document})
        await put_in_force(self.owner, [definition], actor_no=self.person_no, may_loosen=True)

    async def put_calendar(self, tenant: str, name: str) -> None:
        document = parse_calendar(CALENDAR, source="test")
        found = SourceCalendar(document, "test")
        await import_calendar(self.owner, found, tenant=tenant, name=name, actor_no=self.person_no)

    async def park(self, *items: UUID) -> None:
        """Park items that wait, as at their last attempt."""
        await self.owner.execute(
            "with taken as (delete from ledger.pending p using ledger.due_item i"
            " where i.id = any ($1::uuid[]) and p.item_no = i.item_no returning p.*)"
            " insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt,"
            " starts, reason, actor_no) select item_no, effective_date, flow_no, ledger.now(),"
            " 5, 5, 'attempts exhausted', $2 from taken",
            items,
            self.person_no,
        )

    async def find(self, tenant: str, count: int = 1) -> list[UUID]:
        """Record open findings of a tenant, as a reconciliation does."""
        ids = [uuid4() for _ in range(count)]
        await self.owner.execute(
            "insert into ledger.finding (id, type, severity, tenant, kind, subject, business_key,"
            " effective_date, due_at, sentence, expected, actual, terms, first_seen_at,"
            " last_seen_at, resolution)"
            " select u.id, 'MISSING', 'error', $2, 'LetterDue', u.id::text, 'P-secret',"
            " '2026-03-01', '2026-03-01 09:00+00', 'A letter is missing.', '{}', '{}', '{}',"
            " ledger.now(), ledger.now(), 'open' from unnest($1::uuid[]) u (id)",
            ids,
            tenant,
        )
        return ids

    async def propose(self, finding: UUID, actor_no: int) -> UUID:
        """Record a repair of a finding, as proposed by an actor."""
        repair = RepairRecord(uuid4(), finding, "materialise", 1, '{"would": "Emit it."}')
        await record_repairs(self.owner, [repair], actor_no=actor_no)
        return repair.id

    async def report(self, tenant: str, **given: object) -> int:
        """Record a report of a tenant, empty but for what is given; return its number."""
        number = await self.owner.fetchval(
            "insert into ledger.reconciliation (started_at, as_of, actor_no, scope)"
            " values (ledger.now(), ledger.now(), $1, '{}') returning reconciliation_no",
            self.person_no,
        )
        row: dict[str, object] = {
            **dict.fromkeys(AccountingRow.model_fields, 0),
            "tenant": tenant,
            "kind": "*",
            "checks": dict.fromkeys(KindChecks.model_fields, True),
            "hash_total": "0",
        }
        fields = ReconciliationReport.model_fields.items()
        required = {name: field for name, field in fields if field.is_required()}
        members: dict[str, object] = {
            **{
                name: () if get_origin(field.annotation) is list else None
                for name, field in required.items()
            },
            "software_version": "0",
            "reconciliation_no": number,
            "tenant": tenant,
            "period": {"from_date": "2026-01-01", "to_date": None},
            "effective_dates": {"from_date": None, "to_date": None},
            **dict.fromkeys(("as_of", "started_at", "everything_read_at"), "2026-02-01T00:00:00Z"),
            **dict.fromkeys(("duration_seconds", "findings_count", "findings_omitted"), 0),
            **dict.fromkeys(("repairs_count", "repairs_executed"), 0),
            "tzdata": "2026a",
            "statement": {
                "verdict": "complete",
                "sentence": "P-secret",
                "complete_before": None,
            },
            "totals": row,
            **given,
        }
        report = ReconciliationReport.model_validate(members)
        statement, document = report.statement, report.as_json().decode()
        record = ReportRecord(tenant, statement.verdict, statement.sentence, 0, document)
        await record_reports(self.owner, number, report.as_of, [record])
        return number

    async def emit(self, key: NewApiKey, *items: dict[str, object]) -> list[UUID]:
        answer = await self.ask("POST", "/v1/items", key=key, body={"items": items})
        assert answer.status == 200, answer.text
        return [UUID(each["id"]) for each in answer.document["items"]]


@asynccontextmanager
async def open_api(
    make_database: MakeDatabase, console: OpenConsole | None = None, /, **settings_of_test: object
) -> AsyncGenerator[Api]:
    """Open a service with these settings, and the console if given, on a database of its own."""
    async with make_database() as dsn:
        owner = await connect(dsn, application_name="test")
        settings = ServiceSettings.model_validate(
            {
                "dsn": SecretStr(with_login(dsn, "service")),
                "service_port": 0,
                "service_connections_max": 4,
                "service_body_bytes_max": BODY_BYTES_MAX,
                **settings_of_test,
            }
        )
        person_no = await register_actor(owner, "person:test", ActorKind.PERSON)
        async with open_service(settings, console) as service, aiohttp.ClientSession() as session:
            yield Api(service, owner, session, person_no, dsn)
        await owner.close()


@pytest.fixture(scope="module")
async def issuer() -> AsyncGenerator[Issuer]:
    async with open_issuer() as opened:
        yield opened


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    async with open_api(make_database) as opened:
        yield opened


@pytest.fixture(scope="module")
async def key(api: Api) -> NewApiKey:
    """A key of the tenant acme that may read and emit."""
    return await api.make_key("billing", Scope.READ, Scope.EMIT)
