"""A definition names no topic that a process or another tenant uses."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dueledger.definitions.put_in_force import put_in_force
from dueledger.definitions.topic_rules import ANY_TOPIC, TopicRules, check_topics
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.store import Connection, connect
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


@pytest.mark.parametrize(
    ("tenant", "topic", "named"),
    [
        ("acme", "orders-events", "DUELEDGER_EVENT_TOPIC"),
        ("globex", "acme.outcomes", "the tenant acme"),
    ],
)
def test_a_topic_of_outcomes_is_refused_as_a_work_topic_is(
    tenant: str, topic: str, named: str
) -> None:
    definition = _settled_by_topic("orders", topic, tenant=tenant)
    with pytest.raises(InvalidInput) as refused:
        check_topics([definition], RULES, {})
    (problem,) = refused.value.problems
    assert named in str(problem)
    assert "dispatch.kafka.outcome_topic" in str(problem)


@pytest.mark.parametrize(
    ("topic", "outcome_topic", "field", "use"),
    [
        ("orders", "letters", "outcome_topic", "acme/CloseDue uses it for items"),
        ("outcomes.letters", "outcomes.orders", "topic", "acme/CloseDue uses it for outcomes"),
    ],
)
async def test_no_topic_has_items_of_one_kind_and_outcomes_of_another(
    connection: Connection, actor_no: int, topic: str, outcome_topic: str, field: str, use: str
) -> None:
    letters = _settled_by_topic("letters", "outcomes.letters")
    await put_in_force(connection, [letters], actor_no=actor_no)
    orders = _settled_by_topic(topic, outcome_topic, definition="orders", kind="OrderDue")

    with pytest.raises(InvalidInput) as refused:
        await put_in_force(connection, [orders], actor_no=actor_no)

    (problem,) = refused.value.problems
    assert f"dispatch.kafka.{field}" in str(problem)
    assert use in str(problem)
    # Kinds that share a work topic may share the topic of its outcomes.
    shared = _settled_by_topic("letters", "outcomes.letters", definition="orders", kind="OrderDue")
    await put_in_force(connection, [shared], actor_no=actor_no)


def _posted(kind: str, compression: str | None) -> Definition:
    """Return a definition whose items are in the topic `post`."""
    return parse_definition(
        document(
            NIGHTLY,
            definition=kind.lower(),
            kind=kind,
            dispatch={"kafka": {"topic": "post", "compression": compression}},
        )
    )


async def test_the_kinds_of_a_topic_have_one_codec_which_its_batches_have(
    connection: Connection, actor_no: int
) -> None:
    letters, orders = _posted("LetterDue", "gzip"), _posted("OrderDue", None)
    await put_in_force(connection, [letters], actor_no=actor_no)

    with pytest.raises(InvalidInput) as refused:
        await put_in_force(connection, [orders], actor_no=actor_no)

    (problem,) = refused.value.problems
    assert "dispatch.kafka.compression" in str(problem)
    assert "acme/LetterDue and acme/OrderDue" in str(problem)
    both = [_posted(kind, "none") for kind in ("LetterDue", "OrderDue")]
    await put_in_force(connection, both, actor_no=actor_no)


async def test_of_two_sessions_that_define_kinds_of_one_topic_the_later_one_meets_the_others_codec(
    connection: Connection,
    database: str,
    actor_no: int,
    eventually: Callable[[Callable[[], Awaitable[object]]], Awaitable[object]],
) -> None:
    letters, orders = _posted("LetterDue", "gzip"), _posted("OrderDue", "none")
    rival = await connect(database, application_name="test")
    pid = await rival.fetchval("select pg_backend_pid()")
    async with connection.transaction():
        await put_in_force(connection, [letters], actor_no=actor_no)
        defining = asyncio.create_task(put_in_force(rival, [orders], actor_no=actor_no))

        async def waits_or_has_ended() -> bool:
            waits = "select cardinality(pg_blocking_pids($1)) > 0"
            return defining.done() or await connection.fetchval(waits, pid)

        await eventually(waits_or_has_ended)

    with pytest.raises(InvalidInput, match="acme/LetterDue and acme/OrderDue"):
        await defining
    await rival.close()


def _settled_by_topic(topic: str, outcome_topic: str, **fields: object) -> Definition:
    kafka = {"topic": topic, "settled_by": "topic", "outcome_topic": outcome_topic}
    return parse_definition(document(NIGHTLY, **{"dispatch": {"kafka": kafka}, **fields}))


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
