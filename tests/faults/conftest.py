"""Servers of the fault tests' own, since these break them."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.forks import ForkServer

from .servers import Servers, open_servers
from .site import Site, open_site


@pytest.fixture(scope="session")
async def servers() -> AsyncGenerator[Servers]:
    async with open_servers() as servers:
        yield servers


@pytest.fixture
async def site(servers: Servers, tmp_path: Path, fork_server: ForkServer) -> AsyncGenerator[Site]:
    async with open_site(servers, tmp_path, fork_server) as site:
        yield site
