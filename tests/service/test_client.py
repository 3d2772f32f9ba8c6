"""The client and the published document are those of the service."""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from uuid import UUID

import httpx
import jsonschema
import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from dueledger.client import AsyncClient, Client, ServiceProblem, calls, models
from dueledger.ledger.store.api_keys import NewApiKey
from dueledger.service.app import ROUTES
from tests.document_blocks import blocks_of
from tests.service.answers import examples_of_answers
from tests.service.conftest import Api

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "openapi.json"
MODELS = ROOT / "dueledger" / "client" / "models.py"
FORMATS = jsonschema.FormatChecker()
OPEN = {"getLiveness", "getReadiness", "getMetrics", "listProblems"}
"""Operations without a key, which a load balancer or a metrics server calls."""


@pytest.fixture(scope="module")
async def openapi(api: Api) -> dict[str, Any]:
    return (await api.ask("GET", "/openapi.json")).document


def test_the_published_schema_is_the_services(openapi: dict[str, Any]) -> None:
    if os.environ.get("DUELEDGER_UPDATE_SCHEMA"):
        text = json.dumps(openapi, indent=1, ensure_ascii=False)
        DOCUMENT.write_text(f"{text}\n", encoding="utf-8")
    assert json.loads(DOCUMENT.read_text(encoding="utf-8")) == openapi, "make schema writes it"


def test_the_example_of_each_body_is_right(openapi: dict[str, Any]) -> None:
    bodies = [
        content
        for methods in openapi["paths"].values()
        for operation in methods.values()
        for content in operation.get("requestBody", {"content": {}})["content"].values()
    ]
    assert len(bodies) > 20
    for content in bodies:
        schema = content["schema"]
        described = openapi["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2])
        examples = (content | schema | (described or {}))["examples"]
        assert examples
        for example in examples:
            jsonschema.validate(example, {**openapi, **schema})


def test_the_example_of_each_answer_is_what_its_model_answers(openapi: dict[str, Any]) -> None:
    """Complete, and without a member that the model does not have."""
    models_of = {
        route.operation_id: route.response_model
        for route in ROUTES
        if isinstance(route, APIRoute) and route.response_model is not None
    }
    examples = examples_of_answers(openapi)
    assert examples.keys() == models_of.keys()
    for operation, (example, schema) in examples.items():
        jsonschema.validate(example, {**openapi, **schema}, format_checker=FORMATS)
        model: TypeAdapter[Any] = TypeAdapter(models_of[operation])
        answered = model.dump_python(model.validate_json(json.dumps(example)), by_alias=True)
        assert without_values(answered) == without_values(example), operation
        assert not list(unnamed(example)), operation
        assert isinstance(example, list) or example.get("items", True), f"{operation}: no row"


def unnamed(document: object, name: str = "") -> Iterator[str]:
    """Yield the names of the texts in a composed example that have no value of their own."""
    match document:
        case dict():
            for each, value in cast("dict[str, object]", document).items():
                yield from unnamed(value, each)
        case list():
            for value in cast("list[object]", document):
                yield from unnamed(value, name)
        case str() if document == name:
            yield name
        case _:
            pass


def without_values(document: object) -> object:
    """Return the members of a document, and of those within, in place of their values."""
    match document:
        case dict():
            named = cast("dict[str, object]", document)
            return {name: without_values(value) for name, value in named.items()}
        case list():
            return [without_values(value) for value in cast("list[object]", document)]
        case _:
            return None


def test_the_models_are_generated_from_the_published_schema() -> None:
    with TemporaryDirectory(dir=ROOT / ".tools") as made:  # formatted by the project's settings
        target = MODELS if os.environ.get("DUELEDGER_UPDATE_SCHEMA") else Path(made, "models.py")
        environment = {**os.environ, "BIN": str(Path(sys.executable).parent)}
        subprocess.run([ROOT / "tools" / "write_client", target], check=True, env=environment)  # noqa: S603 - the project's own tool
        assert target.read_text("utf-8") == MODELS.read_text("utf-8"), "make schema writes it"


def test_each_operation_has_a_function_with_its_parameters(openapi: dict[str, Any]) -> None:
    operations = {
        operation["operationId"]: operation
        for methods in openapi["paths"].values()
        for operation in methods.values()
        if operation["operationId"] not in OPEN
    }
    functions = {
        re.sub("_([a-z])", lambda found: found[1].upper(), name): function
        for name, function in inspect.getmembers(calls, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == calls.__name__
    }
    assert functions.keys() == operations.keys()
    for name, operation in operations.items():
        taken = {each.removesuffix("_") for each in inspect.signature(functions[name]).parameters}
        asked = {each["name"].lower().replace("-", "_") for each in operation.get("parameters", ())}
        assert asked <= taken, name


@pytest.fixture(scope="module")
async def client(api: Api, key: NewApiKey) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(api.service.url, key.text) as made:
        yield made


async def test_a_client_emits_lists_page_by_page_and_reads(api: Api, client: AsyncClient) -> None:
    items = [models.ItemToEmit.model_validate(api.item(f"C-{n}", kind="Called")) for n in range(3)]
    emitted = await client.send(calls.emit_items(models.Emission(items=items)))
    assert [each.verdict for each in emitted.items] == ["created"] * 3
    pages = [page async for page in client.pages(calls.list_items(kind="Called", limit=2))]
    assert [len(page.items) for page in pages] == [2, 1]
    item = await client.send(calls.get_item(emitted.items[0].id))
    assert (item.state, item.payload) == ("Scheduled", {"premium": "123.45"})


async def test_the_documented_client_lists_late_items(
    api: Api, key: NewApiKey, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "test_the_documented_client_lists_late_items"
    [block] = blocks_of("docs/service.md", run_by=name)
    text = block.text.replace("http://127.0.0.1:8480", api.service.url)
    assert text != block.text
    ahead = {"due_at": "2099-01-01T09:00:00Z"}
    await api.emit(
        key,
        api.item("D-1", kind="StatementDue"),
        api.item("D-2", kind="StatementDue", **ahead),
        api.item("D-3", kind="ReminderDue"),
    )
    program = compile(text, "docs/service.md", "exec")
    await asyncio.to_thread(exec, program, {"key": key.text})
    assert capsys.readouterr().out == "D-1\n"


async def test_a_problem_is_an_exception_with_its_code_in_both_clients(
    api: Api, client: AsyncClient, key: NewApiKey
) -> None:
    def send() -> ServiceProblem:
        with Client(api.service.url, key.text) as blocking:
            with pytest.raises(ServiceProblem) as refused:
                blocking.send(calls.get_item(UUID(int=0)))
            return refused.value

    unknown = await asyncio.to_thread(send)
    assert (unknown.status, unknown.code, unknown.errors) == (404, "NOT_FOUND", [])
    with pytest.raises(ServiceProblem) as refused:
        await client.send(calls.list_items(state="Nonsense"))
    assert [each.pointer for each in refused.value.errors] == ["state"]
    assert refused.value.request_id


def test_a_claim_that_waits_has_that_time_more_to_be_answered() -> None:
    seen: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"]["read"])
        return httpx.Response(503)

    with Client("http://127.0.0.1", "x", seconds=5, transport=httpx.MockTransport(answer)) as sent:
        for wait in (None, 300.0):
            asked = models.PullRequest(kinds=["Due"], wait_seconds=wait)
            with pytest.raises(ServiceProblem):
                sent.send(calls.claim_items(asked))
    assert seen == [5, 305]
