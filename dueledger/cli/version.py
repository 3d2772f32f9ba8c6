"""The version of what is installed."""

import sys

import dueledger


def print_version() -> None:
    """Print the version as a JSON document."""
    sys.stdout.write(f'{{"version":"{dueledger.__version__}"}}\n')
    sys.stdout.flush()
