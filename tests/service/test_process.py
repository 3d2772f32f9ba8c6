"""The service as a process: its settings, its presence, its stop, and its trust in proxies."""

import asyncio
import socket
from ipaddress import ip_network
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from dueledger.ledger.errors import InvalidSetting, NotPermitted
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.runtime.setting_problems import read_settings
from dueledger.ledger.store import Connection
from dueledger.service import ServiceSettings, open_service, process, run_service_process
from dueledger.service.entry import RequestEntry
from tests.logins import with_login

DSN = SecretStr("postgresql://127.0.0.1/none")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - refused
def test_beyond_loopback_a_certificate_or_trusted_proxies_are_needed(host: str) -> None:
    with pytest.raises(InvalidSetting, match="DUELEDGER_SERVICE_HOST"):
        read_settings(ServiceSettings, dsn=DSN, service_host=host)
    proxies = read_settings(
        ServiceSettings, dsn=DSN, service_host=host, service_trusted_proxies=["10.0.0.0/8"]
    )
    assert not proxies.service_host.is_loopback
    with pytest.raises(InvalidSetting, match="SERVICE_CERTIFICATE_KEY"):
        read_settings(
            ServiceSettings, dsn=DSN, service_host=host, service_certificate=Path("own.pem")
        )


async def test_a_service_is_present_while_it_answers_and_a_stop_ends_it(
    database: str, connection: Connection
) -> None:
    settings = ServiceSettings(dsn=SecretStr(with_login(database, "service")), service_port=0)
    stop = Stop()
    running = asyncio.create_task(run_service_process(settings, stop))
    await stop.wait_started()
    present = "select role, ended_at is null as lives from ledger.process"
    assert [tuple(row) for row in await connection.fetch(present)] == [("service", True)]
    stop.request()
    await running
    assert [tuple(row) for row in await connection.fetch(present)] == [("service", False)]


async def test_a_login_that_is_no_service_and_a_port_in_use_are_refused(database: str) -> None:
    other = ServiceSettings(dsn=SecretStr(with_login(database, "worker")), service_port=0)
    with pytest.raises(NotPermitted, match="ledger_service"):
        async with open_service(other):
            pass
    own = ServiceSettings(dsn=SecretStr(with_login(database, "service")), service_port=0)
    async with open_service(own) as service:
        port = int(service.url.rpartition(":")[2])
        async with aiohttp.ClientSession() as session:
            reply = await session.get(f"{service.url}/health/live")
            assert reply.status == 200
        with pytest.raises(InvalidSetting, match="DUELEDGER_SERVICE_PORT"):
            async with open_service(own.model_copy(update={"service_port": port})):
                pass


def test_no_answer_waits_for_an_acknowledgement_of_its_beginning() -> None:
    settings = ServiceSettings(dsn=DSN, service_port=0)
    with (
        process._bound_socket(settings) as listener,  # pyright: ignore[reportPrivateUsage]
        socket.create_connection(listener.getsockname()),
    ):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class Seen:
    """An application that keeps what it was called with."""

    def __init__(self) -> None:
        self.scope: dict[str, object] = {}

    async def __call__(self, scope: dict[str, object], _: object, __: object) -> None:
        self.scope = scope


@pytest.mark.parametrize(
    ("peer", "client", "is_trusted"),
    [
        ("10.1.2.3", "203.0.113.9", True),  # a trusted proxy
        ("192.0.2.7", "192.0.2.7", False),  # somebody who says so
    ],
)
async def test_headers_of_proxies_count_only_from_those_that_are_trusted(
    peer: str, client: str, *, is_trusted: bool
) -> None:
    seen = Seen()
    entry = RequestEntry(seen, (ip_network("10.0.0.0/8"),))  # pyright: ignore[reportArgumentType]
    scope: dict[str, object] = {
        "type": "http",
        "scheme": "http",
        "client": (peer, 1),
        "headers": [(b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https")],
    }
    await entry(scope, None, None)  # pyright: ignore[reportArgumentType]
    assert seen.scope["client"] == (client, 0 if is_trusted else 1)
    assert seen.scope["is_trusted"] is is_trusted


@pytest.mark.parametrize("client", [None, ("", 0), ("client.example", 1)])
async def test_a_peer_without_an_address_is_not_trusted(client: tuple[str, int] | None) -> None:
    seen = Seen()
    entry = RequestEntry(seen)  # pyright: ignore[reportArgumentType]
    scope: dict[str, object] = {"type": "http", "scheme": "http", "client": client, "headers": []}
    await entry(scope, None, None)  # pyright: ignore[reportArgumentType]
    assert seen.scope["is_trusted"] is False


@pytest.mark.parametrize(("path", "is_answered"), [("health/live", True), ("v1/items", False)])
async def test_a_busy_service_answers_probes_under_the_path_where_a_program_has_it(
    path: str, *, is_answered: bool
) -> None:
    seen, sent = Seen(), list[dict[str, object]]()

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    entry = RequestEntry(seen, requests_max=0)  # pyright: ignore[reportArgumentType]
    scope: dict[str, object] = {
        "type": "http",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "headers": [],
        "root_path": "/due",
        "path": f"/due/{path}",
    }
    await entry(scope, None, send)  # pyright: ignore[reportArgumentType]
    assert (bool(seen.scope), not sent) == (is_answered, is_answered)
