"""The services of compose.yaml are commands that exist, given what they need; without Docker."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import dueledger
from dueledger.cli.app import app
from dueledger.cli.commands import PANELS
from dueledger.ledger.store import Connection
from dueledger.ledger.store.processes import ProcessRole
from dueledger.stack import free_ports
from dueledger.stack.containers import KAFKA_IMAGE, POSTGRES_IMAGE
from tests.deploy.vendored_schemas import problems_of
from tests.logins import LOGINS, with_login

COMPOSE = Path(dueledger.__file__).resolve().parents[1] / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
TEMPORARY = "/tmp"  # noqa: S108 - of the container
LOGIN_FILE = COMPOSE.parent / "deploy/helm/files/logins.sql"
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "dueledger")


def test_the_image_has_every_folder_that_the_package_links_to() -> None:
    package = COMPOSE.parent / "dueledger"
    linked = {path.resolve().name for path in package.iterdir() if path.is_symlink()}
    image = (COMPOSE.parent / "deploy" / "Dockerfile").read_text("utf-8")
    allowed = (COMPOSE.parent / "deploy" / "Dockerfile.dockerignore").read_text("utf-8")
    assert linked == {"allocator", "examples", "ledger", "reconciler", "sql", "workers"}
    assert linked <= set(re.findall(r"^COPY (\w+) \1$", image, re.MULTILINE))
    assert linked <= set(re.findall(r"^!(\w+)/\*\*$", allowed, re.MULTILINE))


def test_the_image_installs_only_what_the_lock_names_by_its_hash() -> None:
    image = (COMPOSE.parent / "deploy" / "Dockerfile").read_text("utf-8")
    locked = (COMPOSE.parent / "requirements" / "dev.txt").read_text("utf-8")
    for command in re.findall(r"pip (?:install|wheel) .*", image):
        assert "--require-hashes" in command or "--no-index" in command
    for name in re.findall(r"--requirement requirements/(\w+\.txt)", image):
        text = (COMPOSE.parent / "requirements" / name).read_text("utf-8")
        pinned = re.findall(r"^[\w.-]+==\S+.*?(?=^[\w.-]+==|\Z)", text, re.MULTILINE | re.DOTALL)
        for block in pinned:
            head, *hashes = re.findall(r"^[\w.-]+==\S+|--hash=\S+", block)
            assert hashes, head
            assert f"\n{head} " in f"\n{locked}"
            assert all(each in locked for each in hashes)
    assert set(re.findall(r"^FROM (\S+)", image, re.MULTILINE)) == {"${PYTHON_IMAGE}"}


def test_each_image_of_others_is_named_by_its_digest_the_same_wherever_it_is_used() -> None:
    dockerfile = (COMPOSE.parent / "deploy" / "Dockerfile").read_text("utf-8")
    images = {name: service["image"] for name, service in SERVICES.items() if name not in OURS}
    assert images == {
        "postgres": POSTGRES_IMAGE,
        "logins": POSTGRES_IMAGE,
        "kafka": KAFKA_IMAGE,
    }
    (python,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    for image in (python, *images.values()):
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}", image), image


def test_compose_fits_the_schema_of_compose_files() -> None:
    document = yaml.safe_load(COMPOSE.read_text("utf-8"))
    assert problems_of(document, "compose-spec") == []


def test_compose_has_every_process_under_a_login_of_its_own_with_a_probe_of_its_role() -> None:
    processes = {name: SERVICES[name] for name in OURS if name != "migrate"}
    commands = {service["command"][0] for service in processes.values()}
    assert commands == {*PANELS["Processes"], "reconcile"}
    probed = {name: service["healthcheck"]["test"] for name, service in processes.items()}
    assert "/health/ready" in probed.pop("serve")[-1]
    assert "/metrics" in probed.pop("alert")[-1]
    assert "due_alerter:" in SERVICES["alert"]["environment"]["DUELEDGER_DSN"]
    assert "due_service:" in SERVICES["serve"]["environment"]["DUELEDGER_DSN"]
    for name, test in probed.items():
        role = ProcessRole(test[-1])
        assert test == ["CMD", "dueledger", "health", role]
        assert f"//due_{role}:$" in SERVICES[name]["environment"]["DUELEDGER_DSN"]
    roles = {test[-1] for test in probed.values()} | {ProcessRole.ALERTER, ProcessRole.SERVICE}
    assert roles == set(ProcessRole) - {ProcessRole.DIRECT_WORKER}  # which needs no Kafka


def test_each_service_has_limits_and_ours_have_no_rights_that_they_do_not_need() -> None:
    for name in SERVICES.keys() - {"logins"}:
        assert SERVICES[name]["deploy"]["resources"]["limits"]["memory"], name
    for name in OURS:
        service = SERVICES[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        mounted = [volume.split(":")[1] for volume in service.get("volumes", ())]
        assert TEMPORARY in (*service["tmpfs"], *mounted)


def test_each_login_of_the_file_has_the_roles_of_its_process() -> None:
    text = LOGIN_FILE.read_text("utf-8")
    given = re.findall(r"\('due_(\w+)', :'(\w+)', '\{([\w,]+)\}'", text)
    variables = dict(re.findall(r"^\\getenv (\w+) (\w+)$", text, re.MULTILINE))
    assert re.findall(r"^\\set (\w+) ''$", text, re.MULTILINE) == sorted(variables)
    assert {name: tuple(sorted(roles.split(","))) for name, _, roles in given} == {
        role: tuple(sorted(f"ledger_{each}" for each in LOGINS[role])) for role in ProcessRole
    }
    for name, variable, _ in given:
        assert variable == name
        assert variables[name] == f"DUELEDGER_{name.upper()}_PASSWORD"
    given_by_compose = {name for name in SERVICES["logins"]["environment"] if name != "PGPASSWORD"}
    assert given_by_compose == set(variables.values()) - {"DUELEDGER_DIRECT_WORKER_PASSWORD"}


@pytest.mark.parametrize("service", OURS)
def test_the_command_of_a_service_parses(service: str) -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("dueledger", list(SERVICES[service]["command"]))
    name, command, arguments = group.resolve_command(context, list(SERVICES[service]["command"]))
    assert name == SERVICES[service]["command"][0]
    command.make_context(name, arguments, parent=context)  # exits where an argument is missing


def test_the_handlers_that_the_worker_is_given_are_in_the_folder_it_is_given() -> None:
    [mounted] = SERVICES["work"]["volumes"]
    given = re.fullmatch(r"\$\{DUELEDGER_HANDLERS:-(\S+)\}:(\S+):ro", mounted)
    assert given is not None
    folder, inside = given.groups()
    assert inside == SERVICES["work"]["working_dir"]
    ended = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "dueledger", *SERVICES["work"]["command"]],
        cwd=COMPOSE.parent / folder,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "DUELEDGER_DSN" in ended.stderr  # the handlers were loaded; only then are settings read


def as_written(text: str, addresses: Mapping[str, str], database: str) -> str:
    """Return a value of the file: variables as without an environment, addresses of the tests."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    if login := re.match(r"postgresql://due_(\w+):", text):
        return with_login(database, login[1])
    for written, here in addresses.items():
        text = text.replace(written, here)
    return text


@pytest.mark.full
async def test_each_process_becomes_healthy_by_the_command_variables_and_probe_of_compose(
    database: str,
    connection: Connection,
    bootstrap_servers: str,
    eventually: Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]],
    tmp_path: Path,
) -> None:
    """Outside of containers, so that addresses and ports are others; all at once, as there."""
    await connection.execute((COMPOSE.parent / "sql/outbox/schema.sql").read_text("utf-8"))
    service_port, metrics_port = free_ports.free(), free_ports.free()
    addresses = {
        "kafka:19092": bootstrap_servers,
        "0.0.0.0": "127.0.0.1",  # noqa: S104 - of the container
        "172.31.84.1/32": "127.0.0.1/32",
        "8480": str(service_port),
        "9464": str(metrics_port),
    }
    environment = {name: value for name, value in os.environ.items() if "DUELEDGER" not in name}
    programs = {"dueledger": [sys.executable, "-m", "dueledger"], "python": [sys.executable]}

    async def start(name: str, program: str, *arguments: str) -> asyncio.subprocess.Process:
        given: dict[str, str] = SERVICES[name]["environment"]
        variables = {key: as_written(value, addresses, database) for key, value in given.items()}
        if name == "relay":  # the only one whose default is to be changed
            variables["DUELEDGER_OUTBOX_DSN"] = database
        variables.setdefault("DUELEDGER_SERVICE_PORT", str(service_port))
        folder = COMPOSE.parent / "examples/insurer" if name == "work" else tmp_path
        with (tmp_path / f"{name}.log").open("a") as log:
            return await asyncio.create_subprocess_exec(
                *programs[program],
                *(as_written(each, addresses, database) for each in arguments),
                cwd=folder,
                env=environment | variables | {"TMPDIR": str(tmp_path)},
                stdout=log,
                stderr=log,
            )

    async def is_healthy(name: str) -> bool:
        assert running[name].returncode is None, (tmp_path / f"{name}.log").read_text()
        probe = await start(name, *SERVICES[name]["healthcheck"]["test"][1:])
        return await probe.wait() == 0

    names = [name for name in OURS if name != "migrate"]
    running = {name: await start(name, "dueledger", *SERVICES[name]["command"]) for name in names}
    try:
        for name in names:
            await eventually(partial(is_healthy, name))
    finally:
        for process in running.values():
            if process.returncode is None:
                process.terminate()
        codes = {name: await process.wait() for name, process in running.items()}
    assert codes == dict.fromkeys(names, 0)
