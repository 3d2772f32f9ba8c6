"""Defaults of a kind that documents and handlers both use. In SQL: the columns of `ledger.kind`."""

from typing import Final

BACKOFF_BASE_SECONDS: Final = 10.0
BACKOFF_CAP_SECONDS: Final = 600.0
