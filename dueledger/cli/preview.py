"""The command that previews a definition, without a database."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.definitions import FileArgument
from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import print_document, print_fields, print_rows, say

if TYPE_CHECKING:
    from dueledger.ledger.definitions.parsing import Definition
    from dueledger.ledger.schedule import ScheduleWindow

app = typer.Typer(rich_markup_mode=None)

_SECOND = timedelta(seconds=1)
COUNT_MAX = 10_000
_SHOWN_MAX = 1_000


@app.command()
def preview(
    file: FileArgument,
    since: Annotated[
        str | None, typer.Option("--from", help="Start of the window.", metavar="T")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End, not included.", metavar="T")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", min=1, max=COUNT_MAX, help="Number of occurrences from --from on."),
    ] = None,
    effective_date: Annotated[
        str | None,
        typer.Option(
            "--effective-date", help="Effective date for a `relative` schedule.", metavar="D"
        ),
    ] = None,
    event: Annotated[
        Path | None,
        typer.Option("--event", help="An example event for an event rule.", metavar="FILE"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--definition", help="Name of the definition, if FILE has several."),
    ] = None,
    calendar: options.CalendarOption = None,
    weekend: options.WeekendOption = None,
    valid_from: options.ValidFromOption = None,
    valid_to: options.ValidToOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Show when a definition falls due, and what is skipped and why. Needs no database."""
    from dueledger.cli.named_calendars import add_named_calendars
    from dueledger.definitions.files import read_definitions
    from dueledger.preview.occurrences import preview_definition, preview_document, preview_smears

    chosen = _chosen(read_definitions(file, calendars=None), name)
    (definition,) = add_named_calendars([chosen], calendar, (weekend, valid_from, valid_to), dsn)
    start, end = _instant(since, "--from"), _instant(until, "--to")
    if start is not None and end is not None and end <= start:
        raise typer.BadParameter(f"{until!r} is not after --from, {since!r}", param_hint="--to")
    if event is not None:
        window = _example(definition, event, as_json=json_)
    else:
        window = preview_definition(
            definition,
            since=start,
            until=end,
            count=count,
            effective_date=(
                None
                if effective_date is None
                else options.read_date(effective_date, "--effective-date")
            ),
        )
    if json_:
        print_document(preview_document(window, preview_smears(definition, window)))
    else:
        _print(definition, window, (start, None if count else end))


def _chosen(definitions: "list[Definition]", name: str | None) -> "Definition":
    found = [one for one in definitions if name in {None, one.definition}]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.definition for one in definitions[:5])
    more = ", …" if len(definitions) > len(names.split(", ")) else ""
    if not found:
        message = f"no definition of this name; there are {names}{more}"
        raise typer.BadParameter(message, param_hint="--definition")
    message = f"the file has several definitions; choose one with --definition {names}{more}"
    raise typer.BadParameter(message, param_hint="FILE")


def _example(definition: "Definition", file: Path, *, as_json: bool) -> "ScheduleWindow":
    """Apply the rule to an example event, and print the result."""
    from dueledger.ledger.schedule import ScheduleWindow
    from dueledger.preview.example_event import apply_event, example_event
    from dueledger.preview.occurrences import preview_definition

    if definition.is_schedule:
        raise typer.BadParameter("only event rules take an event", param_hint="--event")
    outcomes = apply_event(definition, example_event(file, definition))
    windows: list[ScheduleWindow] = []
    for outcome in outcomes:
        say(f"The event {outcome.text}.")
        if not as_json:
            print_fields(outcome.fields)
        if outcome.effective_date is not None:
            windows.append(
                preview_definition(
                    definition, since=None, until=None, effective_date=outcome.effective_date
                )
            )
    if not outcomes:
        say("The event does not match this rule.")
    return ScheduleWindow(tuple(found for window in windows for found in window.occurrences), ())


def _print(
    definition: "Definition",
    window: "ScheduleWindow",
    bounds: tuple[datetime | None, datetime | None],
) -> None:
    from dueledger.ledger.schedule import AfterCompletion, Relative
    from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
    from dueledger.preview.occurrences import preview_document, preview_smears
    from dueledger.preview.wording import change_rows, decision_words, skip_words

    smears = preview_smears(definition, window)
    document = preview_document(window, smears)
    rows = [
        {**shown, "decision": decision_words(found) or shown["decision"]}
        for shown, found in zip(
            document["occurrences"][:_SHOWN_MAX], window.occurrences[:_SHOWN_MAX], strict=True
        )
    ]
    columns = ("due_at", "nominal", "utc_offset", "decision")
    print_rows(rows, (*columns, "smear_seconds") if smears else columns, empty="Nothing falls due.")
    if len(window.occurrences) > len(rows):
        say(f"and {len(window.occurrences) - len(rows):,} more: --json has them all")
    if window.skipped:
        skipped = [
            {"nominal": found.nominal.isoformat(), "skipped": skip_words(found)}
            for found in window.skipped
        ]
        print_rows(skipped, ("nominal", "skipped"), empty="")
    if isinstance(definition.when, AfterCompletion):
        say("Each is emitted when the one before has ended; shown as if that took no time.")
        return
    zone: str = getattr(definition.when, "timezone", "UTC")
    start, end = bounds
    if isinstance(definition.when, Relative):
        return
    end = end or max((found.due_at for found in window.occurrences), default=start)
    if start is not None and end is not None:
        changes = change_rows(window, zone, max(start, DUE_MIN), min(end, DUE_END) + _SECOND)
        if changes:
            print_rows(changes, ("clocks_change", "to", "by", "decision"), empty="")


def _instant(text: str | None, option: str) -> datetime | None:
    return None if text is None else options.read_due_instant(text, option)
