"""The command that changes the limits of a flow."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dueledger.cli.options import (
    DsnOption,
    JsonOption,
    LaneOption,
    ScopeTenant,
    read_duration_seconds,
)
from dueledger.cli.output import print_lines, print_rows
from dueledger.cli.session import persons_change, run
from dueledger.ledger.flow_bounds import CLEARABLE_LIMITS, FLOW_BOUNDS, WHOLE_LIMITS

if TYPE_CHECKING:
    from dueledger.ledger.store.flows import FlowLimits

_CLEARED: Final = "none"
# Python would read 1_000, inf and nan as numbers too.
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COLUMNS: Final = (
    *("tenant", "kind", "lane", "weight", "rate_per_second", "concurrency_max", "window_items"),
    *("retry_share", "circuit_failure_ratio", "circuit_calls_min"),
    *("circuit_window_seconds", "circuit_rest_seconds", "lag_target_seconds"),
)


def set_(
    tenant: ScopeTenant,
    kind: Annotated[str, typer.Argument(help="Kind of the flow.", metavar="KIND")],
    lane: LaneOption = None,
    every_lane: Annotated[
        bool, typer.Option("--every-lane", help="Change all existing lanes.")
    ] = False,
    weight: Annotated[
        str | None, typer.Option(help="Weight of the flow among all flows.", metavar="NUMBER")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Maximum number of items per second, or none.", metavar="NUMBER|none"),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            help="Maximum number of items claimed or running at once, or none.",
            metavar="COUNT|none",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Maximum number of items claimed and not started, or none.", metavar="COUNT|none"
        ),
    ] = None,
    retry_share: Annotated[
        str | None, typer.Option(help="Share of each claim reserved for retries.", metavar="RATIO")
    ] = None,
    circuit: Annotated[
        str | None,
        typer.Option(
            help="Share of failures that opens the circuit, or none.", metavar="RATIO|none"
        ),
    ] = None,
    circuit_calls: Annotated[
        str | None,
        typer.Option(help="Minimum number of outcomes for the circuit to open.", metavar="COUNT"),
    ] = None,
    circuit_window: Annotated[
        str | None,
        typer.Option(help="Seconds for which outcomes count, at most a week.", metavar="SECONDS"),
    ] = None,
    circuit_rest: Annotated[
        str | None,
        typer.Option(
            help="Seconds until an open circuit allows a probe, at most a week.", metavar="SECONDS"
        ),
    ] = None,
    lag_target: Annotated[
        str | None,
        typer.Option(
            help="Lag above which floods of other flows slow down, as PT0.05S, or none.",
            metavar="DURATION|none",
        ),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Change the limits of a flow, from the next tick on; `none` removes a limit."""
    if every_lane and lane is not None:
        raise typer.BadParameter("give either --lane or --every-lane", param_hint="--every-lane")
    limits = _read(
        {
            ("weight", "--weight"): weight,
            ("rate_per_second", "--rate"): rate,
            ("concurrency_max", "--concurrency"): concurrency,
            ("window_items", "--window"): window,
            ("retry_share", "--retry-share"): retry_share,
            ("circuit_failure_ratio", "--circuit"): circuit,
            ("circuit_calls_min", "--circuit-calls"): circuit_calls,
            ("circuit_window_seconds", "--circuit-window"): circuit_window,
            ("circuit_rest_seconds", "--circuit-rest"): circuit_rest,
            ("lag_target_seconds", "--lag-target"): lag_target,
        }
    )
    rows = run(_set(tenant, kind, None if every_lane else lane or "", limits, dsn))
    if json_:
        print_lines(rows)
    else:
        print_rows(rows, _COLUMNS, empty="This kind has no flow yet.")


def _read(given: dict[tuple[str, str], str | None]) -> "FlowLimits":
    """Parse limits by name. Raises BadParameter for an invalid one."""
    from dueledger.ledger.store.flows import FlowLimits

    cleared: list[str] = []
    limits: dict[str, Any] = {}
    for (name, option), text in given.items():
        if text == _CLEARED and name in CLEARABLE_LIMITS:
            cleared.append(name)
        elif text is not None:
            limits[name] = read_limit(name, text, option)
    if not cleared and not limits:
        raise typer.BadParameter("name at least one limit, as in --rate 50", param_hint="flow set")
    return FlowLimits(**limits, cleared=cleared)


def read_limit(name: str, text: str, option: str, *, clears: bool = True) -> float:
    """Parse a limit; `clears` is whether the option takes `none`, too. Raises BadParameter."""
    bounds = FLOW_BOUNDS[name]
    if name == "lag_target_seconds":
        number = read_duration_seconds(text)
    else:
        number = float(text) if _NUMBER.fullmatch(text) else float("nan")
    if not bounds.contains(number) or (name in WHOLE_LIMITS and number != int(number)):
        ending = ", or none" if clears and name in CLEARABLE_LIMITS else ""
        form = "a duration as PT0.05S, " if name == "lag_target_seconds" else ""
        message = f"{text!r} is refused; it must be {form}{bounds.text}{ending}"
        raise typer.BadParameter(message, param_hint=option)
    return int(number) if name in WHOLE_LIMITS else number


async def _set(
    tenant: str, kind: str, lane: str | None, limits: "FlowLimits", dsn: str | None
) -> list[dict[str, Any]]:
    from dueledger.audited_changes import limits_detail
    from dueledger.ledger.store.flows import (
        FlowScope,
        ensure_flow,
        set_flow_limits,
    )

    scope = FlowScope(tenant, kind, lane)
    values = {name: getattr(limits, name) for name in FLOW_BOUNDS}
    given = {
        name: each for name, each in values.items() if each is not None or name in limits.cleared
    }
    async with persons_change(dsn) as change:
        if lane is not None:
            await ensure_flow(change.connection, tenant, kind, lane)
        rows = await set_flow_limits(change.connection, scope, limits, actor_no=change.actor_no)
        if rows:
            detail = limits_detail(given, rows)
            await change.audit("setFlowLimits", scope.path, [tenant], **detail)
    return [{name: row[name] for name in row if name != "was"} for row in rows]
