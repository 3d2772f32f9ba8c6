"""Dueledger: was it due, was it claimed, did it happen, and if not, why."""

from typing import Final

__version__: Final = "0.1.0"
