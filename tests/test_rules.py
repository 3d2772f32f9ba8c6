import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from dueledger.ledger.definitions.parsing import Definition, load_definitions
from dueledger.ledger.errors import BeyondCalendar, InvalidEvent, InvalidItem
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, Supersession
from dueledger.ledger.rules.event_rules import DomainEvent, apply_rule
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.schedule import cycle_of, tzdata_version

RENEWAL = """
definition: policy-renewal
tenant: acme
kind: PolicyRenewalDue
event: PolicyActivated
business_key: data.policy_number
cycle: "join('#', [to_string(data.term), to_string(data.revision)])"
effective_date: data.expires_on
when: {relative: P-30D, at: "09:00", timezone: America/New_York}
cancel_on: [{event: PolicyCancelled, business_key: data.policy}]
supersede_on: [{event: PolicyAmended, business_key: data.policy_number}]
labels: {region: data.region}
lane: region
sla: {start_within: PT5M, complete_within: PT1H}
"""
POLICY: Mapping[str, object] = {
    "policy_number": "P-1001",
    "term": 2027,
    "revision": 1,
    "expires_on": "2027-03-01",
    "region": "north",
}


def rule(text: str = RENEWAL, **changes: object) -> Definition:
    document = load_definitions(text, source="test")[0].normalised() | changes
    return load_definitions(json.dumps(document), source="test")[0]


def event(kind: str = "PolicyActivated", **changes: object) -> DomainEvent:
    return DomainEvent(
        tenant="acme",
        source="/acme/policies",
        id="e-1",
        type=kind,
        time=datetime(2026, 4, 1, 12, tzinfo=UTC),
        subject="P-1001",
        data={**POLICY, **changes},
        traceparent="00-1-1-01",
    )


def refusal(definition: Definition, happened: DomainEvent) -> InvalidEvent:
    with pytest.raises(InvalidEvent) as refused:
        apply_rule(definition, happened)
    assert refused.value.fields["definition"] == definition.definition
    return refused.value


def test_an_event_owes_one_item_with_its_whole_provenance() -> None:
    (draft,) = apply_rule(rule(), event())
    assert draft == ItemDraft(
        tenant="acme",
        kind="PolicyRenewalDue",
        lane="north",
        business_key="P-1001",
        cycle="2027#1",
        effective_date=date(2027, 3, 1),
        due_at=datetime(2027, 1, 30, 14, tzinfo=UTC),
        start_by=datetime(2027, 1, 30, 14, 5, tzinfo=UTC),
        complete_by=datetime(2027, 1, 30, 15, tzinfo=UTC),
        payload=draft.payload if isinstance(draft, ItemDraft) else "",
        labels='{"region":"north"}',
        definition_name="policy-renewal",
        nominal="2027-01-30T09:00",
        zone="America/New_York",
        decision="exact",
        tzdata=tzdata_version(),
        traceparent="00-1-1-01",
    )
    assert isinstance(draft, ItemDraft)
    assert json.loads(draft.payload) == POLICY


@pytest.mark.parametrize(
    "happened", [event("PolicyRenamed"), replace(event(), tenant="other")], ids=["type", "tenant"]
)
def test_what_is_not_the_rules_concern_owes_nothing(happened: DomainEvent) -> None:
    assert apply_rule(rule(), happened) == []


def test_an_event_cancels_by_its_own_path_to_the_key() -> None:
    assert apply_rule(rule(), event("PolicyCancelled", policy="P-9")) == [
        Cancellation("acme", "PolicyRenewalDue", "P-9", "PolicyCancelled", "policy-renewal")
    ]


def test_an_amendment_supersedes_by_an_item_of_its_own() -> None:
    (first,) = apply_rule(rule(), event())
    (found,) = apply_rule(rule(), event("PolicyAmended", revision=2, region="south"))
    assert isinstance(first, ItemDraft)
    assert isinstance(found, Supersession)
    assert (found.business_key, found.reason) == ("P-1001", "PolicyAmended")
    assert found.replacement.lane == "south"
    assert found.replacement.id != first.id


def test_an_amendment_without_a_revision_in_its_cycle_is_the_same_item() -> None:
    plain = rule(cycle="data.term")
    (first,) = apply_rule(plain, event())
    (found,) = apply_rule(plain, event("PolicyAmended", region="south"))
    assert isinstance(first, ItemDraft)
    assert isinstance(found, Supersession)
    assert found.replacement.id == first.id


def test_one_event_may_both_withdraw_and_owe() -> None:
    both = rule(cancel_on=[{"event": "PolicyActivated", "business_key": "data.replaces"}])
    found = apply_rule(both, event(replaces="P-0"))
    assert [type(each) for each in found] == [ItemDraft, Cancellation]


def test_rules_are_pure() -> None:
    happened = event()
    assert apply_rule(rule(), happened) == apply_rule(rule(), happened)
    assert happened == event()


def test_the_payload_is_what_the_definition_addresses() -> None:
    mapped = rule(payload={"policy": "data.policy_number", "from": "source", "currency": "'EUR'"})
    (draft,) = apply_rule(mapped, event())
    assert isinstance(draft, ItemDraft)
    assert json.loads(draft.payload) == {
        "policy": "P-1001",
        "from": "/acme/policies",
        "currency": "EUR",
    }


def test_the_whole_event_can_be_addressed() -> None:
    whole = rule(payload="@", business_key="subject", labels={}, lane=None)
    (draft,) = apply_rule(whole, event())
    assert isinstance(draft, ItemDraft)
    assert draft.business_key == "P-1001"
    assert json.loads(draft.payload) == {
        "id": "e-1",
        "source": "/acme/policies",
        "type": "PolicyActivated",
        "subject": "P-1001",
        "time": "2026-04-01T12:00:00Z",
        "data": POLICY,
    }


def test_the_partition_key_can_be_the_events() -> None:
    by_region = rule(
        dispatch={"kafka": {"topic": "due.PolicyRenewalDue", "partition_key": "data.region"}}
    )
    (draft,) = apply_rule(by_region, event())
    assert isinstance(draft, ItemDraft)
    assert draft.partition_key == "north"


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"policy_number": None}, "data.policy_number", "missing or null"),
        ({"policy_number": ""}, "data.policy_number", "is empty"),
        ({"policy_number": 1.5}, "data.policy_number", "neither a text nor a whole number"),
        ({"policy_number": True}, "data.policy_number", "neither a text nor a whole number"),
        ({"policy_number": ["P"]}, "data.policy_number", "neither a text nor a whole number"),
        ({"policy_number": "P\x00"}, "data.policy_number", "NUL"),
        ({"policy_number": "P\x1f"}, "data.policy_number", "U+001F"),
        ({"policy_number": "P\ud800"}, "data.policy_number", "lone surrogate"),
        ({"policy_number": "P" * 513}, "data.policy_number", "longer than 512"),
        ({"term": "t" * 201}, "to_string(data.term)", "longer than 190"),
        ({"expires_on": None}, "data.expires_on", "missing or null"),
        ({"expires_on": "2027-3-1"}, "data.expires_on", "not a date"),
        ({"expires_on": "2027-02-29"}, "data.expires_on", "not a date"),
        ({"expires_on": "2027-W1-01"}, "data.expires_on", "not a date"),
        ({"expires_on": "2027-03-01T00:00:00Z"}, "data.expires_on", "not a date"),
        ({"expires_on": 20270301}, "data.expires_on", "not a date"),
        ({"expires_on": "1969-12-31"}, "data.expires_on", "outside 1970 to 2199"),
        ({"expires_on": "2200-01-01"}, "data.expires_on", "outside 1970 to 2199"),
        ({"expires_on": "1970-01-10"}, "as due_at", "outside 1970 to 2199"),
        ({"region": None}, "data.region", "missing or null"),
        ({"region": "r" * 101}, "data.region", "longer than 100"),
        ({"region": "r\x00"}, "data.region", "NUL"),
        ({"big": "x" * 262_144}, "payload", "over 256 KiB"),
        ({"big": 2**70}, "payload", "exceeds 64-bit"),
    ],
)
def test_what_an_event_lacks_is_refused_by_path_and_reason(
    changes: dict[str, object], path: str, reason: str
) -> None:
    (problem,) = refusal(rule(), event("PolicyActivated", **changes)).problems
    assert path in problem.field
    assert reason in problem.reason


def test_a_path_that_fails_on_the_event_is_refused() -> None:
    failing = rule(cycle="join('-', data.term)")
    (problem,) = refusal(failing, event()).problems
    assert problem.field.endswith("(as cycle)")
    assert "join" in problem.reason


def test_a_number_that_overflows_a_function_is_refused_not_a_crash() -> None:
    failing = rule(cycle="ceil(data.term)")
    (problem,) = refusal(failing, event(term=float("inf"))).problems
    assert problem.field == "ceil(data.term) (as cycle)"


def test_an_event_without_data_is_refused_not_a_crash() -> None:
    happened = replace(event(), data=None)
    assert refusal(rule(), happened).problems[0].reason.startswith("is missing")


NIGHTLY = """
definition: nightly
tenant: acme
kind: CloseDue
business_key: book-1
when: {cron: "30 1 * * *", timezone: America/New_York, gap: skip, fold: both}
labels: {region: north}
lane: region
sla: {complete_within: PT1H}
payload: {book: 1}
"""


def test_a_schedule_owes_an_item_each_nominal_time_and_both_of_a_fold() -> None:
    start, end = datetime(2026, 10, 31, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
    found = draft_occurrences(rule(NIGHTLY), start, end)
    assert [(draft.cycle, draft.due_at.hour, draft.decision) for draft in found.drafts] == [
        ("2026-10-31T01:30", 5, "exact"),
        ("2026-11-01T01:30", 5, "fold_both_first"),
        ("2026-11-01T01:30#2", 6, "fold_both_second"),
    ]
    assert len({draft.id for draft in found.drafts}) == 3
    first = found.drafts[0]
    assert first.effective_date == date(2026, 10, 31)
    assert (first.business_key, first.lane, first.payload) == ("book-1", "north", '{"book":1}')
    assert (first.nominal, first.zone) == ("2026-10-31T01:30", "America/New_York")
    assert first.complete_by == datetime(2026, 10, 31, 6, 30, tzinfo=UTC)
    assert first.start_by is None
    assert found.skipped == []


def test_g2_an_occurrence_in_a_gap_is_recorded_as_skipped() -> None:
    in_gap = NIGHTLY.replace("30 1", "30 2")
    start, end = datetime(2027, 3, 14, tzinfo=UTC), datetime(2027, 3, 15, tzinfo=UTC)
    found = draft_occurrences(rule(in_gap), start, end)
    assert found.drafts == []
    (skipped,) = found.skipped
    assert (skipped.reason, skipped.draft.cycle) == ("gap", "2027-03-14T02:30")
    assert skipped.draft.due_at == datetime(2027, 3, 14, 7, tzinfo=UTC)


def test_g2_what_a_calendar_leaves_out_is_recorded_as_skipped() -> None:
    sundays = {"weekend": ["sun"], "holidays": ["2026-10-31"], "roll": "skip"}
    start, end = datetime(2026, 10, 31, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC)
    found = draft_occurrences(rule(NIGHTLY, calendar=sundays), start, end)
    assert [draft.cycle for draft in found.drafts] == ["2026-11-02T01:30"]
    assert [(skip.reason, skip.draft.cycle) for skip in found.skipped] == [
        ("calendar", "2026-10-31T01:30"),
        ("calendar", "2026-11-01T01:30"),
        ("calendar", "2026-11-01T01:30#2"),
    ]
    assert len({skip.draft.id for skip in found.skipped}) == 3


def test_a_rolled_item_keeps_the_cycle_and_the_date_that_name_it() -> None:
    monthly = {"business": {"day_of_month": 31}, "at": "09:00", "timezone": "America/New_York"}
    rolls = {"weekend": ["sat", "sun"], "roll": "following"}
    start, end = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC)
    (draft,) = draft_occurrences(rule(NIGHTLY, when=monthly, calendar=rolls), start, end).drafts
    assert (draft.cycle, draft.effective_date) == ("2026-10-31T09:00", date(2026, 10, 31))
    assert (draft.due_at, draft.decision) == (datetime(2026, 11, 2, 14, tzinfo=UTC), "rolled")


def test_a_schedule_beyond_its_calendar_is_an_error_that_names_the_day() -> None:
    ends = {"weekend": ["sat", "sun"], "last_day": "2026-12-31", "roll": "skip"}
    start, end = datetime(2026, 12, 31, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    with pytest.raises(BeyondCalendar, match="2027-01-01"):
        draft_occurrences(rule(NIGHTLY, calendar=ends), start, end)


def test_an_event_item_is_moved_to_a_business_day_and_refused_where_none_is_known() -> None:
    calendar = {"weekend": ["sat", "sun"], "last_day": "2027-12-31", "roll": "preceding"}
    (draft,) = apply_rule(rule(calendar=calendar), event(expires_on="2027-03-30"))
    assert isinstance(draft, ItemDraft)
    assert draft.due_at.date() == date(2027, 2, 26)  # the 28th is a Sunday
    assert draft.decision == "rolled"
    assert draft.nominal is not None
    assert draft.nominal.startswith("2027-02-28")
    problem = refusal(rule(calendar=calendar), event(expires_on="2028-03-30")).problems[0]
    assert "ends on 2027-12-31" in problem.reason


def test_the_effective_date_is_the_local_one() -> None:
    tokyo = rule(NIGHTLY, when={"cron": "0 3 * * *", "timezone": "Asia/Tokyo"})
    start, end = datetime(2027, 3, 1, 12, tzinfo=UTC), datetime(2027, 3, 2, tzinfo=UTC)
    (draft,) = draft_occurrences(tokyo, start, end).drafts
    assert (draft.due_at.day, draft.effective_date) == (1, date(2027, 3, 2))


def test_a_cycle_has_seconds_only_where_there_are_any() -> None:
    nominal = datetime(2027, 3, 1, 9, 0)  # noqa: DTZ001 - nominal times are naive
    assert cycle_of(nominal) == "2027-03-01T09:00"
    assert cycle_of(nominal.replace(second=30)) == "2027-03-01T09:00:30"


def test_an_event_rule_has_no_window_and_a_schedule_no_event() -> None:
    start, end = datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 3, 2, tzinfo=UTC)
    with pytest.raises(InvalidItem, match="not a schedule"):
        draft_occurrences(rule(), start, end)
    assert apply_rule(rule(NIGHTLY), event()) == []
