"""Examples of answers in the OpenAPI document, composed of one value for each name of a member.

A model that has an example of its own is shown by that one.
"""

from collections.abc import Iterator
from typing import Any, Final

from dueledger.failures import KINDS
from dueledger.importers.import_result import QUESTIONS, OpenQuestion
from dueledger.ledger.states import State
from dueledger.service.routes.calendars import EXAMPLE as CALENDAR
from dueledger.service.routes.definition_documents import EXAMPLE as DEFINITION

Schema = dict[str, Any]

_JSON: Final = "application/json"
_INSTANT: Final = "2027-03-01T09:00:00Z"
_LOCAL: Final = "2027-03-01T10:00:00"
_TOPIC: Final = "due.PolicyRenewalDue"
_WHAT: Final = "PolicyRenewalDue of P-1001, effective 2027-03-31"
_STATEMENT: Final = "Not complete: 1 finding is open, the oldest first seen 3 hours ago."
_COMMENT: Final = {"comment": "INC-1234: the archive is asked"}
_REFUSED: Final = KINDS["NOT_FOUND"]

_BY_FORMAT: Final[dict[str, Any]] = {
    "date": "2027-03-31",
    "date-time": _INSTANT,
    "uuid": "0051a6f5-4d2a-8c11-9d3e-7b0a86f0f6d1",
}
_BY_TYPE: Final[dict[str, Any]] = {"boolean": False, "integer": 0, "number": 0.0, "object": {}}
_BY_NAME: Final[dict[str, Any]] = {
    "action": "materialise",
    "actor": "key:jane",
    "after": State.SCHEDULED.label,
    "before": "no item",
    "business_key": "P-1001",
    "business_keys": ["P-1001"],
    "change": "moved",
    "changed": True,
    "circuit_calls_min": 20,
    "circuit_rest_seconds": 30.0,
    "circuit_window_seconds": 60.0,
    "created_by": "person:jane",
    "complete_before": _INSTANT,
    "cycle": "2027",
    "decision": "exact",
    "defined_by": "key:jane",
    "definition": "statements",
    "definition_version": 2,
    "dispatch": "kafka",
    "due_at": _INSTANT,
    "differing": ["due_at"],
    "effective_date": "2027-03-31",
    "emitted_by": "key:billing",
    "event": "emitted",
    "expected": {"business_key": "P-1001", "due_at": _INSTANT},
    "fields": ["when"],
    "host": "host-1",
    "kind": "PolicyRenewalDue",
    "lane": "",
    "local": _LOCAL,
    "nominal": _LOCAL,
    "notes": [],
    "opened_count": 1,
    "operation_no": 1,
    "payload": {"premium": "123.45"},
    "prefix": "3f9a1c0b5d7e2468",
    "proposed_by": "key:jane",
    "reason": "INC-1234: the archive is down",
    "redacted_fields": [],
    "reconciliation_no": 1,
    "requested_by": "key:jane",
    "retry_share": 0.2,
    "schema_version": "1.1",
    "scopes": ["read", "emit"],
    "start": _INSTANT,
    "sentence": f"policies says that {_WHAT}, is owed, and there is no item.",
    "severity": "error",
    "source": "key:jane",
    "subject": "acme/PolicyRenewalDue/P-1001/2027-03-31",
    "superseded": [1],
    "tenant": "acme",
    "tenants": ["acme"],
    "utc_offset": "+01:00",
    "version": 2,
    "weekend": [["sat", "sun"], ["fri", "sat"]],
    "weight": 1,
    "would": f"Emit {_WHAT}, due 2027-03-01 09:00 UTC.",
    "zone": "Europe/Berlin",
}
_BY_MODEL: Final[dict[str, dict[str, Any]]] = {
    "AlertDocument": {
        "labels": {"topic": _TOPIC, "dispatch": "kafka"},
        "alert": "WorkerMissing",
        "severity": "page",
        "summary": f"due items of {_TOPIC} wait, and reach no worker",
        "value": 12.0,
        "runbook": "docs/runbook.md#workermissing",
    },
    "AuditEntry": {
        "role": "ledger_operator",
        "login": "due_service",
        "operation": "pauseFlows",
        "target": "flows/acme/PolicyRenewalDue",
        "before": {"until": None, "reason": "INC-1", "paused_by": "key:billing"},
        "after": {"until": "2027-01-01T10:00:00+00:00"},
        "request_id": "5e1f0c52b8f94f3d",
    },
    "AskedQuestion": {
        "question": "zone",
        "sentence": QUESTIONS[OpenQuestion.ZONE],
        "jobs": 1,
    },
    "CalendarChange": {"definitions": ["statements"], "name": "holidays"},
    "CalendarChanges": {
        "removed": [],
        "workdays_added": [],
        "workdays_removed": ["2027-01-01"],
        "weekend": [["sat", "sun"], ["sat", "sun"]],
        "changed_days": ["2027-01-01"],
    },
    "CalendarDetail": {"document": CALENDAR, "name": "holidays", "valid_to": "2027-12-31"},
    "CalendarSummary": {"name": "holidays", "valid_to": "2027-12-31"},
    "ConvertedJob": {
        "where": "jobs:2",
        "frequency": "1 a month",
        "decide": ["zone"],
        "document": DEFINITION,
    },
    "DayRanges": {"from": ["2027-01-01", "2027-12-31"], "to": ["2027-01-01", "2027-12-31"]},
    "DefinitionDiffDocument": {
        "counts": {"kept": 0, "moved": 12, "added": 0, "removed": 0},
        "until": "2028-03-01T09:00:00Z",
    },
    "DefinitionDocument": {"document": DEFINITION, "kind": "StatementDue", "state": "in force"},
    "EventResult": {"is_new": True, "is_matched": True, "emitted": 1},
    "DrainAnswer": {"name": "worker:host-1:4711:5f1c"},
    "ExecutionDocument": {
        "attempt": 1,
        "duration_seconds": 1.5,
        "ended_at": "2027-03-01T09:00:02Z",
        "evidence": {"letter": "L-77"},
        "start_delay_seconds": 0.5,
        "started_at": "2027-03-01T09:00:00.5Z",
        "state": State.COMPLETED.label,
        "worker": "worker:host-1:4711:5f1c",
    },
    "FlowDetails": {"topic": _TOPIC},
    "FlowDocument": {"topic": _TOPIC},
    "HourDocument": {"end": "2027-03-01T10:00:00Z"},
    "LeftAloneItems": {
        "reason": "it is parked; only an item that waits can be started now",
        "items": 3,
    },
    "LeftOutJob": {
        "where": "jobs:3",
        "text": "0 25 * * *",
        "reason": "hour `25`: 25 is outside the field",
        "accepted": "0 to 23",
    },
    "OtherLine": {
        "where": "jobs:1",
        "text": "MAILTO",
        "meaning": "receives the output; used as the owner of the jobs after it",
    },
    "SettingDocument": {
        "variable": "DUELEDGER_SERVICE_PORT",
        "value": "8480",
        "description": "port on which it listens; 0: any free one",
    },
    "CheckDocument": {"name": "schema", "health": "ok", "text": "up to date"},
    "FoundDocument": {
        "named": "event",
        "event": {
            "event_no": 1,
            "occurred_at": _INSTANT,
            "tenant": "acme",
            "source": "/policies",
            "id": "P-1001/renewed",
        },
    },
    "KeyList": {"items": ["P-1001", "P-1002"]},
    "LateItems": {"counted": 12, "late": 12},
    "LatenessDocument": {"below_seconds": 300, "items": 12},
    "ListedFinding": {"reason": None, "repair_status": "proposed"},
    "LoadDocument": {"end": "2027-03-08T09:00:00Z", "definitions": 12},
    "LoadPart": {"items": 12},
    "MissingDay": {"missing": 1, "present": 11, "expected": 12},
    "OverviewDocument": {"complete_since": None},
    "OverviewQuarter": {"due": 12, "completed": 11, "open": 1},
    "PeakDocument": {"due": 12, "busiest_minute": 12},
    "QuarterDocument": {"due": 12, "busiest_minute": 12},
    "QuietDocument": {"end": "2027-03-02T09:00:00Z"},
    "UncountedDocument": {"reason": "each event names its date"},
    "FindingCount": {"findings": 1, "under_a_day": 1},
    "FindingDocument": {"reason": None},
    "FindingRepair": {"status": "proposed"},
    "FindingResolution": {"resolution": "explained"},
    "KeyDocument": {"name": "billing", "is_valid": True},
    "MatchedItems": {"state": State.MANUAL_REVIEW.label, "items": 12},
    "NamedDay": {"day": "2027-01-01", "name": "New Year"},
    "NewKeyDocument": {"key": "due_3f9a1c0b5d7e2468_SHOWN-ONCE"},
    "OccurrenceChangeDocument": {"was": "2027-03-01T08:00:00Z", "was_local": "2027-03-01T09:00:00"},
    "OperationCount": {"items": 12},
    "OperationDocument": {
        "matched": 12,
        "reason": "INC-1234: the archive is back",
        "verb": "redrive",
    },
    "PauseDocument": {"paused_by": "key:jane"},
    "ProblemKind": {"code": "NOT_FOUND", "title": _REFUSED.title, "status": int(_REFUSED.status)},
    "ProcessDocument": {"name": "worker:host-1:4711:5f1c", "role": "worker", "version": "1.0.0"},
    "PulledItem": {
        "attempt": 1,
        "fence": 4711,
        "lease_seconds": 60.0,
        "position": 1,
        "token": "0006386f3f0a4c0099c2a1b7d0e4f566",
    },
    "ReportStatement": {"sentence": _STATEMENT, "verdict": "not_complete"},
    "ReportSummary": {"sentence": _STATEMENT, "verdict": "not_complete", "findings_open": 1},
    "ReviewDocument": {"attempt": 5, "starts": 5, "reason": "attempts exhausted"},
    "FindingComment": _COMMENT,
    "ReviewComment": _COMMENT,
    "ReviewGroup": {
        "items": 12,
        "reason": "attempts exhausted",
        "taken": 1,
        "taken_by": ["key:jane"],
    },
    "SkippedDocument": {"nominal": "2027-03-28T02:30:00", "reason": "gap"},
    "StatusDocument": {"flows": 1, "shown": 1, "due": 12, "failures": []},
    "StatusFlow": {"due": 12, "oldest_due_at": _INSTANT},
    "StatusGroup": {
        "code": "NO_CREDIT",
        "sentence": "Their workers have as many items as they want: start more of them.",
    },
    "TakenItem": {"result": "done", "taken_by": "key:jane", "taken_at": _INSTANT},
    "TopicDocument": {"topic": _TOPIC, "kinds": 1, "items": 12, "workers": 1},
    "TriggeredItem": {"created": True, "state": State.SCHEDULED.label},
    "WhyDocument": {
        "state": State.SCHEDULED.label,
        "code": "NOT_DUE",
        "sentence": "It is due at 2027-03-01 09:00 UTC.",
    },
    "WrittenComment": {**_COMMENT, "target": "flows/acme/PolicyRenewalDue/reviews"},
}


def add_examples(document: Schema) -> None:
    """Add an example to each answer in JSON of an OpenAPI document."""
    schemas: dict[str, Schema] = document["components"]["schemas"]
    for content in _answers(document):
        content["example"] = _compose(schemas, content["schema"])


def _answers(document: Schema) -> Iterator[Schema]:
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status.startswith("2") and _JSON in answer["content"]:
                    yield answer["content"][_JSON]


def _compose(schemas: dict[str, Schema], schema: Schema, model: str = "", name: str = "") -> Any:  # noqa: ANN401 - a value of JSON
    """Return an example of a schema: of the member `name` of a model, or of all of one."""
    values = _BY_NAME | _BY_MODEL.get(model, {})
    match schema:
        case _ if name in values:
            example = values[name]
        case {"$ref": str(reference)}:
            described = reference.rpartition("/")[2]
            example = _compose(schemas, schemas[described], described)
        case {"properties": members}:
            example = {each: _compose(schemas, members[each], model, each) for each in members}
        case {"type": "array", "items": item}:
            example = [_compose(schemas, item, model, name)]
        case {"anyOf": options}:
            refers = next((each for each in options if "$ref" in each), None)
            example = None if refers is None else _compose(schemas, refers)
        case _:
            example = _plain(schema, name)
    return example


def _plain(schema: Schema, name: str) -> object:
    """Return an example of a text, a number, or what may be anything; a text may be its name."""
    match schema:
        case {"enum": [example, *_]} | {"const": example}:
            return example
        case {"type": "string", "format": format_}:
            return _BY_FORMAT.get(format_, name)
        case {"type": type_}:
            return _BY_TYPE.get(type_, name)
        case _:
            return None
