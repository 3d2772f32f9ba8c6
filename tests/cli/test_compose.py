"""The services of compose.yaml are commands that exist, given what they need."""

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import dueledger
from dueledger.cli.app import app

COMPOSE = Path(dueledger.__file__).resolve().parents[1] / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "dueledger")


def test_compose_has_every_process() -> None:
    assert set(OURS) == {"migrate", "materialise", "intake", "allocate", "work", "reconcile"}


@pytest.mark.parametrize("service", OURS)
def test_the_command_of_a_service_parses(service: str) -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("dueledger", list(SERVICES[service]["command"]))
    name, command, arguments = group.resolve_command(context, list(SERVICES[service]["command"]))
    assert name == service
    command.make_context(name, arguments, parent=context)  # exits where an argument is missing
