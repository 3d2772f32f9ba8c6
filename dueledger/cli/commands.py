"""The commands by panel of the help: the module that defines each, and a summary of one line.

`dueledger --help` prints this table, so that it imports no command.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import dueledger


class CommandEntry(NamedTuple):
    """A module whose Typer `app` has a command or group of this name, and the summary."""

    module: str
    summary: str


def _entries(module: str, summaries: Mapping[str, str]) -> dict[str, CommandEntry]:
    return {name: CommandEntry(module, summary) for name, summary in summaries.items()}


_BENCH: Final = {"bench": CommandEntry("bench.cli", "Measure this code on this machine.")}
_IS_CHECKOUT: Final = (Path(dueledger.__file__).resolve().parents[1] / "pyproject.toml").exists()

PANELS: Final[Mapping[str, Mapping[str, CommandEntry]]] = {
    "Start": _entries(
        "dueledger.cli.setup",
        {
            "demo": "Run a simulated day, freeze and kill workers in it, and check the result.",
            "dev": "Run Postgres, Kafka and every process on this machine.",
            "doctor": "Check this installation and say what to fix.",
            "migrate": "Bring the schema of the database up to date.",
        },
    ),
    "Definitions": {
        **_entries(
            "dueledger.cli.definitions",
            {
                "define": "Show what files change, and put their definitions in force.",
                "definitions": "List the definitions in force and to come, or all versions of one.",
            },
        ),
        **_entries("dueledger.cli.preview", {"preview": "Show when a definition falls due."}),
        **_entries(
            "dueledger.cli.planning",
            {"plan": "Show the expected load, its peaks and its quiet periods."},
        ),
        **_entries("dueledger.cli.calendars", {"calendar": "Manage calendars of business days."}),
        **_entries(
            "dueledger.cli.imports",
            {"import": "Convert the files of other schedulers to definitions."},
        ),
    },
    "Items": {
        **_entries(
            "dueledger.cli.items",
            {
                "emit": "Emit one item.",
                "items": "List items with their states.",
                "show": "Show one item and its history, its first `--limit` steps.",
                "why": "Explain why an item has not been done yet.",
            },
        ),
        **_entries(
            "dueledger.cli.decisions",
            {
                "reviews": "List items that wait for a person's decision.",
                "rejected": "List stale and illegal writes, which changed nothing.",
            },
        ),
        **_entries(
            "dueledger.cli.item_decisions",
            {
                "cancel": "End items that are no longer owed.",
                "park": "Park items that wait for a retry.",
                "redrive": "Send parked items back to pending.",
                "snooze": "Let items that wait be handed out later.",
                "write-off": "End parked items without doing them.",
            },
        ),
        **_entries(
            "dueledger.cli.reviews", {"review": "Take parked items, return them, or comment."}
        ),
        **_entries(
            "dueledger.cli.operations",
            {"operation": "Show operations on many items; approve, pause, resume and abort one."},
        ),
    },
    "Processes": _entries(
        "dueledger.cli.processes",
        {
            "allocate": "Claim due items and publish them to Kafka.",
            "work": "Run the handlers of due items.",
            "intake": "Emit items from domain events in Kafka.",
            "alert": "Send alerts by webhook, chat, mail and Kafka.",
            "materialise": "Emit items from schedules, ahead of time.",
            "relay": "Carry items from a service's outbox.",
            "serve": "Answer requests by HTTP, with API keys, and people by the console.",
        },
    ),
    "Proof": {
        **_entries(
            "dueledger.cli.reconciliation",
            {"reconcile": "Compare what was expected with what happened."},
        ),
        **_entries(
            "dueledger.cli.findings",
            {
                "findings": "List what the last reconciliations found.",
                "finding": "Show, take, explain or accept findings.",
            },
        ),
        **_entries(
            "dueledger.cli.repairs",
            {"repair": "Reconcile and show what repairs change, or execute them."},
        ),
        **_entries(
            "dueledger.cli.audit", {"audit": "List what people, API keys and tokens changed."}
        ),
    },
    "Operations": {
        **_entries(
            "dueledger.cli.status",
            {"status": "Show what is late, for whom, and why, on one screen."},
        ),
        **_entries(
            "dueledger.cli.flows",
            {
                "pause": "Stop claims of a tenant, kind or lane.",
                "resume": "End a pause, and all narrower ones in it.",
                "trigger": "Make pending items available now, or emit one of a schedule.",
                "failing": "List business keys that failed several times in a row.",
                "flow": "Show and change the limits of flows.",
            },
        ),
        **_entries("dueledger.cli.drain", {"drain": "Ask a process to drain and stop."}),
        **_entries(
            "dueledger.cli.health",
            {"health": "Say whether the process on this machine lives and can take work."},
        ),
        **_entries(
            "dueledger.cli.roles",
            {
                "grant": "Grant roles to a login.",
                "revoke": "Revoke roles from a login.",
            },
        ),
        **_entries(
            "dueledger.cli.sizing",
            {"size": "Compute rows, disk, connections and cores for a number of items a day."},
        ),
        **_entries("dueledger.cli.api_keys", {"key": "Manage keys of the REST interface."}),
        **_entries("dueledger.cli.setup", {"version": "Print the version as JSON."}),
        **(_BENCH if _IS_CHECKOUT else {}),
    },
}

COMMANDS: Final[Mapping[str, CommandEntry]] = {
    name: entry for panel in PANELS.values() for name, entry in panel.items()
}
