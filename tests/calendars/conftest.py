"""Calendars in files, and definitions that name them."""

from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path

import pytest

from dueledger.calendars.found import Found, Span, make_document
from dueledger.calendars.importing import Imported, import_calendar
from ledger.store import Connection
from ledger.store.actors import ActorKind, register_actor

WEEKEND = ("sat", "sun")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file byte by byte as given, line ends included."""

    def text(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode())
        return path

    return text


@pytest.fixture
def put(connection: Connection) -> Callable[..., Awaitable[Imported]]:
    """Put a calendar `us` of 2027, or as far as `last` says, with these holidays."""

    async def put_us(
        *holidays: str, last: str = "2027-12-31", workdays: tuple[str, ...] = (), name: str = "us"
    ) -> Imported:
        days = {date.fromisoformat(day): "" for day in holidays}
        span = Span(date(2026, 1, 1), date.fromisoformat(last))
        worked = [date.fromisoformat(day) for day in workdays]
        document = make_document(span, WEEKEND, days, worked, source="test")
        actor_no = await register_actor(connection, "person:test", ActorKind.PERSON)
        return await import_calendar(
            connection,
            Found(document, "test"),
            tenant="acme",
            name=name,
            actor_no=actor_no,
        )

    return put_us
