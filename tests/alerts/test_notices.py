"""What is sent of alerts that come and go: rows before and after, without a server."""

from datetime import UTC, datetime, timedelta

import pytest

from dueledger.alerts.notices import AlertRows, after_sending, due_notices, update_rows
from dueledger.alerts.rules import AlertKey, evaluate
from dueledger.ledger.metrics import Metric, Sample

BEGAN = datetime(2027, 3, 1, tzinfo=UTC)
KEY = AlertKey("TopicSilent", ("due.Renewal",))
CHANNELS = ("mail", "webhook")

FLAPS = [
    # A step: seconds since the one before, whether the alert is found, channels that refuse;
    # and what is sent then: its state, and the channel.
    pytest.param(
        [
            (0, True, "", ""),
            (31, True, "", "firing mail, firing webhook"),
            (15, False, "", ""),
            (15, True, "", ""),  # it was over for less than 30 s
            (15, False, "", ""),
            (31, False, "", "resolved mail, resolved webhook"),
        ],
        1,
        id="a pause of half a minute is no end",
    ),
    pytest.param(
        [
            (0, True, "", ""),
            (31, True, "", "firing mail, firing webhook"),
            (15, False, "", ""),
            (31, False, "mail", "resolved webhook"),
            (15, True, "mail", ""),  # it begins anew: nobody waits for the end before
            (31, True, "", "firing mail, firing webhook"),
            (15, False, "", ""),
            (31, False, "", "resolved mail, resolved webhook"),
        ],
        2,
        id="an alert whose end was sent begins anew",
    ),
    pytest.param(
        [
            (0, True, "", ""),
            (31, True, "", "firing mail, firing webhook"),
            (15, False, "", ""),
            (61, True, "", ""),  # nobody has its end: no pass was made meanwhile
        ],
        1,
        id="an end that nobody has is none",
    ),
    pytest.param([(0, True, "", ""), (15, False, "", ""), (60, False, "", "")], 0, id="too short"),
]


@pytest.mark.parametrize(("steps", "ids"), FLAPS)
def test_a_firing_has_an_id_of_its_own_and_each_channel_its_end_once(
    steps: list[tuple[int, bool, str, str]], ids: int
) -> None:
    rows: AlertRows = {}
    now, firings = BEGAN, set[str]()
    for seconds, is_found, refuses, expected in steps:
        now += timedelta(seconds=seconds)
        rows = update_rows(rows, {KEY: 1.0} if is_found else {}, now)
        sent: list[str] = []
        for notice in due_notices(rows, CHANNELS, now):
            status = notice.document()["status"]
            if notice.channel not in refuses:
                sent.append(f"{status} {notice.channel}")
                rows[KEY] = after_sending(rows[KEY], notice.channel)
            if status == "firing":
                firings.add(notice.id)
        assert ", ".join(sent) == expected
        rows = {key: row for key, row in rows.items() if not row.is_over}
    assert len(firings) == ids


def test_alerts_that_one_channel_refuses_do_not_keep_others_from_it() -> None:
    """Of each channel the first notices are sent, however many wait for another one."""
    keys = [AlertKey("TopicSilent", (f"due.{number:03}",)) for number in range(100)]
    rows = update_rows({}, dict.fromkeys(keys, 1.0), BEGAN)
    notices = due_notices(rows, CHANNELS, BEGAN + timedelta(seconds=60), per_channel_max=50)
    for channel in CHANNELS:
        assert sum(notice.channel == channel for notice in notices) == 50


def test_an_alert_inhibits_others_until_it_has_ended() -> None:
    """Partitions that were stalled by Kafka are read again a moment after it is back."""
    kafka = AlertKey("KafkaUnreachable", ("worker",))
    rows: AlertRows = {}
    now, sent = BEGAN, list[tuple[int, str]]()
    for seconds, found in ((0, {kafka, KEY}), (60, {kafka, KEY}), (90, {KEY}), (105, {KEY})):
        now = BEGAN + timedelta(seconds=seconds)
        rows = update_rows(rows, dict.fromkeys(found, 1.0), now)
        for notice in due_notices(rows, ["mail"], now):
            sent.append((seconds, notice.row.name))
            key = AlertKey(notice.row.name, notice.row.labels)
            rows[key] = after_sending(rows[key], notice.channel)
    assert sent == [(60, "KafkaUnreachable")]
    rows = update_rows(rows, {KEY: 1.0}, now + timedelta(seconds=15))
    names = [notice.row.name for notice in due_notices(rows, ["mail"], now + timedelta(seconds=15))]
    assert names == ["KafkaUnreachable", "TopicSilent"]


def test_an_alert_that_comes_and_goes_and_is_never_sent_keeps_no_other_from_being_sent() -> None:
    kafka = AlertKey("KafkaUnreachable", ("worker",))
    rows: AlertRows = {}
    names: set[str] = set()
    for step in range(12):
        now = BEGAN + timedelta(seconds=15 * step)
        found = {KEY} if step % 2 else {kafka, KEY}
        rows = update_rows(rows, dict.fromkeys(found, 1.0), now)
        names |= {notice.row.name for notice in due_notices(rows, ["mail"], now)}
        rows = {key: row for key, row in rows.items() if not row.is_over}
    assert names == {"TopicSilent"}


def test_what_is_found_beside_inhibits_as_well() -> None:
    postgres = AlertKey("PostgresUnreachable", ("alert",))
    rows = update_rows({}, {KEY: 1.0}, BEGAN)
    beside = update_rows({}, {postgres: 1.0}, BEGAN)
    now = BEGAN + timedelta(seconds=60)
    assert due_notices(rows, ["mail"], now, beside=beside) == []
    assert len(due_notices(rows, ["mail"], now)) == 1


def test_the_bound_of_the_database_is_a_setting() -> None:
    samples = [Sample(Metric.CLAIMERS, 1, ("allocator",)), Sample(Metric.DATABASE_BYTES, 2)]
    assert [key.name for key in evaluate(samples, database_bytes_max=1)] == ["DatabaseLarge"]
    assert evaluate(samples, database_bytes_max=2) == {}
