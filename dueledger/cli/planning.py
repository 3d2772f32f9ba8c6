"""The command that plans: expected load, peaks, and quiet periods."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption, KindOption, TenantOption
from dueledger.cli.output import print_document, print_rows, say
from dueledger.cli.session import ledger_connection, run

if TYPE_CHECKING:
    from dueledger.ledger.definitions.parsing import Definition
    from dueledger.planning.ledger_load import LedgerLoad, LoadFilter
    from dueledger.planning.load_plan import LoadPlan, QuietPeriod
    from dueledger.planning.schedule_load import DefinitionInForce, LoadSource

app = typer.Typer(rich_markup_mode=None)

_DAY = timedelta(days=1)
_BAR_CHARS = 40
_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHOWN_MAX = 20


@app.command()
def plan(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Definitions; default is those in force in the database."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Start; default is the database's time.", metavar="T"),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End; default is a day after the start.", metavar="T")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option("--service", help="Only definitions whose label `service` is this."),
    ] = None,
    tenant: TenantOption = None,
    kind: KindOption = None,
    smear: Annotated[
        str, typer.Option("--smear", help="Smear for definitions that have none.", metavar="PERIOD")
    ] = "PT10M",
    quiet_for: Annotated[
        str, typer.Option("--quiet-for", help="How long a deployment takes.", metavar="PERIOD")
    ] = "PT30M",
    calendar: options.CalendarOption = None,
    weekend: options.WeekendOption = None,
    valid_from: options.ValidFromOption = None,
    valid_to: options.ValidToOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show the expected load, its peaks and its quiet periods, by quarter of an hour."""
    from dueledger.planning.ledger_load import LoadFilter
    from dueledger.planning.load_plan import make_plan
    from dueledger.planning.schedule_load import expand_schedules

    tried, quiet = _period(smear, "--smear"), _period(quiet_for, "--quiet-for")
    start, end = _instant(since, "--from"), _instant(until, "--to")
    wanted = LoadFilter(tenant, kind, service)
    if files:
        if start is None:
            raise typer.BadParameter("give the start: files have no clock", param_hint="--from")
        end = end or start + _DAY
        read = _named(files, calendar, (weekend, valid_from, valid_to), dsn)
        chosen = [each for each in read if wanted.matches(each)]
        schedules = expand_schedules(_of_files(chosen, start, end), start, end, smear=tried)
        made = make_plan(schedules, quiet_for=quiet)
    else:
        load = run(_of_database(dsn, (start, end), wanted, tried))
        made = make_plan(load.schedules, load.waiting, quiet_for=quiet)
    if json_:
        print_document(_document(made))
    else:
        _print(made)


def _named(
    files: list[Path],
    calendars: list[str] | None,
    terms: tuple[str | None, str | None, str | None],
    dsn: str | None,
) -> "list[Definition]":
    from dueledger.cli.named_calendars import add_named_calendars
    from dueledger.definitions.files import read_files

    read, _ = read_files(files)
    return add_named_calendars(read, calendars, terms, dsn)


def _of_files(
    read: "list[Definition]", start: datetime, end: datetime
) -> "list[DefinitionInForce]":
    from dueledger.planning.schedule_load import DefinitionInForce

    margin = 2 * _DAY  # in force before and after: a smear reaches over the edge
    return [DefinitionInForce(definition, start - margin, end + margin) for definition in read]


async def _of_database(
    dsn: str | None,
    bounds: tuple[datetime | None, datetime | None],
    wanted: "LoadFilter",
    smear: timedelta,
) -> "LedgerLoad":
    from dueledger.ledger.store.clock import read_now
    from dueledger.planning.ledger_load import read_load

    async with ledger_connection(dsn) as connection:
        start = bounds[0] or await read_now(connection)
        load = await read_load(connection, wanted, start, bounds[1] or start + _DAY, smear=smear)
    for failed in load.failures:
        say(
            f"not counted: {failed.tenant}/{failed.name}, version {failed.version}: {failed.reason}"
        )
    return load


def _document(plan: "LoadPlan") -> dict[str, object]:
    from dueledger.ledger.schedule.expressions import instant_text, period_text

    def period(quiet: "QuietPeriod") -> dict[str, object]:
        return {
            "from": instant_text(quiet.start),
            "to": instant_text(quiet.end),
            "period": period_text(quiet.end - quiet.start),
            "due": quiet.due,
        }

    quarters = [
        {
            "from": instant_text(each.start),
            "due": each.due,
            "waiting": each.waiting,
            "busiest_minute": each.busiest_minute,
            "smeared_due": each.smeared_due,
            "smeared_busiest_minute": each.smeared_busiest_minute,
        }
        for each in plan.quarters
    ]
    shown = {each.start: document for each, document in zip(plan.quarters, quarters, strict=True)}
    return {
        "from": instant_text(plan.start),
        "to": instant_text(plan.end),
        "smear": period_text(plan.smear),
        "quiet_for": period_text(plan.quiet_for),
        "definitions": plan.definitions,
        "due": sum(each.due for each in plan.quarters),
        "waiting": sum(each.waiting for each in plan.quarters),
        "overdue": plan.overdue,
        "not_counted": [
            {
                "tenant": each.source.tenant,
                "definition": each.source.definition,
                "kind": each.source.kind,
                "reason": each.reason,
            }
            for each in plan.not_counted
        ],
        "quarters": quarters,
        "peaks": [
            {
                **shown[peak.quarter.start],
                "most_of": [
                    {
                        "tenant": source.tenant,
                        "definition": source.definition,
                        "kind": source.kind,
                        "due": due,
                    }
                    for source, due in peak.most_of
                ],
            }
            for peak in plan.peaks
        ],
        "quiet": [period(each) for each in plan.quiet],
        "quietest": None if plan.quietest is None else period(plan.quietest),
    }


def _print(plan: "LoadPlan") -> None:
    from dueledger.ledger.schedule.expressions import period_text

    _print_chart(plan)
    peaks = [
        {
            "peak": _minute(peak.quarter.start),
            "due": peak.quarter.due,
            "busiest_minute": peak.quarter.busiest_minute,
            "smeared": peak.quarter.smeared_due,
            "its_busiest_minute": peak.quarter.smeared_busiest_minute,
            "most_of": ", ".join(
                f"{_named_source(source)} {due:,}" for source, due in peak.most_of
            ),
        }
        for peak in plan.peaks
    ]
    columns = ("peak", "due", "busiest_minute", "smeared", "its_busiest_minute", "most_of")
    print_rows(peaks, columns, empty="Nothing falls due.")
    busiest = max((each.busiest_minute for each in plan.quarters), default=0)
    smeared = max((each.smeared_busiest_minute for each in plan.quarters), default=0)
    smear = period_text(plan.smear)
    say(f"Busiest minute: {busiest:,}; with a smear of {smear} it would be {smeared:,}.")
    _print_quiet(plan)
    if waiting := sum(each.waiting for each in plan.quarters):
        say(f"Of these, {waiting:,} are in the ledger already; a smear does not move them.")
    if plan.overdue:
        say(f"{plan.overdue:,} were due before and are pending; workers start them first.")
    for reason in sorted({each.reason for each in plan.not_counted}):
        names = [_named_source(one.source) for one in plan.not_counted if one.reason == reason]
        more = ", …" if len(names) > len(names[:3]) else ""
        say(f"cannot be predicted ({len(names):,}), {reason}: {', '.join(names[:3])}{more}")


def _named_source(source: "LoadSource") -> str:
    """Return tenant and definition, or the kind that a service emits itself."""
    return f"{source.tenant}/{source.definition or f'{source.kind} (emitted)'}"


def _print_quiet(plan: "LoadPlan") -> None:
    from dueledger.ledger.schedule.expressions import period_text

    rows = [
        {
            "quiet_from": _minute(one.start),
            "to": _minute(one.end),
            "for": period_text(one.end - one.start),
        }
        for one in plan.quiet[:_SHOWN_MAX]
    ]
    if rows:
        print_rows(rows, ("quiet_from", "to", "for"), empty="")
    if len(plan.quiet) > len(rows):
        say(f"and {len(plan.quiet) - len(rows):,} more: --json has them all")
    if plan.quietest is not None:
        quiet = plan.quietest
        say(
            f"No quiet window of {period_text(plan.quiet_for)}. The quietest: "
            f"{_minute(quiet.start)} to {_minute(quiet.end)}, in which {quiet.due:,} fall due."
        )


def _print_chart(plan: "LoadPlan") -> None:
    """Draw a bar for each quarter of a day, or a line of blocks for each day of more."""
    highest = max((each.due for each in plan.quarters), default=0) or 1
    if plan.end - plan.start <= _DAY:
        rows: list[dict[str, object]] = [
            {
                "quarter": _minute(each.start),
                "due": each.due,
                "chart": "█" * -(-each.due * _BAR_CHARS // highest),
            }
            for each in plan.quarters
        ]
        print_rows(rows, ("quarter", "due", "chart"), empty="")
        return
    days: dict[str, list[int]] = {}
    for each in plan.quarters:
        day = days.setdefault(each.start.date().isoformat(), [])
        if not day:  # the first day may begin late
            midnight = each.start.replace(hour=0, minute=0)
            day += [0] * ((each.start - midnight) // timedelta(minutes=15))
        day.append(each.due)
    rows = [
        {
            "day": day,
            "due": sum(dues),
            "by_quarter_hour_utc": "".join(_BLOCKS[-(-due * 8 // highest)] for due in dues),
        }
        for day, dues in days.items()
    ]
    print_rows(rows, ("day", "due", "by_quarter_hour_utc"), empty="")
    say(f"█ is {highest:,} in a quarter of an hour.")


def _minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}Z"


def _instant(text: str | None, option: str) -> datetime | None:
    return None if text is None else options.read_due_instant(text, option)


def _period(text: str, option: str) -> timedelta:
    from pydantic_core import PydanticCustomError

    from dueledger.ledger.schedule.expressions import parse_period

    try:
        return parse_period(text)
    except PydanticCustomError as error:
        context = error.context or {}
        message = f"{text!r}: {context['reason']}. Write: {context['accepted']}"
        raise typer.BadParameter(message, param_hint=option) from None
