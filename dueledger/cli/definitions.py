"""Commands that put definitions in force and list their versions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, LimitOption, TenantOption
from dueledger.cli.output import print_lines, print_list, print_rows, say
from dueledger.cli.session import PersonsChange, ledger_connection, register_person, run

if TYPE_CHECKING:
    from dueledger.definitions.change import DefinitionChange

app = typer.Typer(rich_markup_mode=None)

_DOCUMENTS = "YAML or JSON: one definition, several, or a list."
FileArgument = Annotated[Path, typer.Argument(help=_DOCUMENTS, metavar="FILE")]
FilesArgument = Annotated[list[Path], typer.Argument(help=_DOCUMENTS, metavar="FILE…")]
EffectiveFromOption = Annotated[
    str | None,
    typer.Option(
        "--effective-from", help="Time from which it is in force; default now.", metavar="T"
    ),
]


@app.command()
def define(
    files: FilesArgument,
    effective_from: EffectiveFromOption = None,
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill", help="Emit all items since --effective-from, even if that is long ago."
        ),
    ] = False,
    prune: Annotated[
        str | None,
        typer.Option(
            "--prune",
            help="End definitions of this source that the files have no longer.",
            metavar="SOURCE",
        ),
    ] = None,
    accept_disagreement: options.AcceptDisagreementOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show what files change, and put their definitions in force. Repeating it changes nothing.

    All definitions of all files are put in force, or none. Items handed out or ended do not change.
    """
    since = _instant(effective_from, "--effective-from")
    documents: list[dict[str, object]] = []

    def show(changes: "Sequence[DefinitionChange]") -> None:
        if json_:  # computed before anything is done, and printed after it
            documents.extend(change.document() for change in changes)
        else:
            _show_all(changes, dry_run=dry_run)

    changes = run(
        _define(
            *(dsn, files, since, prune),
            accepted=accept_disagreement,
            backfill=backfill,
            dry_run=dry_run,
            show=show,
        )
    )
    if json_:
        print_lines(documents)
    else:
        print_rows(
            [asdict(change.defined) for change in changes],
            ("tenant", "definition", "version", "changed"),
            empty="",
        )
        if dry_run:
            say("Nothing was changed.")


@app.command()
def definitions(
    name: Annotated[
        str | None, typer.Argument(help="All versions of this one.", metavar="NAME")
    ] = None,
    tenant: TenantOption = None,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List the definitions in force and to come, or all versions of one."""
    rows = run(_list(dsn, tenant, name, limit + 1))
    columns = [
        *("tenant", "definition", "version", "state", "kind", "effective_from"),
        *(("superseded_at",) if name else ()),
        *("materialised_until", "defined_by"),
    ]
    print_list(rows, columns, limit=limit, as_json=json_, empty="No definition was found.")
    for row in () if json_ else rows[:limit]:
        version = f"{row['tenant']}/{row['definition']}, version {row['version']}"
        if name and row["when"]:
            say(f"{version}: {row['when']}.")
        if row["failure"]:
            say(f"{version}: {row['failure']}")


async def _list(
    dsn: str | None, tenant: str | None, name: str | None, limit: int
) -> list[dict[str, object]]:
    from dueledger.ledger.store.definitions import list_versions

    async with ledger_connection(dsn) as connection:
        versions = await list_versions(
            connection, tenant, name, newest_only=name is None, limit=limit
        )
    return [
        {
            "tenant": one.tenant,
            "definition": one.name,
            "version": one.version,
            "state": one.state.value,
            "kind": one.kind,
            "when": _words(one.document),
            "effective_from": one.effective_from,
            "superseded_at": one.superseded_at,
            "materialised_until": one.materialised_until,
            "failure": one.failure,
            "defined_by": one.defined_by,
            "defined_at": one.created_at,
            "document": one.document,
        }
        for one in versions
    ]


def _words(document: "Mapping[str, object]") -> str | None:
    """Return when a definition is due, in words; None for one that is not read any more."""
    from dueledger.ledger.definitions.parsing import parse_definition
    from dueledger.ledger.errors import InvalidDefinition
    from dueledger.preview.rule_words import rule_words

    try:
        return rule_words(parse_definition(document, calendars=None))
    except InvalidDefinition:
        return None


async def _define(
    dsn: str | None,
    files: list[Path],
    since: datetime | None,
    prune: str | None,
    *,
    accepted: str | None,
    backfill: bool,
    dry_run: bool,
    show: "Callable[[Sequence[DefinitionChange]], None]",
) -> "Sequence[DefinitionChange]":
    """Compute what changes, show it, ask the witness, and apply exactly that.

    What is shown may be read page by page: nobody waits meanwhile, and nothing has been done yet.
    """
    from dueledger.audited_changes import version_detail
    from dueledger.definitions.change import DefinitionRequest, doubts, plan_changes
    from dueledger.definitions.files import read_files
    from dueledger.definitions.named_calendars import add_ledger_calendars
    from dueledger.definitions.prune import find_pruned
    from dueledger.definitions.second_opinion import check_agreement
    from dueledger.definitions.topic_rules import TopicSettings
    from dueledger.ledger.runtime.setting_problems import read_settings

    topic_rules = read_settings(TopicSettings).rules()
    read, sources = read_files(files)
    async with ledger_connection(dsn) as connection:
        read += [] if prune is None else await find_pruned(connection, read, prune)
        request = DefinitionRequest(
            definitions=await add_ledger_calendars(connection, read, sources),
            effective_from=since,
            backfill=backfill,
            topic_rules=topic_rules,
            actor_no=await register_person(connection),
            sources=sources,
            may_loosen=True,
        )
        change = PersonsChange(connection, request.actor_no)
        planned = await plan_changes(connection, request)
        show(planned.changes)
        for line in await planned.describe(connection):
            say(line)
        opinions = await planned.ask_witness()
        for line in doubts(opinions):
            say(line)
        if accepted is None:
            check_agreement(opinions)
        if not dry_run:
            async with connection.transaction():
                await planned.apply(connection, opinions, accepted)
                for each in planned.changes:
                    if each.defined.changed:
                        tenant = each.definition.tenant
                        detail = version_detail(each.defined.version)
                        target = f"definitions/{tenant}/{each.definition.definition}"
                        await change.audit("putDefinition", target, [tenant], accepted, **detail)
    return planned.changes


def _show_all(changes: "Sequence[DefinitionChange]", *, dry_run: bool) -> None:
    for change in changes:
        if change.defined.changed:
            _show_diff(change, dry_run=dry_run)


def _show_diff(change: "DefinitionChange", *, dry_run: bool) -> None:
    """Show how the next occurrences change, before it is applied."""
    from dueledger.definitions.change import local_text
    from dueledger.ledger.schedule import AfterCompletion
    from dueledger.preview.rule_words import rule_words

    definition, diff = change.definition, change.preview.diff
    say(_headline(change))
    if words := rule_words(definition):
        say(f"  {words}.")
    if isinstance(definition.when, AfterCompletion):
        say("  A fixed delay: the next item is emitted when the one before has ended.")
    if definition.event is not None:
        say("  An event rule: items of earlier events stay; later events use this version.")
    if definition.is_declaration:
        say(f"  It has no schedule: services emit items of {definition.kind}, which are worked so.")
    rows = [
        {
            "change": one.kind.value,
            "local": local_text(one.at, one.zone),
            "utc": one.at,
            "was": None
            if one.due_before in {None, one.at}
            else local_text(one.due_before or one.at, one.zone),
        }
        for one in diff.upcoming
    ]
    if rows:
        print_rows(rows, ("change", "local", "utc", "was"), empty="", on_stderr=not dry_run)
    if any(diff.counts.values()):
        days = (diff.until - diff.since).total_seconds() / 86_400
        counts = ", ".join(f"{count:,} {kind.value}" for kind, count in diff.counts.items())
        say(f"  In the {days:,.3g} days from then on: {counts}.")


def _headline(change: "DefinitionChange") -> str:
    from dueledger.definitions.change import local_text

    definition, preview = change.definition, change.preview
    diff = preview.diff
    name = f"{definition.tenant}/{definition.definition}, version {change.defined.version}"
    said = f"{name}, from {local_text(diff.since, 'UTC')}"
    if diff.base_version is None:
        return f"{said}: new"
    if definition.ended:
        return f"{said}: ends, after version {diff.base_version}"
    fields = ", ".join(diff.fields) or "nothing"
    said = f"{said}, after version {diff.base_version}: {fields} changed"
    if preview.superseded:
        numbers = ", ".join(str(number) for number in preview.superseded)
        said += f"; version {numbers} will never be in force"
    return said


def _instant(text: str | None, option: str) -> datetime | None:
    return None if text is None else options.read_instant(text, option)
