"""Measurements, each of which prints JSON."""

import typer

app = typer.Typer(help="Measure the pipeline on this machine.", no_args_is_help=True)
