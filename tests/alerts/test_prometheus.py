"""The files for Prometheus, Alertmanager and Grafana are written from the rules."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dueledger.alerts.prometheus import (
    dashboard_file,
    exposed_names,
    inhibitions_file,
    rules_file,
)
from dueledger.alerts.rules import RULES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RUNBOOK = ROOT / "docs" / "runbook.md"
NAME = re.compile(r"\bdueledger_\w+")
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: on Debian, `apt-get install prometheus`"
)


def run_promtool(*arguments: str) -> str:
    """Return what promtool prints; fail if it refuses."""
    assert PROMTOOL is not None
    result = subprocess.run(  # noqa: S603 - our own files
        [PROMTOOL, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


DOCUMENT = ROOT / "docs" / "alerts.md"
INTRODUCTION = """\
# Alerts

What to do for each alert is in the [runbook](runbook.md). `page` calls somebody, `ticket` waits for
the day. `make schema` makes this page, and the files below, of the rules in the code.

## With Prometheus

| file in `deploy/prometheus` | for |
|---|---|
| `rules.yml` | Prometheus, from 2.42 on |
| `inhibit.yml` | Alertmanager: which alert inhibits which; add it to its configuration |
| `dashboard.json` | Grafana |

Prometheus needs `/metrics` at `DUELEDGER_METRICS_PORT` of every allocator and direct worker, and of
each `dueledger serve` whose login may do upkeep: one of them measures the ledger. While none does,
`AllocatorMissing` fires, and no other alert of the ledger is evaluated.

## Without Prometheus

`dueledger alert` evaluates the same rules on the same numbers, each
`DUELEDGER_ALERT_INTERVAL_SECONDS` (15). It sends each alert that fires once to each channel. It
sends its end when it has been over for 30 seconds. An alert that fires again after that has another
`id`.

| channel | setting |
|---|---|
| a webhook, [signed](http-dispatch.md#the-signature) | `DUELEDGER_ALERT_WEBHOOK_URL`, `…_SECRET` |
| chats and mailboxes, a channel each | `DUELEDGER_ALERT_APPRISE_URLS` |
| a topic of Kafka | `DUELEDGER_ALERT_TOPIC` |

- A webhook at a private address needs its network in `…_NETWORKS`. Chats and mailboxes need the
  extra `dueledger[alert]`.
- A channel that fails gets the alert again in the next pass, with the same `id`.
- Any number of these processes may run. One of them, the leader, sends. A process that is no longer
  the leader stops sending.
- While Postgres is away, or refuses to be written, the process that sent last sends that.
- `dueledger alert --test` sends a test to each channel, with the status `test`. It fails if a
  channel does not accept it.
- Its login has the role `alerter`. `DUELEDGER_ALERT_DATABASE_BYTES_MAX` is the bound of
  `DatabaseLarge`.

## The alerts

An alert is not sent while another one that inhibits it fires, or ended less than 30 seconds ago.
Both must have the same tenant, kind, topic and dispatch, where both name them. `KafkaUnreachable`
inhibits no alert of items whose `dispatch` is `direct`. Of each metric, eight series have names and
the others are `other`. Where an alert fires by such a series, the named ones are the oldest.

| alert | what is broken | it fires while | for | | inhibits |
|---|---|---|---|---|---|
"""


def describe_rules() -> str:
    """Return the page of alerts."""
    rows = [
        f"| [{rule.name}]({rule.anchor}) | {rule.breakage} |"
        f" `{rule.expression.replace('|', chr(92) + '|')}` | {rule.for_seconds} s |"
        f" {rule.severity} | {', '.join(rule.inhibits) or '–'} |\n"
        for rule in RULES
    ]
    return INTRODUCTION + "".join(rows)


FILES = {
    FOLDER / "rules.yml": rules_file,
    FOLDER / "inhibit.yml": inhibitions_file,
    FOLDER / "dashboard.json": dashboard_file,
    DOCUMENT: describe_rules,
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_docs_show_every_rule_and_name_no_metric_that_is_not_exposed(path: Path) -> None:
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        path.write_text(FILES[path]())
    text = path.read_text()
    assert text == FILES[path](), "run `make schema` and read the difference"
    assert set(NAME.findall(text)) <= exposed_names()


def test_each_alert_has_its_section_in_the_runbook() -> None:
    sections = re.findall(r"^## (.+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == [rule.name for rule in RULES]


def test_alerts_inhibit_others_that_exist_and_none_inhibits_what_inhibits_it() -> None:
    inhibits = {rule.name: set(rule.inhibits) for rule in RULES}

    def reached(name: str) -> Iterator[str]:
        for other in inhibits[name]:
            yield other
            yield from reached(other)

    for name in inhibits:
        assert name not in set(reached(name))


def test_an_alert_fires_longer_than_those_that_it_inhibits_once_both_have_ended() -> None:
    groups = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    kept = {
        rule["alert"].removeprefix("Dueledger"): int(rule.get("keep_firing_for", "0s")[:-1])
        for group in groups
        for rule in group["rules"]
    }
    for rule in RULES:
        assert all(kept[rule.name] >= kept[name] + 30 for name in rule.inhibits)
    assert kept["PostgresUnreachable"] <= 120


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    output = run_promtool("check", "rules", str(FOLDER / "rules.yml"))
    assert f"{len(RULES)} rules found" in output
    rules = yaml.safe_load((FOLDER / "inhibit.yml").read_text())["inhibit_rules"]
    assert {key for rule in rules for key in rule} == {
        "source_matchers",
        "target_matchers",
        "equal",
    }
