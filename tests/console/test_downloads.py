"""Lists as files: read page after page, to the end or to a cap that the file states."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from dueledger.console import downloads
from dueledger.console.downloads import ListPart
from dueledger.console.listing import Column, Listing
from dueledger.ledger.errors import ServiceBusy
from dueledger.ledger.store.api_keys import ApiCaller, NewApiKey, Scope
from dueledger.service.admission import DownloadShares
from dueledger.service.calls import ApiCall, CallHost
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api

ITEMS = 2_300
AT_ONCE = 100
LIST = "/console/items?kind=ManyDue"


@pytest.fixture(scope="module")
async def keys(api: Api, key: NewApiKey) -> Sequence[str]:
    """Business keys of many items of the tenant acme, among others of another tenant."""
    names = [f"M-{number:04}" for number in range(ITEMS)]
    other = await api.make_key("umbra-emits", Scope.EMIT, tenants=["umbra"])
    for begin in range(0, ITEMS, AT_ONCE):
        some = names[begin : begin + AT_ONCE]
        await api.emit(key, *(api.item(name, kind="ManyDue") for name in some))
        named = {"kind": "ManyDue", "tenant": "umbra"}
        await api.emit(other, *(api.item(name, **named) for name in some[:10]))
    return names


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls were open when each one was opened."""
    counts: list[int] = []
    open_now = [0]
    opens = CallHost.open

    @asynccontextmanager
    async def counted(host: CallHost, caller: ApiCaller, body: bytes) -> AsyncGenerator[ApiCall]:
        counts.append(open_now[0])
        open_now[0] += 1
        try:
            async with opens(host, caller, body) as call:
                yield call
        finally:
            open_now[0] -= 1

    monkeypatch.setattr(CallHost, "open", counted)
    return counts


def rows_of(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


async def test_a_download_has_all_rows_of_its_filter_read_page_after_page(
    browser: Browser, keys: Sequence[str], opened: list[int]
) -> None:
    sent = await browser.open(f"{LIST}&format=csv")
    rows = rows_of(sent.text)
    assert sorted(row["business_key"] for row in rows) == keys
    assert {row["tenant"] for row in rows} == {"acme"}
    assert sent.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert sent.headers["Content-Disposition"] == 'attachment; filename="dueledger.csv"'
    assert opened == [0] * 3  # each had ended when the next one began
    documents = json.loads((await browser.open(f"{LIST}&format=json")).text)
    assert [each["business_key"] for each in documents] == [row["business_key"] for row in rows]
    page = await browser.open(LIST)
    assert "up to 100,000 rows" in page.text


@pytest.mark.parametrize("form", ["csv", "json"])
async def test_a_download_that_is_cut_says_so_in_its_last_row_and_where_it_goes_on(
    browser: Browser, keys: Sequence[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(downloads, "DOWNLOAD_ROWS_MAX", 1_250)
    address, found, parts = f"{LIST}&format={form}", list[str](), 0
    while address:
        parts += 1
        sent = (await browser.open(address)).text
        rows = json.loads(sent) if form == "json" else rows_of(sent)
        address = ""
        if form == "json" and "next" in rows[-1]:
            assert rows[-1]["cut_after_rows"] == 1_250
            address = rows.pop()["next"]
        elif form == "csv" and rows[-1]["business_key"].startswith("Cut"):
            said, _, address = rows.pop()["business_key"].partition(": ")
            assert said == "Cut after 1,250 rows. The next ones"
        assert all(None not in row and None not in row.values() for row in rows) or form == "json"
        found += [row["business_key"] for row in rows]
    assert parts == 2
    assert sorted(found) == keys


async def _read_raw(api: Api, browser: Browser, version: str) -> bytes:
    """Return all bytes of a download; raise ConnectionResetError if the service ends it early."""
    place = urlsplit(api.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies().items())
    head = f"GET {LIST}&format=csv HTTP/{version}\r\nHost: {place.netloc}\r\nCookie: {cookies}"
    writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_download_whose_key_is_revoked_meanwhile_is_no_complete_file(
    api: Api, keys: Sequence[str], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    assert keys
    brief = await api.make_key(f"brief-{version}", Scope.READ)
    opens, count = CallHost.open, 0

    @asynccontextmanager
    async def revoking(host: CallHost, caller: ApiCaller, body: bytes) -> AsyncGenerator[ApiCall]:
        nonlocal count
        async with opens(host, caller, body) as call:
            yield call
        count += 1
        if count == 2:
            await api.revoke(brief)

    async with open_browser(api) as reader:
        await reader.sign_in(brief)
        whole = await _read_raw(api, reader, version)
        assert whole.startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(CallHost, "open", revoking)
        with pytest.raises(ConnectionResetError):
            await _read_raw(api, reader, version)
        assert count == 2
    assert api.service.app.state.calls.downloads.count == 0


async def test_a_client_that_leaves_ends_its_download(
    api: Api,
    browser: Browser,
    keys: Sequence[str],
    opened: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(downloads, "PART_ROWS", 1)
    shares: DownloadShares = api.service.app.state.calls.downloads
    url = f"{browser.url}{LIST}&format=csv"
    async with browser.session.get(url) as reply:
        assert await reply.content.readany()
        assert shares.count == 1
        reply.close()
    while shares.count:
        assert (await api.ask("GET", "/health/live")).status == 200
    assert len(opened) < len(keys)


async def test_one_caller_has_two_downloads_at_a_time_and_leaves_some_to_others(
    api: Api, browser: Browser, key: NewApiKey, keys: Sequence[str]
) -> None:
    shares: DownloadShares = api.service.app.state.calls.downloads
    actor_no = await api.owner.fetchval(
        "select actor_no from ledger.api_key where prefix = $1", key.prefix
    )
    with shares.admit(actor_no), shares.admit(actor_no):
        refused = await browser.open(f"{LIST}&format=csv")
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "downloads" in refused.text
        short = await browser.open(f"/console/items?q={keys[0]}&format=csv")
        assert short.status == 200  # it takes no longer than a page
    assert (await browser.open(f"{LIST}&format=csv")).status == 200
    many = DownloadShares(6)
    with many.admit(1), many.admit(1), many.admit(2):
        for beyond in (1, 2):
            with pytest.raises(ServiceBusy), many.admit(beyond):
                pass
    with many.admit(1):
        assert many.count == 1


async def test_a_caller_whose_rate_is_used_up_meanwhile_waits_for_the_rest(
    api: Api, keys: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = await api.make_key("slow", Scope.READ)
    change = "update ledger.api_key set rate_per_second = $2, rate_burst = 1 where prefix = $1"
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        await api.owner.execute(change, slow.prefix, 100_000.0)

    async with open_browser(api) as reader:
        await reader.sign_in(slow)
        await api.owner.execute(change, slow.prefix, 0.01)
        monkeypatch.setattr(downloads, "sleep", wait)
        sent = await reader.open(f"{LIST}&format=csv")
    assert len(waited) == 1
    assert sorted(row["business_key"] for row in rows_of(sent.text)) == keys


def test_a_file_says_which_rows_are_left_out_and_is_whole_without_any() -> None:
    column, note = Column("key", "Key"), "The first 2 items."
    for rows in ([], [{"key": "a,b"}, {"key": "=1"}]):
        listing = Listing(
            caption="", columns=(column, Column("n", "N")), rows=[{**row, "n": 1} for row in rows]
        )
        for noted in (listing, replace(listing, note=note)):
            found = list(csv.reader(io.StringIO(bytes(ListPart(noted, "csv", "").body).decode())))
            documents = json.loads(bytes(ListPart(noted, "json", "").body))
            said = noted.note is not None
            assert found[1 + len(rows) :] == ([[note, ""]] if said else [])
            assert documents[len(rows) :] == ([{"note": note}] if said else [])


async def test_a_list_goes_on_after_a_page_without_rows(
    browser: Browser, keys: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ListPart.__init__

    def empty_first(part: ListPart, listing: Listing, *given: Any) -> None:  # noqa: ANN401 - as they are
        is_first = listing.rows[0]["business_key"] == first
        made(part, replace(listing, rows=()) if is_first else listing, *given)

    whole = json.loads((await browser.open(f"{LIST}&format=json")).text)
    first = whole[0]["business_key"]
    monkeypatch.setattr(ListPart, "__init__", empty_first)
    for form in ("json", "csv"):
        sent = (await browser.open(f"{LIST}&format={form}")).text
        rows = json.loads(sent) if form == "json" else rows_of(sent)
        names = [row["business_key"] for row in rows]
        assert names == [each["business_key"] for each in whole[1_000:]]
    assert len(names) == len(keys) - 1_000
