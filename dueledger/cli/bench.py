"""Measurements, each of which prints JSON."""

from typing import Annotated

import typer

from dueledger.cli.options import JsonOption
from dueledger.cli.output import messages, print_document

app = typer.Typer(help="Measure the pipeline on this machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure the pipeline on this machine."""


@app.command()
def pipeline(
    items: Annotated[
        int, typer.Option("--items", min=1000, max=100_000_000, help="How many items.")
    ] = 300_000,
    allocators: Annotated[int, typer.Option("--allocators", min=1, max=16)] = 1,
    workers: Annotated[int, typer.Option("--workers", min=1, max=16)] = 1,
    json: JsonOption = False,
) -> None:
    """Emit items, then claim, publish, start and complete them through Kafka."""
    from dueledger.bench.pipeline import PipelineOptions, bench_pipeline
    from dueledger.cli.session import run

    options = PipelineOptions(items, allocators=allocators, workers=workers)
    document = run(bench_pipeline(options, say=lambda line: messages.print(f"· {line}")))
    if json:
        print_document(document)
        return
    for name, figure in document.items():
        messages.print(f"{name}: {figure}")
