"""What each command shows of hostile data, on a terminal and into a pipe."""

import asyncio
import json
import os
import pty
import tty
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import asyncpg
import pytest
import typer

from dueledger.cli.commands import COMMANDS
from dueledger.stack import Endpoints
from tests.forks import ForkServer
from tests.hostile_text import ESCAPED, HOSTILE, SHOWN, unsafe_characters

pytestmark = pytest.mark.long

LONG: Final = HOSTILE + "k" * 10_000

DEFINITION: Final = """
definition: "[/x][red]"
tenant: acme
kind: BookClosingDue
business_key: "books\\x1b[31m[/x]"
when: {cron: "0 2 * * *", timezone: UTC}
calendar: {weekend: [sat], holidays: ["2027-01-01"], roll: skip}
payload: {text: "\\x1b[31m[/x]"}
"""
CRONTAB: Final = (
    "MAILTO=[/x]\x1b[31m\n30 6 * * * /bin/remind '[/x]\x1b[31m\u202e'\n@reboot [/x]\x1b[31m\n"
)
CALENDAR: Final = 'date,name\n2027-01-01,"[/x]\x1b[31m\u202e"\n'

FINDING: Final = "00000000-0000-8000-8000-00000000000f"
NONE: Final = "00000000-0000-8000-8000-000000000000"
PLACES: Final = {"actor": f"person:{HOSTILE}", "hostile": HOSTILE, "long": LONG}
ROWS: Final = """
insert into ledger.actor (name, kind) values ({actor}, 'person');
select ledger.emit('acme', 'Renewal', {hostile} || n, '2027-03-01', '2026-01-01',
  json_build_object({hostile}, {hostile}), {hostile}, left({hostile}, 90))
from generate_series(1, 3) n;
update ledger.flow set paused_at = now(), pause_reason = {long},
  paused_by = (select actor_no from ledger.actor where name = {actor});
insert into ledger.pause (tenant, kind, lane, paused_at, actor_no, reason)
select {hostile}, {hostile}, {hostile}, now(), actor_no, {long}
from ledger.actor where name = {actor};
insert into ledger.review
  (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select i.item_no, i.effective_date, i.flow_no, now(), 1, 1, {long}, i.actor_no
from ledger.due_item i where i.business_key = {hostile} || 2;
delete from ledger.pending p using ledger.review r where p.item_no = r.item_no;
insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
select i.effective_date, i.item_no, 11, 1, a.actor_no, now(), jsonb_build_object('reason', {long})
from ledger.due_item i, ledger.actor a where i.business_key = {hostile} || 3 and a.name = {actor};
delete from ledger.pending p using ledger.due_item i
where p.item_no = i.item_no and i.business_key = {hostile} || 3;
insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, detail)
select now(), actor_no, {hostile}, {long}, jsonb_build_object({hostile}, {long})
from ledger.actor where name = {actor};
insert into ledger.audit (actor_no, operation, target, tenants, reason, detail)
select actor_no, {hostile}, {long}, array[{hostile}], {long}, jsonb_build_object({hostile}, {long})
from ledger.actor where name = {actor};
insert into ledger.failure_streak (flow_no, business_key, failures, first_at, last_at, reason)
select flow_no, {hostile}, 9, now(), now(), {long} from ledger.flow;
insert into ledger.reconciliation (started_at, as_of, actor_no, scope)
select now(), now(), actor_no, '{{}}' from ledger.actor where name = {actor};
insert into ledger.finding
  (id, type, severity, tenant, kind, subject, business_key, sentence, expected,
  first_seen_at, last_seen_at, reconciliation_no, resolution, reason)
select '{finding}', 'ORPHAN_RECORD', 'error', {hostile}, {hostile}, {hostile}, {hostile},
  {long},
  jsonb_build_object({hostile}, {long}), now(), now(), reconciliation_no, 'open', {long}
from ledger.reconciliation;
insert into ledger.repair
  (id, finding_id, action, opened_count, status, proposed_at, proposed_by, command, held_because)
select '{finding}', id, 'escalate', 1, 'proposed', now(), actor_no,
  jsonb_build_object({hostile}, {long}), {long}
from ledger.finding, ledger.actor where name = {actor};
insert into ledger.calendar
  (tenant, name, version, document, valid_to, created_at, actor_no, source)
select 'acme', 'hostile', 1, jsonb_build_object('first_day', '2027-01-01', 'last_day', '2027-12-31',
  'weekend', '[]'::jsonb, 'workdays', '[]'::jsonb, 'holidays', '["2027-01-01"]'::jsonb,
  'names', jsonb_build_object('2027-01-01', left({long}, 200))), '2027-12-31', now(),
  actor_no, {long}
from ledger.actor where name = {actor};
insert into ledger.operation
  (verb, tenant, kind, lane, parked_reason, error, in_flight, as_of, item_no_max, matched,
  matched_capped, actor_no, reason)
select 'redrive', {hostile}, {hostile}, {hostile}, {long}, {hostile}, false, now(), 1, 1, false,
  actor_no, {long}
from ledger.actor where name = {actor};
insert into ledger.api_key (prefix, secret_digest, actor_no, scopes, created_by)
select {hostile}, sha256('1'), actor_no, array['read'], actor_no
from ledger.actor where name = {actor};
insert into ledger.tz_change (change_no, digest, tzdata, tzdata_before, opened_at, actor_no)
select 1, {hostile}, {hostile}, array[{hostile}], now(), actor_no
from ledger.actor where name = {actor};
"""

ONE: Final = f"{HOSTILE}1"
SHOWN_BY: Final[Mapping[tuple[str, ...], tuple[str, ...]]] = {
    ("audit",): (),
    ("calendar", "import"): (
        "us",
        "days.csv",
        "--weekend=sat",
        "--valid-to=2027-12-31",
        "--tenant=a",
    ),
    ("calendar", "list"): (),
    ("calendar", "show"): ("hostile", "--tenant=acme"),
    ("cancel",): ("--tenant=acme", f"--reason={HOSTILE}"),
    ("define",): ("definition.yaml",),
    ("definitions",): (),
    ("doctor",): (),
    ("drain",): (HOSTILE, f"--reason={HOSTILE}"),
    ("emit",): (
        *("--tenant=acme", "--kind=Renewal", f"--key={HOSTILE}", "--effective-date=2027-03-01"),
        *("--due-at=2027-03-01", f"--cycle={HOSTILE}", f"--payload={HOSTILE}"),
    ),
    ("failing",): (),
    ("finding", "accept"): (NONE, f"--reason={HOSTILE}"),
    ("finding", "explain"): (NONE, f"--reason={HOSTILE}"),
    ("finding", "show"): (FINDING,),
    ("finding", "take"): (NONE, f"--instead-of={HOSTILE}"),
    ("finding", "return"): (NONE,),
    ("finding", "comment"): (FINDING, f"--comment={HOSTILE}"),
    ("findings",): (),
    ("flow", "list"): (),
    ("flow", "pauses"): (),
    ("flow", "set"): ("acme", "Renewal", f"--lane={HOSTILE[:90]}", "--weight=2"),
    ("flow", "show"): ("acme", "Renewal", f"--lane={HOSTILE[:90]}"),
    ("grant",): ("emitter", "TO", HOSTILE, f"--tenant={HOSTILE}"),
    ("health",): ("relay",),
    ("import", "crontab"): ("tab", "--timezone=UTC"),
    ("import", "eventbridge"): ("jobs",),
    ("import", "kubernetes"): ("jobs",),
    ("import", "quartz"): ("jobs",),
    ("import", "systemd"): ("tab", "--timezone=UTC"),
    ("items",): (),
    ("key", "create"): (HOSTILE, "--scope=read", "--all-tenants"),
    ("key", "list"): (),
    ("key", "revoke"): (HOSTILE,),
    ("key", "rotate"): (HOSTILE,),
    ("key", "sign-out"): (HOSTILE,),
    ("materialise",): ("--check-tz", "--history"),
    ("migrate",): (),
    ("operation", "list"): (),
    ("operation", "show"): ("1",),
    ("operation", "pause"): ("1", f"--reason={HOSTILE}"),
    ("operation", "resume"): ("1", f"--reason={HOSTILE}"),
    ("operation", "approve"): ("1", f"--reason={HOSTILE}"),
    ("operation", "abort"): ("1", f"--reason={HOSTILE}"),
    ("park",): (NONE, f"--reason={HOSTILE}"),
    ("pause",): (HOSTILE, f"--reason={HOSTILE}"),
    ("plan",): (),
    ("preview",): ("definition.yaml", "--from=2027-01-01", "--count=3"),
    ("repair", "list"): (),  # before the pass that closes the finding
    ("reconcile",): ("--once", "--report=report"),
    ("redrive",): (NONE, f"--reason={HOSTILE}"),
    ("rejected",): (),
    ("repair",): (),
    ("repair", "approve"): (NONE, f"--reason={HOSTILE}"),
    ("resume",): (HOSTILE, HOSTILE),
    ("reviews",): (),
    ("review", "take"): ("--tenant=acme", f"--kind={HOSTILE}", f"--instead-of={HOSTILE}"),
    ("review", "return"): (NONE,),
    ("review", "comment"): (f"--comment={HOSTILE}", f"--tenant={HOSTILE}", f"--kind={HOSTILE}"),
    ("revoke",): ("emitter", "FROM", HOSTILE),
    ("show",): (ONE,),
    ("size",): ("--items-per-day=1", "--payload=1"),
    ("snooze",): (NONE, "--until=PT1H", f"--reason={HOSTILE}"),
    ("status",): (),
    ("trigger",): (HOSTILE, "--tenant=acme", f"--reason={HOSTILE}"),
    ("version",): (),
    ("why",): (ONE,),
    ("write-off",): (NONE, f"--reason={HOSTILE}"),
}
"""Each command with arguments that make it show as much hostile text as there is."""

SHOWS_NO_DATA: Final = frozenset(
    {"alert", "allocate", "bench", "demo", "dev", "intake", "relay", "serve", "work"}
)
"""Long-running ones: their lines are log lines, and views that have tests of their own."""

SHOWS_HOSTILE: Final = (
    *("audit", "items", "findings", "reviews", "rejected", "failing", "show", "why", "definitions"),
    *(
        "flow list",
        "flow pauses",
        "flow show",
        "finding show",
        "repair list",
        "status",
        "calendar list",
        "calendar show",
        "key list",
        "operation list",
        "operation show",
    ),
    *("materialise", "import crontab", "cancel"),
)


_END: Final = "\n-- end of a command --\n"
_RUN_ALL: Final = f"""
import json, sys, traceback
from dueledger.cli import main
for command in json.loads(sys.argv[1]):
    try:
        main(command)
    except BaseException:
        traceback.print_exc()
    sys.stdout.write({_END!r})
    sys.stdout.flush()
"""


def _leaves(name: tuple[str, ...], command: object) -> Iterator[tuple[str, ...]]:
    inner: dict[str, object] | None = getattr(command, "commands", None)
    if inner is None or getattr(command, "invoke_without_command", False):
        yield name
    for key, member in (inner or {}).items():
        yield from _leaves((*name, key), member)


def _commands() -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for name, entry in COMMANDS.items():
        if name not in SHOWS_NO_DATA:
            group = cast("Any", typer.main.get_group(import_module(entry.module).app))
            found |= set(_leaves((name,), group.commands[name]))
    return found


def test_every_command_is_tried_with_hostile_data() -> None:
    assert _commands() == set(SHOWN_BY)


@pytest.fixture
async def hostile_ledger(database: str, tmp_path: Path) -> dict[str, str]:
    """Put hostile rows into a ledger and hostile files into a folder; return the variables."""
    (tmp_path / "definition.yaml").write_text(DEFINITION, encoding="utf-8")
    (tmp_path / "tab").write_text(CRONTAB, encoding="utf-8")
    (tmp_path / "days.csv").write_text(CALENDAR, encoding="utf-8")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "[x]\x1b[31m.yaml").write_text("kind: CronJob\nspec: 1\n")
    (tmp_path / "jobs" / os.fsdecode(b"\xff.json")).write_text('{"kind": "[/x]\\ud800\\u001b[31m"}')
    connection = await asyncpg.connect(database)
    quoted = {
        name: await connection.fetchval("select quote_literal($1::text)", text)
        for name, text in PLACES.items()
    }
    for statement in ROWS.strip().split(";\n"):
        await connection.execute(statement.format(**quoted, finding=FINDING))
    await connection.close()
    return {"DUELEDGER_DSN": database, "DUELEDGER_ACTOR": HOSTILE}


async def _shown(
    forks: ForkServer,
    commands: Sequence[Sequence[str]],
    variables: dict[str, str],
    folder: Path,
    *,
    on: str,
) -> list[str]:
    """Run commands in one process, all of its output on one terminal or into one pipe.

    Returns the text of each.
    """
    near, far = pty.openpty() if on == "terminal" else os.pipe()
    if on == "terminal":
        tty.setraw(far)
    reading = asyncio.create_task(asyncio.to_thread(_read, near))
    environment = {name: text for name, text in os.environ.items() if "DUELEDGER_" not in name}
    process = await forks.start(
        *("-c", _RUN_ALL, json.dumps(commands)),
        env=environment | variables | {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "4000"},
        cwd=folder,
        output=far,
    )
    os.close(far)
    await process.wait()
    shown = (await reading).decode().replace("\x1b[1m", "").replace("\x1b[0m", "")  # of headings
    *texts, rest = shown.split(_END)
    assert rest == ""
    return texts


def _read(descriptor: int) -> bytes:
    blocks: list[bytes] = []
    with open(descriptor, "rb", buffering=0) as stream:
        try:
            while block := stream.read(1 << 16):
                blocks.append(block)
        except OSError:  # Linux reports the end of a terminal so
            pass
    return b"".join(blocks)


@pytest.mark.damages
@pytest.mark.parametrize("on", ["terminal", "pipe"])
async def test_no_command_gives_the_terminal_what_it_would_execute_or_ends_because_of_it(
    fork_server: ForkServer,
    hostile_ledger: dict[str, str],
    stack: Endpoints,
    tmp_path: Path,
    on: str,
) -> None:
    variables = hostile_ledger | {"DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    form = () if on == "terminal" else ("--json",)
    commands = [(*name, *given, *form) for name, given in SHOWN_BY.items()]
    names = [" ".join((*name, *form)) for name in SHOWN_BY]
    faults: dict[str, object] = {}
    texts = await _shown(fork_server, commands, variables, tmp_path, on=on)
    for name, shown in zip(names, texts, strict=True):
        text = "".join(shown.split())
        if "Traceback" in shown or not shown:
            faults[name] = shown[-2_000:] or "nothing was shown"
        elif unsafe := unsafe_characters(shown):
            faults[name] = unsafe
        elif name in SHOWS_HOSTILE and SHOWN not in text and ESCAPED not in text:
            faults[name] = shown
    assert faults == {}
    [page] = (tmp_path / "report").glob("*.html") if on == "pipe" else [None]
    if page is not None:
        html = page.read_text(encoding="utf-8")
        assert unsafe_characters(html) == set()
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
