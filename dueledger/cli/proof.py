"""Commands that prove: reconcile, findings, repairs."""

import typer

app = typer.Typer()
