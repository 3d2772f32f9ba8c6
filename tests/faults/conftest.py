"""Servers of the fault tests' own, since these break them."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

import pytest

from tests.forks import ForkServer

from .servers import Servers, open_servers
from .site import Site, open_site


def _scope(fixture_name: str, config: pytest.Config) -> Literal["module", "session"]:
    """Keep servers for all files, unless these are a few of a process that has others to run."""
    del fixture_name
    return "module" if hasattr(config, "workerinput") else "session"


@pytest.fixture(scope=_scope)
async def servers() -> AsyncGenerator[Servers]:
    async with open_servers() as servers:
        yield servers


@pytest.fixture
async def site(servers: Servers, tmp_path: Path, fork_server: ForkServer) -> AsyncGenerator[Site]:
    async with open_site(servers, tmp_path, fork_server) as site:
        yield site
