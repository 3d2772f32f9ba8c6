"""A definition names no topic that a process or another tenant uses."""

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.definitions.topic_rules import ANY_TOPIC, TopicRules, check_topics
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.store import Connection
from tests.definition_documents import NIGHTLY, document

RULES = TopicRules(
    {"orders-events": "DUELEDGER_EVENT_TOPIC"},
    {"acme.": "acme", "acme.shared.": "umbrella", "globex.": "globex"},
)


def refusals(topic: str, tenant: str, rules: TopicRules = RULES) -> list[str]:
    definition = parse_definition(
        document(NIGHTLY, tenant=tenant, dispatch={"kafka": {"topic": topic}})
    )
    try:
        check_topics([definition], rules, {})
    except InvalidInput as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("tenant", "topic", "named"),
    [
        ("acme", "orders-events", "DUELEDGER_EVENT_TOPIC"),
        ("globex", "acme.orders", "the tenant acme"),
        ("acme", "acme.shared.orders", "the tenant umbrella"),
    ],
)
def test_a_topic_of_a_process_or_another_tenant_is_refused(
    tenant: str, topic: str, named: str
) -> None:
    (refusal,) = refusals(topic, tenant)
    assert named in refusal
    assert "dispatch.kafka.topic" in refusal


@pytest.mark.parametrize(
    ("tenant", "topic"),
    [
        ("acme", "acme.orders"),
        ("umbrella", "acme.shared.orders"),
        ("acme", "due.CloseDue"),
        ("globex", "acme-orders"),
        ("globex", "orders-events.v2"),
    ],
)
def test_a_topic_of_ones_own_or_of_nobody_is_accepted(tenant: str, topic: str) -> None:
    assert refusals(topic, tenant) == []


def test_without_settings_a_topic_is_for_every_tenant() -> None:
    assert refusals("acme.orders", "globex", ANY_TOPIC) == []


async def test_no_definition_is_put_in_force_if_one_names_another_tenants_topic(
    connection: Connection, actor_no: int
) -> None:
    own = document(NIGHTLY, dispatch={"kafka": {"topic": "acme.close"}})
    other = document(NIGHTLY, tenant="globex", dispatch={"kafka": {"topic": "acme.close"}})
    definitions = [parse_definition(each) for each in (own, other)]

    with pytest.raises(InvalidInput, match="belongs to the tenant acme"):
        await put_in_force(connection, definitions, actor_no=actor_no, topic_rules=RULES)

    assert await connection.fetchval("select count(*) from ledger.definition") == 0
    (defined,) = await put_in_force(
        connection, definitions[:1], actor_no=actor_no, topic_rules=RULES
    )
    assert defined.changed
