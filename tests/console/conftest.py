"""A real service with its console, and browsers without a window: cookies, forms, redirects."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from urllib.parse import urlencode

import aiohttp
import pytest
from yarl import URL

from dueledger.console import open_console
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from tests.databases import MakeDatabase
from tests.service.conftest import Api, open_api

_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
KAFKA_UI = "https://kafka-ui.example/{topic}/{partition}?offset={offset}"
HTML = {"Accept": "text/html"}
NONE: Mapping[str, str] = {}


@dataclass(frozen=True)
class Shown:
    """A page as it was answered."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def location(self) -> str:
        return self.headers["Location"]


@dataclass
class Browser:
    """Keeps cookies, and knows the token of the forms that it was given."""

    url: str
    session: aiohttp.ClientSession
    token: str = ""

    async def open(
        self,
        path: str,
        headers: Mapping[str, str] = NONE,
        params: Mapping[str, str] = NONE,
    ) -> Shown:
        """Open a page; a redirect is answered, not followed."""
        query = f"?{urlencode(params)}" if params else ""
        return await self._request("GET", path + query, None, headers)

    async def send(
        self,
        path: str,
        fields: Mapping[str, str],
        headers: Mapping[str, str] = NONE,
        *,
        with_token: bool = True,
    ) -> Shown:
        """Send a form, with the token of the last page."""
        given = {"csrf": self.token, **fields} if with_token else dict(fields)
        return await self._request("POST", path, given, headers)

    async def sign_in(self, key: NewApiKey) -> None:
        answer = await self.send("/console/sign-in", {"key": key.text})
        assert (answer.status, answer.location) == (303, "/console/"), answer.text
        await self.open("/console/")

    @property
    def origin(self) -> URL:
        return URL(self.url)

    def cookies(self) -> dict[str, str]:
        return {each.key: each.value for each in self.session.cookie_jar}

    async def _request(
        self, method: str, path: str, fields: Mapping[str, str] | None, headers: Mapping[str, str]
    ) -> Shown:
        async with self.session.request(
            method,
            self.url + path,
            data=fields,
            headers={**HTML, **headers},
            allow_redirects=False,
        ) as reply:
            text = await reply.text()
            if found := _TOKEN.search(text):
                self.token = unescape(found[1])
            return Shown(reply.status, reply.headers, text)


@pytest.fixture(scope="module")
async def api(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    async with open_api(make_database, open_console, service_kafka_ui=KAFKA_UI) as opened:
        yield opened


@asynccontextmanager
async def open_browser(api: Api) -> AsyncGenerator[Browser]:
    """Open a browser without cookies."""
    jar = aiohttp.CookieJar(unsafe=True)  # of addresses, too
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        yield Browser(api.service.url, session)


@pytest.fixture
async def stranger(api: Api) -> AsyncGenerator[Browser]:
    """A browser without a session."""
    async with open_browser(api) as browser:
        yield browser


@pytest.fixture(scope="module")
async def key(api: Api) -> NewApiKey:
    """A key of the tenant acme with every scope."""
    return await api.make_key("person", *Scope)


@pytest.fixture
async def browser(stranger: Browser, key: NewApiKey) -> Browser:
    """A browser that is signed in by that key."""
    await stranger.sign_in(key)
    return stranger
