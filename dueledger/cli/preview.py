"""The command that previews a definition, without a database."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.definitions import FileArgument
from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import document_text, print_fields, print_rows, print_text, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dueledger.ledger.definitions.parsing import Definition
    from dueledger.ledger.schedule import Occurrence, ScheduleWindow, Skipped
    from dueledger.ledger.witness import WitnessedTimes

app = typer.Typer(rich_markup_mode=None)

_SECOND = timedelta(seconds=1)
COUNT_MAX = 10_000
_SHOWN_MAX = 1_000


@app.command()
def preview(
    file: FileArgument,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", help="Start of the window; without an offset, local time.", metavar="T"
        ),
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
    accept_disagreement: options.AcceptDisagreementOption = None,
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
    from dueledger.preview.occurrences import preview_slices
    from dueledger.preview.rule_words import rule_words
    from dueledger.preview.second_opinion import ask_about_preview, check_preview

    chosen = _chosen(read_definitions(file, calendars=None), name)
    if chosen.is_declaration:
        name = f"{chosen.tenant}/{chosen.definition}"
        say(f"{name} has no schedule: it declares {chosen.kind}, whose items services emit.")
        if json_:
            _print_json(chosen, iter(()), None)
        return
    (definition,) = add_named_calendars([chosen], calendar, (weekend, valid_from, valid_to), dsn)
    zone: str = getattr(definition.when, "timezone", "UTC")
    start, end = _instant(since, "--from", zone), _instant(until, "--to", zone)
    if start is not None and end is not None and end <= start:
        raise typer.BadParameter(f"{until!r} is not after --from, {since!r}", param_hint="--to")
    if event is not None:
        windows = iter((_example(definition, event, as_json=json_),))
    else:
        windows = preview_slices(
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
    witnessed = None if start is None else ask_about_preview(definition, start)
    if witnessed is not None and accept_disagreement is None:
        check_preview(definition, witnessed)
    if json_:
        _print_json(definition, windows, witnessed)
    else:
        say(f"{rule_words(definition)}.")
        _print(definition, windows, (start, None if count else end))
        if witnessed is not None:
            say(f"Second opinion: {witnessed}.")


def _print_json(
    definition: "Definition",
    windows: "Iterator[ScheduleWindow]",
    witnessed: "WitnessedTimes | None",
) -> None:
    """Print one document, a window at a time: a long one is never in memory as a whole."""
    from dueledger.preview.occurrences import PreviewSkipped, preview_document, preview_smears
    from dueledger.preview.second_opinion import witness_document

    skipped: list[PreviewSkipped] = []
    before = '{"occurrences":['
    for window in windows:
        document = preview_document(window, preview_smears(definition, window))
        skipped += document["skipped"]
        if document["occurrences"]:
            print_text(before + document_text(document["occurrences"])[1:-1])
            before = ","
    opened = "" if before == "," else before
    beside = "" if witnessed is None else f',"witness":{document_text(witness_document(witnessed))}'
    print_text(f'{opened}],"skipped":{document_text(skipped)}{beside}}}\n')


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
    windows: "Iterator[ScheduleWindow]",
    bounds: tuple[datetime | None, datetime | None],
) -> None:
    from dueledger.ledger.schedule import AfterCompletion, Decision, Relative, ScheduleWindow
    from dueledger.ledger.schedule.expressions import period_text
    from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
    from dueledger.preview.occurrences import preview_document, preview_smears
    from dueledger.preview.wording import change_rows, decision_words, skip_words

    first: list[Occurrence] = []
    odd: list[Occurrence] = []
    all_skipped: list[Skipped] = []
    found_count, last_due = 0, None
    for window in windows:
        first += window.occurrences[: _SHOWN_MAX - len(first)]
        odd += (each for each in window.occurrences if each.decision is not Decision.EXACT)
        all_skipped += window.skipped
        found_count += len(window.occurrences)
        last_due = max((each.due_at for each in window.occurrences), default=last_due)
    shown_window = ScheduleWindow(tuple(first), ())
    smears = preview_smears(definition, shown_window)
    document = preview_document(shown_window, smears)
    rows = [
        {
            **shown,
            "decision": decision_words(found) or shown["decision"],
            "smear": period_text(timedelta(seconds=shown.get("smear_seconds", 0))),
        }
        for shown, found in zip(document["occurrences"], first, strict=True)
    ]
    columns = ("due_at", "local", "utc_offset", "nominal", "decision")
    print_rows(rows, (*columns, "smear") if smears else columns, empty="Nothing falls due.")
    if found_count > len(rows):
        say(f"and {found_count - len(rows):,} more: --json has them all")
    if all_skipped:
        skipped = [
            {"nominal": found.nominal.isoformat(), "skipped": skip_words(found)}
            for found in all_skipped
        ]
        print_rows(skipped, ("nominal", "skipped"), empty="")
    if isinstance(definition.when, AfterCompletion):
        say("Each is emitted when the one before has ended; shown as if that took no time.")
        return
    zone: str = getattr(definition.when, "timezone", "UTC")
    start, end = bounds
    if isinstance(definition.when, Relative):
        return
    end = end or last_due or start
    if start is not None and end is not None:
        odd_window = ScheduleWindow(tuple(odd), tuple(all_skipped))
        changes = change_rows(odd_window, zone, max(start, DUE_MIN), min(end, DUE_END) + _SECOND)
        if changes:
            print_rows(changes, ("clocks_change", "to", "by", "decision"), empty="")


def _instant(text: str | None, option: str, zone: str) -> datetime | None:
    return None if text is None else options.read_due_instant(text, option, zone)
