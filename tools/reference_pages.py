"""The pages of the reference that are made of the code: commands, REST, Kafka and errors.

`make docs` writes them when it builds the site, so that they are never old. Settings, metrics,
alerts, states and the codes of `why` have pages in `docs`, which `make schema` writes.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import typer
import yaml
from typer._click import Command, Context
from typer.core import TyperGroup

from dueledger.cli.app import app
from dueledger.cli.commands import PANELS
from dueledger.failures import KINDS
from dueledger.ledger.errors import DueledgerError

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
Schema = Mapping[str, Any]

_OTHER_ERRORS: Final = (
    "dueledger.ledger.store.error_mapping",
    "dueledger.reconciler.repair.planned_repairs",
    "dueledger.reconciler.sources",
    "dueledger.stack",
    "dueledger.workers.run.stuck_pools",
)
"""Modules with errors of their own, beside `ledger.errors`."""


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        "commands.md": commands_page(),
        "rest.md": rest_page(json.loads((DOCS / "openapi.json").read_text("utf-8"))),
        "kafka.md": kafka_page(yaml.safe_load((DOCS / "asyncapi.yaml").read_text("utf-8"))),
        "errors.md": errors_page(),
    }


def commands_page() -> str:
    """Return every command with its arguments and options, by panel of the help."""
    group = typer.main.get_group(app)
    root = Context(group, info_name="dueledger")
    lines = ["# Commands", "", app.info.epilog or "", "Each command has `--help`."]
    for panel, entries in PANELS.items():
        lines += ["", f"## {panel}"]
        for name in entries:
            if command := group.get_command(root, name):
                lines += _command_lines(command, Context(command, info_name=name, parent=root))
    return "\n".join(lines) + "\n"


def _command_lines(command: Command, context: Context) -> Iterator[str]:
    yield from ("", f"### {context.command_path}", "", _prose(command.help or ""))
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _command_lines(below, Context(below, info_name=name, parent=context))
        return
    usage = command.get_usage(context).partition(": ")[2]
    yield from ("", "```text", " ".join(usage.split()), "```")
    records = [each.get_help_record(context) for each in command.params]
    rows = [(f"`{option}`", _prose(text)) for option, text in filter(None, records)]
    if rows:
        yield from ("", *_table(("option", ""), rows))


def rest_page(document: Schema) -> str:
    """Return every operation of the REST interface with its parameters, body and answer."""
    lines = [
        "# REST routes",
        "",
        "`GET /openapi.json` has the schemas of all bodies, with examples.",
        "[The service](../service.md) explains scopes, lists, versions and repeated requests.",
    ]
    by_tag: defaultdict[str, list[tuple[str, str, Schema]]] = defaultdict(list)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag[operation["tags"][0]].append((path, method, operation))
    for tag in sorted(by_tag):
        lines += ["", f"## {tag.capitalize()}"]
        for path, method, operation in by_tag[tag]:
            lines += _operation_lines(path, method, operation)
    return "\n".join(lines) + "\n"


def _operation_lines(path: str, method: str, operation: Schema) -> Iterator[str]:
    scopes = [each for one in operation.get("security", ()) for each in one.get("key", ())]
    needs = f"Scope: `{'`, `'.join(scopes)}`." if scopes else "No key."
    yield from (
        "",
        f"### `{method.upper()} {path}`",
        "",
        _prose(operation["description"]),
        "",
        needs,
    )
    parameters = operation.get("parameters", ())
    rows = [
        (
            f"`{each['name']}`",
            each["in"] + (", required" if each.get("required") else ""),
            _type_of(each["schema"]),
            _prose(each.get("description", "")),
        )
        for each in parameters
    ]
    if rows:
        yield from ("", *_table(("parameter", "in", "type", ""), rows))
    if "requestBody" in operation:
        [content, *_] = operation["requestBody"]["content"].values()
        yield from ("", f"Body: {_type_of(content['schema'])}.")
    answers = {
        status: _type_of(next(iter(each["content"].values())).get("schema", {}))
        for status, each in operation["responses"].items()
        if status.startswith("2") and each.get("content")
    }
    if answers:
        yield from ("", "; ".join(f"{status}: {text}" for status, text in answers.items()) + ".")


def _type_of(schema: Schema) -> str:
    """Return a schema in a few words."""
    options: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    match schema:
        case {"$ref": str(reference)}:
            text = f"`{reference.rpartition('/')[2]}`"
        case {"enum": values}:
            text = "one of " + ", ".join(f"`{each}`" for each in values)
        case {"const": value}:
            text = f"`{value}`"
        case {"type": "array"}:
            text = f"list of {_type_of(schema.get('items', {}))}"
        case {"type": "string", "format": form}:
            text = f"text ({form})"
        case {"type": str(name)}:
            text = "text" if name == "string" else name
        case {"type": names}:
            text = _type_of({"anyOf": [{"type": name} for name in names]})
        case _:
            texts = [each for each in map(_type_of, options) if each != "null"]
            text = " or ".join(dict.fromkeys(texts)) or "any value"
    return text


def kafka_page(document: Schema) -> str:
    """Return the topics, and the headers and payload of each record on them."""
    messages: Schema = document["components"]["messages"]
    lines = [
        "# Kafka contract",
        "",
        "Made of [asyncapi.yaml](../asyncapi.yaml), which is the exact contract.",
        "",
        _prose(document["info"]["description"]),
        "",
        "## Topics",
    ]
    for channel in document["channels"].values():
        names = [each["$ref"].rpartition("/")[2] for each in channel["messages"].values()]
        titles = [messages[name]["title"] for name in names]
        links = ", ".join(f"[{title}](#{_slug(title)})" for title in titles)
        lines += ["", f"### `{channel['address']}`", "", f"{channel['title']}.", ""]
        lines += [_prose(channel.get("description", "")), "", f"Records: {links}."]
    lines += ["", "## Records"]
    for message in messages.values():
        lines += ["", f"### {message['title']}"]
        if "headers" in message:
            lines += ["", *_member_table("header", message["headers"])]
        payload: Schema = message.get("payload", {})
        text = _prose(payload.get("description", ""))
        if "properties" in payload:
            lines += ["", f"Value: a JSON object. {text}".rstrip(), ""]
            lines += _member_table("member", payload)
        elif text:
            lines += ["", f"Value: {text}"]
    return "\n".join(lines) + "\n"


def _member_table(name: str, schema: Schema) -> Iterable[str]:
    required = set(schema.get("required", ()))
    rows = [
        (
            f"`{member}`" + ("" if member in required else ", optional"),
            _type_of(each),
            _prose(each.get("description", "")),
        )
        for member, each in schema["properties"].items()
    ]
    return _table((name, "type", ""), rows)


def errors_page() -> str:
    """Return every code of an error, with its exit code, status of HTTP and meaning."""
    for module in _OTHER_ERRORS:
        import_module(module)
    errors = {each.code: each for each in _below(DueledgerError)}
    rows = [
        (
            f"`{code}`",
            str(errors[code].exit_code) if code in errors else "–",
            str(int(KINDS[code].status)) if code in KINDS else "–",
            _prose((errors[code].__doc__ or "") if code in errors else KINDS[code].title),
        )
        for code in sorted(KINDS.keys() | errors.keys())
    ]
    lines = [
        "# Errors",
        "",
        "A code is stable. A command prints it with `--json`, and ends with the exit code.",
        "The service answers a problem document (RFC 9457) with the status.",
        "The message says what happened, where, and what to do.",
        "",
        *_table(("code", "exit code", "HTTP status", ""), rows),
    ]
    return "\n".join(lines) + "\n"


def _below(root: type[DueledgerError]) -> Iterator[type[DueledgerError]]:
    """Yield the classes of errors that have a code of their own; of several the first counts."""
    for each in reversed(root.__subclasses__()):
        yield from _below(each)
        if "code" in vars(each):
            yield each


def _prose(text: str) -> str:
    """Return a text in one line for each paragraph."""
    return "\n\n".join(" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip()))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        cells = (" ".join(each.split()).replace("|", "\\|") for each in row)
        yield f"| {' | '.join(cells)} |"


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
