"""The editor of schedules: it offers what is possible, and loses no text that is refused."""

import re
from html import unescape

from dueledger.ledger.store.api_keys import Scope
from tests.console.conftest import Browser, Shown, open_browser
from tests.console.test_schedules import EVERY_HOUR, TEXT, define
from tests.service.conftest import Api

DEFINE = "/console/schedules/define"
PREVIEW = "/console/schedules/preview"


def text_of(page: Shown) -> str:
    """Return the text in the editor."""
    return unescape(page.text.partition("<textarea")[2].partition(">")[2].partition("</text")[0])


def fields_of(page: Shown) -> dict[str, str]:
    """Return the hidden fields of the editor, and its text."""
    hidden = re.findall(r'<input type="hidden"[^>]* name="(\w+)" value="([^"]*)"', page.text)
    return {"text": text_of(page), **{name: unescape(value) for name, value in hidden}}


def named(name: str) -> str:
    return TEXT.replace("edited", name)


async def test_the_example_of_a_new_schedule_can_be_put_in_force_each_time(api: Api) -> None:
    key = await api.make_key("writes", *Scope, tenants=["written"])
    names: list[str] = []
    async with open_browser(api) as browser:
        await browser.sign_in(key)
        for _ in range(3):
            page = await browser.open("/console/schedules/new")
            assert "is the first" in page.text
            done = await browser.send(DEFINE, fields_of(page))
            assert done.status == 303, done.text
            names.append(done.location.rpartition("/")[2])
    assert names == ["statements", "statements-2", "statements-3"]


async def test_a_new_schedule_whose_name_is_taken_says_so_before_it_is_refused(
    api: Api, browser: Browser
) -> None:
    path = await define(api, "taken", kind="TakenDue")
    text = named("taken").replace("NightlyDue", "TakenDue")
    shown = await browser.send(PREVIEW, {"text": text})
    assert "acme taken exists already" in shown.text
    assert f'href="{path}/edit"' in shown.text
    assert "replaces version" not in shown.text
    refused = await browser.send(DEFINE, {"text": text})
    assert refused.status == 412
    free = await browser.send(PREVIEW, {"text": named("not-taken")})
    assert "exists already" not in free.text


async def test_a_refused_text_is_shown_again_below_the_reason(api: Api, browser: Browser) -> None:
    path = await define(api, "refused", kind="RefusedDue")
    edited = fields_of(await browser.open(f"{path}/edit"))
    text = edited["text"].replace("30 2 * * *", "45 3 * * *")
    for changes, status, words in (
        ({"base_version": "7"}, 412, "has other versions by now"),
        ({"text": text.replace("45 3", "45 99")}, 422, "when.cron"),
        ({"text": text.replace("tenant: acme", "tenant: umbra")}, 404, "knows no tenant umbra"),
    ):
        given = {**edited, "text": text, **changes}
        refused = await browser.send(DEFINE, given)
        assert refused.status == status, words
        above, _, _ = refused.text.partition("<textarea")
        assert words in above
        assert text_of(refused) == given["text"]
        assert "Edit refused</h1>" in refused.text
    audited = "select count(*) from ledger.audit where operation = 'putDefinition'"
    before = await api.owner.fetchval(audited)
    await browser.send(DEFINE, {**edited, "text": text, "base_version": "7"})
    assert await api.owner.fetchval(audited) == before
    assert (await browser.send(DEFINE, {**edited, "text": text})).location == path


async def test_a_preview_of_an_edited_schedule_stays_with_it_and_has_both_values(
    api: Api, browser: Browser
) -> None:
    path = await define(api, "compared", kind="ComparedDue")
    edited = fields_of(await browser.open(f"{path}/edit"))
    given = {**edited, "text": edited["text"].replace("30 2 * * *", "45 3 * * *")}
    for text in (given["text"], "x: ["):
        shown = await browser.send(PREVIEW, {**given, "text": text})
        assert "Edit compared</h1>" in shown.text
        assert f'/ <a href="{path}">compared</a>' in shown.text
    shown = await browser.send(PREVIEW, given)
    [changed] = re.findall(r"<li><code>when</code> <del>(.+?)</del> <ins>(.+?)</ins>", shown.text)
    assert ["30 2 * * *" in changed[0], "45 3 * * *" in changed[1]] == [True, True]
    assert fields_of(shown) | {"to": ""} == given | {"to": ""}


async def test_a_change_that_moves_many_occurrences_is_put_in_force_by_their_number(
    api: Api, browser: Browser
) -> None:
    path = await define(api, "crowded", kind="CrowdedDue", when=EVERY_HOUR)
    edited = fields_of(await browser.open(f"{path}/edit"))
    given = {**edited, "text": edited["text"].replace("5 * * * *", "5 6 * * *")}
    shown = await browser.send(PREVIEW, given)
    [number] = re.findall(r"Type (\d+) to put it in force", shown.text)
    assert int(number) in range(685, 692)  # of 30 days all but one a day
    for typed in ({}, {"typed": "100", "shown": number}, {"typed": "5", "shown": "5"}):
        refused = await browser.send(DEFINE, {**given, **typed})
        assert refused.status == 422, typed
        assert "Type their number" in refused.text.partition("<textarea")[0]
        assert f"Type {number} to put" in refused.text
    done = await browser.send(DEFINE, {**given, "typed": f" {number} ", "shown": number})
    assert done.location == path
    few = await browser.send(PREVIEW, {"text": TEXT})
    assert "to put it in force" not in few.text


async def test_the_editor_shows_the_five_fullest_quarters(browser: Browser) -> None:
    text = named("peaks").replace("45 3 * * *", "*/20 3 * * *")
    shown = await browser.send(PREVIEW, {"text": text})
    load = shown.text.partition("<h2>Load of")[2]
    assert "21 items" in load
    assert load.count("1 in a minute") == 5
