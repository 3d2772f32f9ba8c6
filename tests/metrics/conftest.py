"""Readers of the metrics of other processes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.request import urlopen

import pytest

from dueledger.ledger.metrics import Metric
from tests.databases import DatabasePool, MakeDatabase
from tests.metrics_page import Series, read_page

Scrape: TypeAlias = Callable[[str], Awaitable[dict[Metric, Series]]]


def fetch(url: str) -> str:
    """Return the page of a URL."""
    with urlopen(url, timeout=30) as reply:  # noqa: S310 - of a server of this test
        return reply.read().decode()


@pytest.fixture
def scrape() -> Scrape:
    """Read the metrics at a URL."""

    async def read(url: str) -> dict[Metric, Series]:
        return read_page(await asyncio.to_thread(fetch, url))

    return read


@pytest.fixture(scope="session")
def make_database(served_database_pool: DatabasePool) -> MakeDatabase:
    return served_database_pool.lease
