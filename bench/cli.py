"""The command `dueledger bench`: each benchmark prints JSON."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bench.workload import WARM_ITEMS
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import JsonOption, exit_with, read_duration_seconds
from dueledger.cli.output import print_document, print_fields, print_rows, say

if TYPE_CHECKING:
    from bench.report import Measured, OptionsClass
    from bench.rig import Rig

    _Options = TypeVar("_Options", bound=OptionsClass)

app = typer.Typer(rich_markup_mode=None)
bench = typer.Typer(no_args_is_help=True)
app.add_typer(bench, name="bench")

ITEMS_MAX = 100_000_000

ItemsOption = Annotated[
    int, typer.Option("--items", min=1000, max=ITEMS_MAX, help="How many items.")
]
WarmItemsOption = Annotated[
    int,
    typer.Option(
        "--warm-items", min=1000, max=ITEMS_MAX, help="How many items before the measurement."
    ),
]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, max=16, help="Worker processes.")]
AllocatorsOption = Annotated[
    int, typer.Option("--allocators", min=1, max=16, help="Allocator processes.")
]
SecondsOption = Annotated[
    float, typer.Option("--seconds", min=1, max=3600, help="How long each measurement takes.")
]


@bench.callback()
def measure() -> None:
    """Measure this code on this machine, on its own servers, with durable settings."""


@bench.command("all")
def every(
    scale: Annotated[
        float,
        typer.Option("--scale", min=0.0001, max=10, help="Shrinks counts and times; 0.01 checks."),
    ] = 1.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: one round within half an hour.")
    ] = False,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, help="Rounds of each; the soak runs once.")
    ] = 1,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this benchmark; may be repeated.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="Folder for the documents of each benchmark, as NAME.json; goes on from those.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run all benchmarks and print which goals are reached. Takes more than an hour."""
    from bench.every import PLAN, BenchmarkRun
    from dueledger.cli.service_session import run_process

    _require_known(only, [planned.name for planned in PLAN])
    planned = BenchmarkRun(
        only or (), scale=scale, quick=quick, rounds=rounds, folder=into, say=_say
    )
    document = run_process(planned.run())
    if json:
        print_document(document)
    else:
        columns = (
            *("benchmark", "goal", "figure", "unit", "least", "most", "rounds", "reached"),
            *("first_at", "last_at", "error"),
        )
        print_rows(document["rows"], columns, empty="nothing was measured")
    exit_with(ExitCode.FINDINGS if document["errors"] else ExitCode.DONE)


@bench.command()
def pipeline(
    items: ItemsOption = 600_000,
    allocators: AllocatorsOption = 1,
    workers: WorkersOption = 1,
    warm_items: WarmItemsOption = WARM_ITEMS,
    json: JsonOption = False,
) -> None:
    """Emit items, then claim, publish, start and complete them through Kafka."""
    from bench.pipeline import PipelineOptions, bench_pipeline

    options = PipelineOptions(items, allocators=allocators, workers=workers, warm_items=warm_items)
    _measure("pipeline", bench_pipeline, options, json=json)


@bench.command()
def direct(
    items: ItemsOption = 500_000, workers: WorkersOption = 2, json: JsonOption = False
) -> None:
    """Emit items, then have workers claim and complete them without Kafka."""
    from bench.pipeline import DirectOptions, bench_direct

    _measure("direct", bench_direct, DirectOptions(items, workers=workers), json=json)


@bench.command()
def emit(
    items: ItemsOption = 200_000,
    connections: Annotated[
        list[int] | None,
        typer.Option("--connections", min=1, max=16, help="May be repeated; default 1 and 2."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Emit items, then the same again, from one connection and from two."""
    from bench.emit import EmitOptions, bench_emit

    options = EmitOptions(items, tuple(connections or (1, 2)))
    _measure("emit", bench_emit, options, json=json)


@bench.command()
def lag(
    seconds: SecondsOption = 30.0,
    warm_seconds: Annotated[
        float,
        typer.Option(min=0, max=3600, help="Seconds of the same load before the measurement."),
    ] = 30.0,
    rates: Annotated[
        list[int] | None,
        typer.Option(
            "--rate", min=1, max=100_000, help="Items/s; may be repeated; default 1000 and 5000."
        ),
    ] = None,
    ways: Annotated[
        list[str] | None, typer.Option("--way", help="kafka or direct; default both.")
    ] = None,
    rates_for_now: Annotated[
        list[int] | None,
        typer.Option(
            "--rate-for-now",
            min=1,
            max=5_000,
            help="Items/s emitted when they are due; may be repeated; default 2, 100 and 1000.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure start − due at rates spread evenly, and of items emitted for now."""
    from bench.lag import PROCESSES_OF_WAY, LagOptions, bench_lag

    _require_known(ways, list(PROCESSES_OF_WAY))
    default = LagOptions()
    options = LagOptions(
        seconds,
        warm_seconds,
        # Who names rates of one type wants no others.
        tuple(rates or (() if rates_for_now else default.rates)),
        tuple(ways or default.ways),
        tuple(rates_for_now or (() if rates else default.rates_for_now)),
    )
    _measure("lag", bench_lag, options, json=json)


@bench.command()
def backlog(
    items: ItemsOption = 200_000,
    pending_max: Annotated[
        int,
        typer.Option(
            "--pending-max", min=10_000, max=ITEMS_MAX, help="The most items that are pending."
        ),
    ] = 10_000_000,
    full: Annotated[
        bool, typer.Option("--full", help="Go on to 100 million; needs 60 GB and an hour.")
    ] = False,
    hold_seconds: Annotated[
        float, typer.Option("--hold-seconds", min=0, max=3600, help="How long a snapshot is held.")
    ] = 300.0,
    hold_items: Annotated[
        int, typer.Option("--hold-items", min=1000, max=ITEMS_MAX, help="Claimed meanwhile.")
    ] = 2_000_000,
    json: JsonOption = False,
) -> None:
    """Measure the claim rate with a growing backlog, and with a snapshot held open."""
    from bench.backlog import BacklogOptions, bench_backlog, pending_levels

    levels = pending_levels(ITEMS_MAX if full else pending_max)
    options = BacklogOptions(
        pending=levels, items=items, hold_seconds=hold_seconds, hold_items=hold_items
    )
    _measure("backlog", bench_backlog, options, json=json)


@bench.command()
def flood(
    items: ItemsOption = 1_000_000,
    flows: Annotated[int, typer.Option("--flows", min=1, max=1000, help="Other flows.")] = 50,
    rate: Annotated[
        int, typer.Option("--rate", min=1, max=1000, help="Items/s of each of these.")
    ] = 20,
    seconds: SecondsOption = 45.0,
    pipeline_items: Annotated[
        int,
        typer.Option(
            "--pipeline-items",
            min=1000,
            max=ITEMS_MAX,
            help="Items of the pipeline to compare with.",
        ),
    ] = 300_000,
    lag_target: Annotated[
        str | None,
        typer.Option(
            "--lag-target",
            metavar="DURATION",
            help="Lag target of the others, as PT0.03S; without it, their p99 without a flood.",
        ),
    ] = None,
    warm_items: WarmItemsOption = WARM_ITEMS,
    json: JsonOption = False,
) -> None:
    """Measure what a flood of one flow does to fifty others, and how fast it drains."""
    from bench.flood import FloodOptions, bench_flood

    target_seconds = None if lag_target is None else read_duration_seconds(lag_target)
    if target_seconds is not None and not target_seconds > 0:
        raise typer.BadParameter(
            f"{lag_target!r} is no duration as PT0.03S", param_hint="--lag-target"
        )
    options = FloodOptions(items, flows, rate, seconds, pipeline_items, target_seconds, warm_items)
    _measure("flood", bench_flood, options, json=json)


@bench.command()
def flows(
    served: Annotated[
        int, typer.Option("--flows", min=1, max=100_000, help="Flows that are served.")
    ] = 5_000,
    blocked_flows: Annotated[
        int,
        typer.Option(
            "--blocked-flows", min=2, max=100_000, help="Flows that are paused or exhausted."
        ),
    ] = 5_000,
    items: ItemsOption = 300_000,
    blocked_items: Annotated[
        int, typer.Option("--blocked-items", min=2, max=ITEMS_MAX, help="Pending items of these.")
    ] = 1_000_000,
    warm_items: WarmItemsOption = WARM_ITEMS,
    json: JsonOption = False,
) -> None:
    """Measure ten thousand flows, half of them paused or exhausted, against the pipeline."""
    from bench.flows import FlowsOptions, bench_flows

    options = FlowsOptions(served, blocked_flows, items, blocked_items, warm_items)
    _measure("flows", bench_flows, options, json=json)


@bench.command()
def materialise(
    definitions: Annotated[
        int,
        typer.Option(
            "--definitions", min=10, max=1_000_000, help="Definitions that are timed, a day ahead."
        ),
    ] = 10_000,
    many: Annotated[
        int,
        typer.Option("--many", min=100, max=ITEMS_MAX, help="Definitions whose memory is watched."),
    ] = 1_000_000,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", min=0.01, max=60, help="Seconds for each expression and each way."
        ),
    ] = 1.0,
    json: JsonOption = False,
) -> None:
    """Measure expanding against croniter, a day ahead of many definitions, and its memory."""
    from bench.materialise import MaterialiseOptions, bench_materialise

    options = MaterialiseOptions(definitions, many, seconds)
    _measure("materialise", bench_materialise, options, json=json)


@bench.command()
def reconcile(items: ItemsOption = 1_000_000, json: JsonOption = False) -> None:
    """Reconcile a ledger that is right: all of it, with nothing changed, and after some changes."""
    from bench.reconcile import ReconcileOptions, bench_reconcile

    _measure("reconcile", bench_reconcile, ReconcileOptions(items), json=json)


@bench.command()
def service(
    items: ItemsOption = 10_000_000,
    flood_items: Annotated[
        int,
        typer.Option("--flood-items", min=1000, max=ITEMS_MAX, help="How many of them drain."),
    ] = 1_000_000,
    requests: Annotated[
        int, typer.Option("--requests", min=2, max=10_000, help="Requests of each route.")
    ] = 200,
    emissions: Annotated[
        int, typer.Option("--emissions", min=1, max=100, help="Requests of 10,000 items.")
    ] = 5,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=3600, help="How long idleness is watched.")
    ] = 30.0,
    json: JsonOption = False,
) -> None:
    """Measure the REST service on a large ledger: by route, in bulk, idle, and beside a flood."""
    from bench.service import ServiceOptions, bench_service

    options = ServiceOptions(items, flood_items, requests, emissions, seconds)
    _measure("service", bench_service, options, json=json)


@bench.command()
def workers(
    counts: Annotated[
        list[int] | None,
        typer.Option("--workers", min=1, max=32, help="May be repeated; default 1, 2, 4, 8."),
    ] = None,
    seconds: SecondsOption = 10.0,
    transactional_items: Annotated[
        int,
        typer.Option(
            "--transactional-items", min=100, max=ITEMS_MAX, help="Items with a transaction each."
        ),
    ] = 20_000,
    json: JsonOption = False,
) -> None:
    """Measure workers whose handler takes 5 ms, and one whose handler has transactions."""
    from bench.workers import WorkersOptions, bench_workers

    counts_in_order = tuple(sorted(counts or (1, 2, 4, 8)))
    options = WorkersOptions(counts_in_order, seconds, transactional_items)
    _measure("workers", bench_workers, options, json=json)


@bench.command()
def idle(
    items: ItemsOption = 1_000_000, seconds: SecondsOption = 60.0, json: JsonOption = False
) -> None:
    """Measure what each process uses while nothing is due and a million items are pending."""
    from bench.idle import IdleOptions, bench_idle

    _measure("idle", bench_idle, IdleOptions(items, seconds), json=json)


@bench.command()
def operation(
    items: ItemsOption = 50_000,
    kills: Annotated[
        int, typer.Option("--kills", min=1, max=100, help="How often the process is killed.")
    ] = 5,
    json: JsonOption = False,
) -> None:
    """Redrive parked items by a filter: by one process, and while its processes are killed."""
    from bench.operation import OperationOptions, bench_operation

    _measure("operation", bench_operation, OperationOptions(items, kills), json=json)


@bench.command()
def soak(
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.1, max=1440, help="For how long.")
    ] = 20.0,
    rate: Annotated[
        int, typer.Option("--rate", min=0, max=100_000, help="Items/s; 0 is half the peak.")
    ] = 0,
    peak_items: Annotated[
        int,
        typer.Option("--peak-items", min=1000, max=ITEMS_MAX, help="Items that measure the peak."),
    ] = 300_000,
    json: JsonOption = False,
) -> None:
    """Keep half the peak rate, and check that memory, dead rows and lag do not grow."""
    from bench.soak import SoakOptions, bench_soak

    _measure("soak", bench_soak, SoakOptions(minutes, rate, peak_items), json=json)


@bench.command()
def compare(
    items: ItemsOption = 100_000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=20, help="Rounds of all.")] = 3,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this peer; may be repeated.")
    ] = None,
    warm_items: WarmItemsOption = WARM_ITEMS,
    json: JsonOption = False,
) -> None:
    """Run peers and ours on the same no-op jobs, rounds interleaved, and print the ratios."""
    from bench.compare import CompareOptions, bench_compare
    from bench.peer_systems import PEERS

    _require_known(only, [peer.name for peer in PEERS])
    options = CompareOptions(items, rounds, only=tuple(only or ()), warm_items=warm_items)
    _measure("compare", bench_compare, options, json=json)


def _measure(
    name: str,
    bench: "Callable[[Rig, _Options], Awaitable[Measured]]",
    options: "_Options",
    *,
    json: bool,
) -> None:
    from bench.report import take
    from bench.rig import open_rig
    from dueledger.cli.service_session import run_process
    from dueledger.ledger.runtime.log import configure

    configure(json=False)  # on stderr: logs must not be in the document
    with open_rig(_say) as rig:
        document = run_process(take(name, rig, bench, options))
    _show(document, json=json)


def _show(document: dict[str, Any], *, json: bool) -> None:
    if json:
        print_document(document)
    else:
        print_fields(document)


def _say(line: str) -> None:
    say(f"· {line}")


def _require_known(names: list[str] | None, known: list[str]) -> None:
    for name in names or ():
        if name not in known:
            message = f"{name!r} is none of {', '.join(known)}"
            raise typer.BadParameter(message)
