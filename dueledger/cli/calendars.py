"""Calendars of business days: imported as versions, listed, shown."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, LimitOption, TenantOption
from dueledger.cli.output import print_document, print_fields, print_list, print_rows, say
from dueledger.cli.session import ledger_connection, persons_change, run

if TYPE_CHECKING:
    from dueledger.calendars.diff import CalendarDifference
    from dueledger.calendars.import_calendar import CalendarImport
    from dueledger.calendars.source_calendar import SourceCalendar
    from dueledger.ledger.store.calendars import CalendarRow, ListedCalendar

app = typer.Typer(rich_markup_mode=None)
calendars = typer.Typer(help="Manage calendars of business days.", no_args_is_help=True)
app.add_typer(calendars, name="calendar")

_SHOWN_MAX = 20
_YEAR_CHARS = 4

NameArgument = Annotated[str, typer.Argument(help="Its name in `calendar: {name: …}`.")]
OwnerOption = Annotated[str, typer.Option("--tenant", help="Tenant that owns the calendar.")]


@calendars.command("import")
def import_(
    name: NameArgument,
    file: Annotated[
        Path | None,
        typer.Argument(help="A .csv or .ics file, or the output of `show --json`.", metavar="FILE"),
    ] = None,
    holidays: Annotated[
        str | None,
        typer.Option(
            "--holidays", help="Use public holidays, not a file.", metavar="COUNTRY[-SUBDIV]"
        ),
    ] = None,
    exchange: Annotated[
        str | None,
        typer.Option(
            "--exchange", help="Use the sessions of an exchange, not a file.", metavar="CODE"
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="First year, or day.", metavar="YEAR")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Last year, or day.", metavar="YEAR")
    ] = None,
    weekend: options.WeekendOption = None,
    valid_from: options.ValidFromOption = None,
    valid_to: options.ValidToOption = None,
    *,
    tenant: OwnerOption,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Import a calendar as its next version; the same days again change nothing."""
    _check_name(name)
    if sum(source is not None for source in (file, holidays, exchange)) != 1:
        raise typer.BadParameter("give one of FILE, --holidays and --exchange", param_hint="FILE")
    first = None if since is None else _day(since, "--from", last=False)
    last = None if until is None else _day(until, "--to", last=True)
    if valid_from is not None:
        first = options.read_date(valid_from, "--valid-from")
    if valid_to is not None:
        last = options.read_date(valid_to, "--valid-to")
    found = _read((file, holidays, exchange), weekend, (first, last))
    imported = run(_import(dsn, found, (tenant, name), apply=not dry_run))
    if json_:
        print_document(_document(imported, found))
    else:
        _print(imported, found)


def _check_name(name: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from dueledger.ledger.schedule.observance import CalendarName

    try:
        TypeAdapter[str](CalendarName).validate_python(name)
    except ValidationError:
        message = f"{name!r}: at most 100 of A-Z a-z 0-9 . _ -"
        raise typer.BadParameter(message, param_hint="NAME") from None


def _day(text: str, option: str, *, last: bool) -> date:
    if len(text) == _YEAR_CHARS and text.isascii() and text.isdigit() and text != "0000":
        return date(int(text), 12, 31) if last else date(int(text), 1, 1)
    return options.read_date(text, option)


def _read(
    source: tuple[Path | None, str | None, str | None],
    weekend: str | None,
    days: tuple[date | None, date | None],
) -> "SourceCalendar":
    from dueledger.calendars.exchange_source import read_exchange
    from dueledger.calendars.files import CalendarFileOptions, read_file
    from dueledger.calendars.holidays_source import read_holidays
    from dueledger.calendars.source_calendar import check_span, read_weekend

    file, place, code = source
    first, last = days
    if file is not None:
        return read_file(file, CalendarFileOptions(weekend, first, last))
    if first is None or last is None:
        raise typer.BadParameter("give the first and the last year", param_hint="--from, --to")
    span = check_span(first, last, "--to")
    if place is not None:
        return read_holidays(place, None if weekend is None else read_weekend(weekend), span)
    if weekend is not None:
        raise typer.BadParameter(
            "the sessions of an exchange define its weekend", param_hint="--weekend"
        )
    return read_exchange(code or "", span)


async def _import(
    dsn: str | None, found: "SourceCalendar", key: tuple[str, str], *, apply: bool
) -> "CalendarImport":
    from dueledger.audited_changes import version_detail
    from dueledger.calendars.import_calendar import import_calendar

    tenant, name = key
    if not apply:
        async with ledger_connection(dsn) as connection:
            return await import_calendar(connection, found, tenant=tenant, name=name, actor_no=None)
    async with persons_change(dsn) as change:
        imported = await import_calendar(
            change.connection, found, tenant=tenant, name=name, actor_no=change.actor_no
        )
        if imported.applied:
            target, detail = f"calendars/{tenant}/{name}", version_detail(imported.version)
            await change.audit("putCalendar", target, [tenant], **detail)
    return imported


def _document(imported: "CalendarImport", found: "SourceCalendar") -> dict[str, object]:
    from dueledger.calendars.import_calendar import changes_document

    return {
        "tenant": imported.tenant,
        "calendar": imported.name,
        "version": imported.version,
        "changed": imported.changed,
        "applied": imported.applied,
        "source": found.source,
        "first_day": imported.document.first_day,
        "last_day": imported.document.last_day,
        "weekend": imported.document.weekend,
        "holidays": len(imported.document.holidays),
        "workdays": len(imported.document.workdays),
        "difference": None
        if imported.difference is None
        else changes_document(imported.difference),
        "definitions": [
            {
                "definition": one.definition.name,
                "version": one.definition.version,
                "kind": one.definition.kind,
                "items_on_changed_days": one.items_on_changed_days,
            }
            for one in imported.concerned
        ],
        "counted_all": imported.counted_all,
        "remarks": found.remarks,
    }


def _print(imported: "CalendarImport", found: "SourceCalendar") -> None:
    for remark in found.remarks:
        say(remark)
    document, difference = imported.document, imported.difference
    if difference is not None:
        _print_difference(difference)
    rows = [
        {
            "definition": one.definition.name,
            "version": one.definition.version,
            "kind": one.definition.kind,
            "items_on_changed_days": one.items_on_changed_days,
        }
        for one in imported.concerned
    ]
    if rows:
        columns = ("definition", "version", "kind", "items_on_changed_days")
        print_rows(rows, columns, empty="")
    if items := sum(one.items_on_changed_days for one in imported.concerned):
        more = "" if imported.counted_all else " or more"
        say(
            f"{items:,}{more} items are already materialised on changed days: "
            "they stay where they are."
        )
    done = "is" if imported.applied else "would be" if imported.changed else "is already"
    say(
        f"{imported.tenant}/{imported.name} {done} version {imported.version}: "
        f"{document.first_day} to {document.last_day}, {len(document.holidays):,} holidays, "
        f"weekend {','.join(document.weekend) or 'none'}, from {found.source}"
    )


def _print_difference(difference: "CalendarDifference") -> None:
    rows = [
        {"change": sign, "day": one.day.isoformat(), "weekday": f"{one.day:%A}", "name": one.name}
        for sign, days in (("+", difference.added), ("-", difference.removed))
        for one in days
    ]
    rows += [
        {"change": sign, "day": day.isoformat(), "weekday": f"{day:%A}", "name": "workday"}
        for sign, days in (
            ("+", difference.workdays_added),
            ("-", difference.workdays_removed),
        )
        for day in days
    ]
    rows.sort(key=lambda row: (row["day"], row["change"]))
    if rows:
        print_rows(rows[:_SHOWN_MAX], ("change", "day", "weekday", "name"), empty="")
    if len(rows) > _SHOWN_MAX:
        say(f"and {len(rows) - _SHOWN_MAX:,} more: --json has them all")
    (first, last), (new_first, new_last) = difference.range
    if (first, last) != (new_first, new_last):
        say(f"range: {first} to {last} becomes {new_first} to {new_last}")
    if difference.reaches_less:
        say("It covers fewer days than the version before: schedules that need other days fail.")
    before, after = difference.weekend
    if before != after:
        say(f"weekend: {','.join(before) or 'none'} becomes {','.join(after) or 'none'}")
    if difference.renamed:
        say(f"{difference.renamed:,} days have another name")


@calendars.command("list")
def list_(
    tenant: TenantOption = None,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List calendars: the newest version of each, its last day, and which definitions use it."""
    from dataclasses import asdict

    listed = run(_list(dsn, tenant, limit + 1))
    columns = ("tenant", "name", "version", "valid_to", "definitions", "source", "created_at")
    rows = [{k: v for k, v in asdict(one).items() if k != "calendar_no"} for one in listed]
    empty = "There is no calendar. Import one: dueledger calendar import"
    print_list(rows, columns, limit=limit, as_json=json_, empty=empty)


async def _list(dsn: str | None, tenant: str | None, limit: int) -> "list[ListedCalendar]":
    from dueledger.ledger.store.calendars import list_calendars

    async with ledger_connection(dsn) as connection:
        return await list_calendars(connection, tenant=tenant, limit=limit)


@calendars.command("show")
def show(
    name: NameArgument,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Version number; default is the newest.")
    ] = None,
    *,
    tenant: OwnerOption,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show a version of a calendar with its days."""
    from dueledger.ledger.store.calendar_cache import parse_stored

    row = run(_find(dsn, (tenant, name), version))
    if json_:
        print_document(
            {
                "tenant": row.tenant,
                "calendar": row.name,
                "version": row.version,
                "valid_to": row.valid_to,
                "source": row.source,
                "created_at": row.created_at,
                "document": row.document,
            }
        )
        return
    document = parse_stored(row).normalised()
    print_fields(
        {
            "calendar": f"{row.tenant}/{row.name}",
            "version": row.version,
            "range": f"{document['first_day']} to {document['last_day']}",
            "weekend": ",".join(document["weekend"]) or "none",
            "workdays": ", ".join(document["workdays"]) or None,
            "source": row.source,
            "created_at": row.created_at,
        }
    )
    days = [
        {"holiday": day, "weekday": f"{date.fromisoformat(day):%A}", "name": names}
        for day in document["holidays"]
        for names in (document["names"].get(day),)
    ]
    print_rows(days, ("holiday", "weekday", "name"), empty="No holidays.")


async def _find(dsn: str | None, key: tuple[str, str], version: int | None) -> "CalendarRow":
    from dueledger.ledger.errors import NotFound
    from dueledger.ledger.schedule.observance import nearest_first
    from dueledger.ledger.store.calendars import find_calendar_version, list_calendars

    tenant, name = key
    async with ledger_connection(dsn) as connection:
        row = await find_calendar_version(connection, tenant, name, version)
        if row is not None:
            return row
        known = [one.name for one in await list_calendars(connection, tenant=tenant, limit=1_000)]
    which = name if version is None else f"{name}, version {version}"
    near = ", ".join(nearest_first(name, known)) or "none"
    raise NotFound(f"tenant {tenant!r} has no calendar {which}; it has {near}", calendar=name)
