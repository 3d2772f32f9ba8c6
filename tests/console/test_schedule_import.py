"""The import of a file: many moved occurrences by their number, and no text that REST refuses."""

import csv
import io
import re

import pytest

from dueledger.ledger.store.api_keys import NewApiKey
from tests.console.conftest import Browser
from tests.service.conftest import Api

PREVIEW = "/console/schedules/import"
DEFINE = f"{PREVIEW}/define"
CRON_JOBS = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: send-letters}
spec: {schedule: "5 * * * *"}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: send-invoices}
spec: {schedule: "20 * * * *"}
"""
COUNT = "select count(*) from ledger.definition where name like '%send-%'"


async def test_a_file_that_moves_many_occurrences_is_put_in_force_by_their_number(
    api: Api, browser: Browser
) -> None:
    await browser.open(PREVIEW)
    first = await browser.send(PREVIEW, {"text": CRON_JOBS})
    assert "moved or removed." not in first.text
    assert (await browser.send(DEFINE, {"text": CRON_JOBS})).status == 303
    assert await api.owner.fetchval(COUNT) == 2
    given = {"text": CRON_JOBS.replace("* * * *", "6 * * *")}
    shown = await browser.send(PREVIEW, given)
    [number] = re.findall(r"Type (\d+) to put 2 in force", shown.text)
    assert int(number) in range(2 * 685, 2 * 692)  # of 30 days all but one a day
    jobs = await browser.send(f"{PREVIEW}?format=csv&table=jobs", given)
    rows = list(csv.DictReader(io.StringIO(jobs.text)))
    assert [row["change"] for row in rows] == ["next version"] * 2
    assert sum(int(row["affected"]) for row in rows) == int(number)
    for typed in ({}, {"typed": "100", "shown": number}, {"typed": "5", "shown": "5"}):
        refused = await browser.send(DEFINE, {**given, **typed})
        assert refused.status == 422, typed
        assert "Type their number" in refused.text.partition("<textarea")[0]
        assert "send-letters" in refused.text.partition("<textarea")[2].partition("</text")[0]
        assert f"Type {number} to put 2 in force" in refused.text
        assert await api.owner.fetchval(COUNT) == 2
    done = await browser.send(DEFINE, {**given, "typed": f" {number} ", "shown": number})
    assert (done.status, done.location) == (303, "/console/schedules")
    assert await api.owner.fetchval(COUNT) == 4


async def test_a_file_that_moves_few_occurrences_says_how_many(browser: Browser) -> None:
    [text, _] = CRON_JOBS.replace("5 * * * *", "15 4 1 * *").split("---\n")
    text = text.replace("send-letters", "close-month")
    await browser.open(PREVIEW)
    assert (await browser.send(DEFINE, {"text": text})).status == 303
    given = {"text": text.replace("15 4", "45 4")}
    shown = await browser.send(PREVIEW, given)
    assert re.search(r"[12] occurrences? (is|are) moved or removed\.", shown.text)
    assert 'name="typed"' not in shown.text
    assert (await browser.send(DEFINE, given)).status == 303


@pytest.mark.parametrize("character", ["\0", "\x0b", "\x1b", "\x7f"])
async def test_a_file_with_a_control_character_is_refused_as_by_rest(
    api: Api, browser: Browser, key: NewApiKey, character: str
) -> None:
    text = f"15 4 * * * /usr/local/bin/clo{character}se\n"
    path = "/v1/tenants/acme/definitions/convert"
    assert (await api.ask("POST", path, key=key, body={"text": text})).status == 422
    await browser.open(PREVIEW)
    for page in (PREVIEW, DEFINE):
        assert (await browser.send(page, {"text": text})).status == 422
