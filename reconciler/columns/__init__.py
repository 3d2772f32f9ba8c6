"""Columns: both sides of the comparison as arrays, compared by an engine inside the process.

Raises Unavailable when it is imported without the extra `reconcile`.
"""

from importlib.util import find_spec

from dueledger.ledger.errors import Unavailable

if missing := [name for name in ("duckdb", "numpy") if find_spec(name) is None]:
    raise Unavailable(
        f"The reconciler compares with DuckDB and NumPy, and {' and '.join(missing)} "
        "cannot be found: install dueledger[reconcile].",
        service="duckdb",
    )
