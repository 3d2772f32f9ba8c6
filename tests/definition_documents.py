"""Documents of definitions: three that are accepted, and every change of them that is refused."""

from typing import Any

from dueledger.ledger.definitions.parsing import load_definitions

RENEWAL = """
definition: policy-renewal
tenant: acme
kind: PolicyRenewalDue
event: PolicyActivated
business_key: data.policy_number
cycle: data.term
effective_date: data.expires_on
when: {relative: P-30D, to: effective_date, at: 17:00, timezone: America/New_York}
cancel_on: [{event: PolicyCancelled, business_key: data.policy_number}]
supersede_on: [{event: PolicyAmended, business_key: data.policy_number}]
labels: {region: data.region}
lane: region
sla: {start_within: PT5M, complete_within: 1h}
retry: {attempt_max: 5, base: PT10S, cap: PT10M}
dispatch: {kafka: {topic: due.PolicyRenewalDue, partition_key: business_key}}
"""
NIGHTLY = """
definition: nightly-close
tenant: acme
kind: CloseDue
business_key: book-1
when: {cron: "*/5 * * * *", timezone: Europe/Berlin}
labels: {team: finance}
"""
LETTERS = """
kind: LetterDue
tenant: acme
retry: {attempt_max: 3}
deadlines: {run: PT2H}
dispatch: {direct: {}}
"""


def document(text: str, **changes: object) -> dict[str, Any]:
    """Return a good document with some fields changed; None takes a field out."""
    raw = load_definitions(text, source="test")[0].normalised() | changes
    return {field: value for field, value in raw.items() if value is not None}


REFUSED: list[tuple[str, dict[str, object], str, str, str]] = [
    (NIGHTLY, {"tenant": "ac me"}, "tenant", "characters", "A-Z"),
    (NIGHTLY, {"when": None}, "when", "is missing", "when: …"),
    (NIGHTLY, {"business_key": None}, "business_key", "is missing", "business_key: …"),
    (LETTERS, {"tenant": None}, "tenant", "is missing", "tenant: …"),
    (LETTERS, {"business_key": "x"}, "when", "is missing", "when: …"),
    (LETTERS, {"when": {"at": "2027-01-01T00:00", "timezone": "UTC"}}, "business_key", "is m", ""),
    (LETTERS, {"labels": {"team": "x"}}, "labels", "belongs to a schedule", "emits"),
    (LETTERS, {"overlap": "skip"}, "overlap", "belongs to a schedule", "emits"),
    (LETTERS, {"payload": 0}, "payload", "belongs to a schedule", "emits"),
    (LETTERS, {"smear": "PT1M"}, "smear", "belongs to a schedule", "emits"),
    (LETTERS, {"sla": {"complete_within": "PT1H"}}, "sla", "belongs to a schedule", "emits"),
    (
        LETTERS,
        {"dispatch": {"kafka": {"topic": "t", "partition_key": "data.k"}}},
        "dispatch.kafka.partition_key",
        "no event",
        "business_key",
    ),
    (NIGHTLY, {"kind": "x" * 101}, "kind", "100", ""),
    (NIGHTLY, {"kind": None, "dispatch": None}, "kind", "is missing", "kind: …"),
    (NIGHTLY, {"definition": "x" * 201}, "definition", "200", ""),
    (NIGHTLY, {"definition": "a\x00b"}, "definition", "NUL", ""),
    (NIGHTLY, {"business_key": "a\x1fb"}, "business_key", "U+001F", ""),
    (NIGHTLY, {"business_key": "k" * 513}, "business_key", "512", "shorter"),
    (NIGHTLY, {"business_key": 7}, "business_key", "must be a text", "quotes"),
    (NIGHTLY, {"cycle": "data.term"}, "cycle", "event rule", "nominal"),
    (NIGHTLY, {"cancel_on": [{"event": "X", "business_key": "data.k"}]}, "cancel_on", "event", ""),
    (NIGHTLY, {"payload": {"x": "y" * 262_144}}, "payload", "256 KiB", ""),
    (NIGHTLY, {"labels": {"team": 7}}, "labels.team", "must be a text", "quotes"),
    (NIGHTLY, {"lane": "region"}, "lane", "no label", "team"),
    (NIGHTLY, {"catchup": {}}, "catchup", "no such field", "catch_up"),
    (NIGHTLY, {"on": "X"}, "on", "no such field", "event"),
    (
        NIGHTLY,
        {"calendar": {"name": "us", "roll": "following"}},
        "calendar.name",
        "unknown calendar",
        "inline: {weekend: [sat, sun]",
    ),
    (NIGHTLY, {"calendar": {"weekend": ["sat"]}}, "calendar.roll", "is missing", "following"),
    (
        NIGHTLY,
        {"calendar": {"weekend": ["sat"], "roll": "forward"}},
        "calendar.roll",
        "not one of the accepted words",
        "following",
    ),
    (
        NIGHTLY,
        {"calendar": {"holidays": ["2027-01-01"], "roll": "skip"}},
        "calendar.weekend",
        "are weekends business days",
        "[sat, sun]",
    ),
    (
        NIGHTLY,
        {"calendar": {"weekend": [], "holidays": ["1.1.2027"], "roll": "skip"}},
        "calendar.holidays.0",
        "not a date",
        "2026-12-25",
    ),
    (
        NIGHTLY,
        {
            "when": {"cron": "@daily", "timezone": "UTC", "start": "2028-01-01T00:00"},
            "calendar": {"weekend": [], "last_day": "2027-12-31", "roll": "skip"},
        },
        "when.start",
        "after the calendar's last day",
        "covers it",
    ),
    (
        NIGHTLY,
        {"when": {"after_completion": "PT1H"}, "calendar": {"weekend": [], "roll": "skip"}},
        "calendar",
        "no times of its own",
        "another `when`",
    ),
    (
        NIGHTLY,
        {
            "when": {"business": {"day_of_month": 31}, "at": "09:00", "timezone": "UTC"},
            "calendar": {"weekend": ["sat", "sun"]},
        },
        "calendar.roll",
        "is missing",
        "day_of_month",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "business": {"day_of_month": 31, "roll": "following"},
                "at": "09:00",
                "timezone": "UTC",
            },
            "calendar": {"weekend": ["sat", "sun"], "roll": "preceding"},
        },
        "calendar.roll",
        "differs from the one in `when.business`",
        "one of the two",
    ),
    (
        NIGHTLY,
        {"when": {"business": {"nth": 24}, "at": "09:00", "timezone": "UTC"}},
        "when.business",
        "more than 23 business days",
        "1 to 23",
    ),
    (
        NIGHTLY,
        {"when": {"business": {"nth": 0}, "at": "09:00", "timezone": "UTC"}},
        "when.business",
        "outside its range",
        "-31 to -1",
    ),
    (
        NIGHTLY,
        {"when": {"business": {"day_of_month": 32}, "at": "09:00", "timezone": "UTC"}},
        "when.business",
        "outside its range",
        "1 to 31",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "business": {"day_of_month": 3, "roll": "skip"},
                "at": "09:00",
                "timezone": "UTC",
            }
        },
        "when.business",
        "unknown roll",
        "modified_following",
    ),
    (
        NIGHTLY,
        {"when": {"business": "middle", "at": "09:00", "timezone": "UTC"}},
        "when.business",
        "not a business day",
        "last, first",
    ),
    (
        NIGHTLY,
        {"when": {"at": "2027-01-01", "timezone": "UTC"}},
        "when.at",
        "without a time of day",
        "2026-11-01T01:30",
    ),
    (
        NIGHTLY,
        {"when": {"at": "2027-01-01T00:00Z", "timezone": "UTC"}},
        "when.at",
        "no offset",
        "its zone is `timezone`",
    ),
    (
        NIGHTLY,
        {"when": {"at": "2027-02-30T00:00", "timezone": "UTC"}},
        "when.at",
        "not an existing date and time",
        "2026-11-01T01:30",
    ),
    (
        NIGHTLY,
        {"when": {"at": "1002027-01-01T00:00", "timezone": "UTC"}},
        "when.at",
        "not a local time",
        "2026-11-01T01:30",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "cron": "@daily",
                "timezone": "UTC",
                "start": "2027-01-01T00:00",
                "end": "2026-01-01T00:00",
            }
        },
        "when.end",
        "not after the start",
        "exclusive",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "rrule": "FREQ=DAILY",
                "timezone": "UTC",
                "start": "2027-01-01T00:00",
                "end": "2027-01-01T00:00",
            }
        },
        "when.end",
        "not after the start",
        "exclusive",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "business": "last",
                "at": "09:00",
                "timezone": "UTC",
                "start": "2027-01-01T00:00",
                "end": "2026-01-01T00:00",
            }
        },
        "when.end",
        "not after the start",
        "exclusive",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "every": "PT1H",
                "anchor": "2027-01-01T00:00:00Z",
                "end": "2026-01-01T00:00:00Z",
            }
        },
        "when.end",
        "not after the start",
        "exclusive",
    ),
    (
        NIGHTLY,
        {
            "when": {
                "cron": "0 0 1 1 *",
                "timezone": "UTC",
                "start": "2027-02-01T00:00",
                "end": "2027-03-01T00:00",
            }
        },
        "when.cron",
        "never falls due",
        "sparse",
    ),
    (NIGHTLY, {"start": "2027-01-01T00:00"}, "start", "does not belong here", "inside `when`"),
    (NIGHTLY, {"smear": "PT10M"}, "smear", "shortest time between two", "at most PT5M"),
    (NIGHTLY, {"smear": "P1M"}, "smear", "fixed length", ""),
    (NIGHTLY, {"smear": "PT0S"}, "smear", "period", ""),
    (
        NIGHTLY,
        {"smear": "PT25H", "when": {"every": "P1D", "anchor": "2027-01-01T00:00:00Z"}},
        "smear",
        "longer",
        "PT24H",
    ),
    (NIGHTLY, {"smear": "PT1M", "when": {"after_completion": "PT10M"}}, "smear", "follows", ""),
    (NIGHTLY, {"overlap": "maybe"}, "overlap", "not one of the accepted words", "allow"),
    (
        NIGHTLY,
        {"catch_up": {"policy": "some"}},
        "catch_up.policy",
        "not one of the accepted words",
        "skip",
    ),
    (NIGHTLY, {"catch_up": {"window": "soon"}}, "catch_up.window", "period", ""),
    (NIGHTLY, {"catch_up": {"max_items": 0}}, "catch_up.max_items", "greater than or equal", ""),
    (NIGHTLY, {"catch_up": {"max_items": 10_001}}, "catch_up.max_items", "less than", ""),
    (
        NIGHTLY,
        {"catch_up": {"policy": "skip"}, "when": {"after_completion": "PT10M"}},
        "catch_up.policy",
        "none is ever missed",
        "all",
    ),
    (RENEWAL, {"catch_up": {"policy": "skip"}}, "catch_up.policy", "each event owes", "all"),
    (
        RENEWAL,
        {"catch_up": {"policy": "latest", "window": "P7D"}},
        "catch_up.policy",
        "each event owes",
        "all",
    ),
    (NIGHTLY, {"retry": {"deadline": "soon"}}, "retry.deadline", "period", ""),
    (
        NIGHTLY,
        {"order": {"by": "time"}},
        "order.by",
        "not one of the accepted words",
        "partition_key",
    ),
    (NIGHTLY, {"deadlines": {"run_late": "x"}}, "deadlines.run_late", "not one of", "park"),
    (NIGHTLY, {"retry": {"attempt_max": 0}}, "retry.attempt_max", "greater than or equal to 1", ""),
    (NIGHTLY, {"retry": {"base": "PT1H"}}, "retry.cap", "shorter than the base", "at least"),
    (NIGHTLY, {"retry": {"start_max": 4}}, "retry.start_max", "fewer starts", "at least"),
    (NIGHTLY, {"retry": {"streak_max": 0}}, "retry.streak_max", "greater than or equal to 1", ""),
    (NIGHTLY, {"redacted_fields": ["ssn"]}, "redacted_fields.0", "not a JSON Pointer", "/customer"),
    (LETTERS, {"redacted_fields": ["/", "/a~2"]}, "redacted_fields.1", "not a JSON Pointer", "~1"),
    (LETTERS, {"redacted_fields": ["/a"] * 51}, "redacted_fields", "at most 50 items", ""),
    (NIGHTLY, {"sla": {"complete_within": "soon"}}, "sla.complete_within", "period", "PT24H"),
    (
        NIGHTLY,
        {"sla": {"start_within": "PT2H", "complete_within": "PT1H"}},
        "sla.start_within",
        "later than the completion",
        "no longer",
    ),
    (NIGHTLY, {"dispatch": {"http": {"url": "x"}}}, "dispatch.http.url", "absolute", "https"),
    (NIGHTLY, {"dispatch": {}}, "dispatch", "has no method", "http"),
    (
        NIGHTLY,
        {"dispatch": {"direct": {}, "kafka": {"topic": "t"}}},
        "dispatch",
        "has kafka and direct at once",
        "{direct: {}}",
    ),
    (
        NIGHTLY,
        {"dispatch": {"direct": {"topic": "t"}}},
        "dispatch.direct.topic",
        "no such field",
        "partition_key",
    ),
    (NIGHTLY, {"dispatch": {"kafka": {"topic": "a b"}}}, "dispatch.kafka.topic", "characters", ""),
    *(
        (
            NIGHTLY,
            {"dispatch": {"kafka": {"topic": topic}}},
            "dispatch.kafka.topic",
            "reserved",
            "kind's own",
        )
        for topic in (
            "domain-events",
            "due-outcomes",
            "due-rejected",
            "due-repairs",
            "due-http.acme.RenewalDue",
            "__consumer_offsets",
        )
    ),
    *(
        (
            NIGHTLY,
            {"dispatch": {"kafka": {"topic": "t", "settled_by": "topic", "outcome_topic": topic}}},
            "dispatch.kafka.outcome_topic",
            reason,
            "such as outcomes.orders",
        )
        for topic, reason in (
            ("due-outcomes", "reserved"),
            ("__consumer_offsets", "reserved"),
            ("due.CloseDue", "as work topics do"),
            ("t", "topic of the items"),
        )
    ),
    (
        NIGHTLY,
        {"dispatch": {"kafka": {"topic": "t", "outcome_topic": "outcomes.t"}}},
        "dispatch.kafka.outcome_topic",
        "workers report no outcomes",
        "settled_by: topic",
    ),
    (
        NIGHTLY,
        {"dispatch": {"kafka": {"topic": "t", "lease": "PT5M"}}},
        "dispatch.kafka.lease",
        "worker's own",
        "settled_by: topic",
    ),
    (
        NIGHTLY,
        {"dispatch": {"kafka": {"topic": "t", "settled_by": "topic", "lease": "P31D"}}},
        "dispatch.kafka.lease",
        "thirty days",
        "PT10M",
    ),
    (
        NIGHTLY,
        {"dispatch": {"kafka": {"topic": "t", "partition_key": "data.x"}}},
        "dispatch.kafka.partition_key",
        "no event",
        "business_key",
    ),
    (
        NIGHTLY,
        {"when": {"rrule": "FREQ=DAILY", "timezone": "UTC"}},
        "when.start",
        "is missing",
        "start",
    ),
    (
        NIGHTLY,
        {"when": {"rrule": "FREQ=SECONDLY", "start": "2027-01-01T00:00", "timezone": "UTC"}},
        "when.rrule",
        "finer than a minute",
        "every: PT30S",
    ),
    (NIGHTLY, {"when": {}}, "when", "no known kind", "`cron"),
    (NIGHTLY, {"when": "daily"}, "when", "mapping", "`cron"),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "every": "PT1H", "timezone": "UTC"}},
        "when",
        "at once",
        "one of them",
    ),
    (NIGHTLY, {"when": {"cron": "@daily"}}, "when.timezone", "is missing", "timezone"),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "europe/berlin"}},
        "when.timezone",
        "unknown time zone",
        "Europe/Berlin",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "H * * * *", "timezone": "UTC"}},
        "when.cron",
        "hash",
        "fixed minute",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "0 0 13 * 5", "timezone": "UTC"}},
        "when.day_rule",
        "both restricted",
        "any",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "UTC", "preset": "vixie"}},
        "when.preset",
        "not a preset",
        "debian or rfc5545",
    ),
    (
        NIGHTLY,
        {"when": {"at": "2027-01-01T00:00", "timezone": "UTC", "preset": "debian"}},
        "when.preset",
        "only for cron",
        "rfc5545",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "UTC", "preset": "debian", "gap": "skip"}},
        "when.preset",
        "given together with",
        "a preset, or",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "UTC", "calendar": {"weekend": []}}},
        "when.calendar",
        "does not belong here",
        "beside `when`",
    ),
    (
        NIGHTLY,
        {"when": {"cron": "@daily", "timezone": "UTC", "gaps": "skip"}},
        "when.gaps",
        "no such field",
        "gap",
    ),
    (
        NIGHTLY,
        {"when": {"relative": "P-30D", "at": "09:00", "timezone": "UTC"}},
        "when",
        "counts from an event",
        "cron or every",
    ),
    (RENEWAL, {"when": {"cron": "@daily", "timezone": "UTC"}}, "when", "recurs", "relative"),
    (
        RENEWAL,
        {"when": {"at": "2027-01-01T00:00", "timezone": "UTC"}},
        "when",
        "same time for every event",
        "relative: P0D",
    ),
    (
        RENEWAL,
        {"calendar": {"weekend": ["sat", "sun"], "roll": "skip"}},
        "calendar.roll",
        "owed once",
        "following",
    ),
    (RENEWAL, {"cycle": None}, "cycle", "an event rule needs it", "data.cycle"),
    (
        RENEWAL,
        {"effective_date": None},
        "effective_date",
        "an event rule needs it",
        "data.effective_date",
    ),
    (RENEWAL, {"business_key": "data.["}, "business_key", "not a JMESPath", "data.policy_number"),
    (RENEWAL, {"cycle": "(" * 900}, "cycle", "not a JMESPath", "data.policy_number"),
    (RENEWAL, {"cycle": "data.["}, "cycle", "not a JMESPath", "data.policy_number"),
    (RENEWAL, {"labels": {"region": "["}}, "labels.region", "not a JMESPath", ""),
    (RENEWAL, {"payload": {"a": 1}}, "payload.a", "not a JMESPath", "backticks"),
    (RENEWAL, {"payload": [1]}, "payload", "neither", "data"),
    (RENEWAL, {"payload": {"a\0": "data"}}, "payload", "NUL", "without it"),
    (NIGHTLY, {"payload": {"a": [{"b": "x\0y"}]}}, "payload", "NUL", "without it"),
    (NIGHTLY, {"payload": {"a": {"b\0": 1}}}, "payload", "NUL", "without it"),
    (
        NIGHTLY,
        {"labels": {f"label-{number}": "\U0001f4c5" * 100 for number in range(32)}},
        "labels",
        "8 KiB",
        "fewer",
    ),
    (
        NIGHTLY,
        {"dispatch": {"kafka": {"topic": ".."}}},
        "dispatch.kafka.topic",
        "Kafka does not allow",
        "due.orders",
    ),
    (NIGHTLY, {"definition": "report\u202efdp"}, "definition", "has U+202E", "visible"),
    (NIGHTLY, {"definition": "two\nlines"}, "definition", "has U+000A", "visible"),
    (NIGHTLY, {"definition": "zero\u200bwidth"}, "definition", "has U+200B", "visible"),
    (NIGHTLY, {"deadlines": {"queue": "P36525D"}}, "deadlines.queue", "thirty days", "PT2M"),
    (NIGHTLY, {"deadlines": {"dispatch": "P31D"}}, "deadlines.dispatch", "thirty days", "PT2M"),
    (
        RENEWAL,
        {"cancel_on": [{"event": "X"}]},
        "cancel_on.0.business_key",
        "is missing",
        "business_key",
    ),
]
