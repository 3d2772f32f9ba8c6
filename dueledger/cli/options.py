"""Options that several commands share."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

import typer

from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.output import say
from dueledger.ledger.flow_bounds import LANE_CHARS_MAX

_DURATION: Final = re.compile(
    r"PT(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6}(?:\.\d{1,6})?)S)?", re.ASCII
)
_PASSWORD: Final = re.compile(r"://[^/?#@]*:[^/?#@]+@|[?&]password=.", re.IGNORECASE)


def _lane(lane: str | None) -> str | None:
    if lane is not None and len(lane) > LANE_CHARS_MAX:
        raise typer.BadParameter(f"a lane has at most {LANE_CHARS_MAX} characters")
    return lane


def _reason(reason: str | None) -> str | None:
    if reason is not None and not reason.strip():
        raise typer.BadParameter("it is empty; give the reason that is recorded")
    return reason


def _dsn(dsn: str | None) -> str | None:
    """Warn of a password that every user of this machine can read, as by `ps`."""
    if dsn is not None and _PASSWORD.search(dsn):
        say(
            "warning: --dsn has a password, and every user of this machine can read it. Use "
            "DUELEDGER_DSN, a file named by DUELEDGER_DSN_FILE, or a service of libpq: "
            "postgresql://?service=NAME"
        )
    return dsn


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with stable field names.")]
OnceOption = Annotated[
    bool, typer.Option("--once", help="Make one pass, print what it did, and end.")
]
DsnOption = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Address of Postgres, without a password; default is DUELEDGER_DSN, or the file "
        "DUELEDGER_DSN_FILE.",
        metavar="URL",
        callback=_dsn,
    ),
]
KafkaOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        help="Addresses of Kafka; default is DUELEDGER_BOOTSTRAP_SERVERS.",
        metavar="HOST:PORT,…",
    ),
]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Only this tenant.")]
KindOption = Annotated[
    str | None, typer.Option("--kind", help="Only this kind, as in PolicyRenewalDue.")
]
CalendarOption = Annotated[
    list[str] | None,
    typer.Option(
        "--calendar",
        help="Calendar from a .csv, .ics or .json file; default is the ledger's.",
        metavar="NAME=FILE",
    ),
]
WeekendOption = Annotated[
    str | None,
    typer.Option("--weekend", help="Weekend of the calendar: sat,sun or none.", metavar="DAYS"),
]
ValidFromOption = Annotated[
    str | None,
    typer.Option(
        "--valid-from", help="First day; default is the earliest in the file.", metavar="DATE"
    ),
]
ValidToOption = Annotated[
    str | None,
    typer.Option("--valid-to", help="Last day for which the list is complete.", metavar="DATE"),
]
AcceptDisagreementOption = Annotated[
    str | None,
    typer.Option(
        "--accept-disagreement",
        help="Why a schedule that another library expands otherwise is right.",
        metavar="REASON",
        callback=_reason,
    ),
]
ReasonOption = Annotated[
    str, typer.Option("--reason", help="Reason, recorded in the journal.", callback=_reason)
]
CommentOption = Annotated[
    str, typer.Option("--comment", help="What to write, for the audit.", callback=_reason)
]
ScopeTenant = Annotated[str, typer.Argument(help="Tenant of the flows.", metavar="TENANT")]
LaneOption = Annotated[
    str | None,
    typer.Option("--lane", help="Only this lane; '' is the default one.", callback=_lane),
]
LimitOption = Annotated[
    int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows.")
]


def refuse_before_subcommand(context: typer.Context) -> None:
    """Refuse the options of a group that stand before its subcommand, which does not read them."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            command = context.invoked_subcommand
            raise typer.BadParameter(
                f"{command} does not read options that stand before it; write them after it, as "
                f"`{context.command_path} {command} -h` shows",
                param_hint=parameter.opts[0],
            )


def read_instant(text: str, option: str | None = None, zone: str = "UTC") -> datetime:
    """Read an ISO 8601 instant; one without an offset is a local time of `zone`."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is not an instant such as 2027-03-01 or 2027-03-01T09:00:00+01:00"
        raise typer.BadParameter(message, param_hint=option) from None
    if instant.tzinfo is None and zone == "UTC":
        return instant.replace(tzinfo=UTC)
    if instant.tzinfo is None:
        from dueledger.ledger.schedule.zones import load_zone

        return instant.replace(tzinfo=load_zone(zone))
    return instant


def read_due_instant(text: str, option: str, zone: str = "UTC") -> datetime:
    """Read an instant in the range of due times, in UTC; without an offset, a time of `zone`."""
    from dueledger.ledger.schedule.when import DUE_END, DUE_MIN

    instant = read_instant(text, option, zone)
    if not DUE_MIN <= instant <= DUE_END:
        message = f"{text!r} is outside {DUE_MIN.year} to {DUE_END.year - 1}"
        raise typer.BadParameter(message, param_hint=option)
    return instant.astimezone(UTC)


def read_later(text: str, option: str) -> datetime | timedelta:
    """Read an instant as `read_due_instant` does, or a duration as PT2H."""
    seconds = read_duration_seconds(text)
    if seconds >= 0:
        return timedelta(seconds=seconds)
    return read_due_instant(text, option)


def read_date(text: str, option: str) -> date:
    """Read an ISO 8601 date."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is not a date such as 2027-03-31"
        raise typer.BadParameter(message, param_hint=option) from None


def read_duration_seconds(text: str) -> float:
    """Return the seconds of a duration as PT0.05S; NaN for another text."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return float("nan")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds


def exit_with(code: ExitCode) -> None:
    """End the command with an exit code other than 0."""
    if code is not ExitCode.DONE:
        raise typer.Exit(int(code))
