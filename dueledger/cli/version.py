"""The version of what is installed."""

import sys

import dueledger


def print_version(*, as_json: bool) -> None:
    """Print the version, as a JSON document or after the program's name."""
    version = dueledger.__version__
    sys.stdout.write(f'{{"version":"{version}"}}\n' if as_json else f"dueledger {version}\n")
    sys.stdout.flush()
