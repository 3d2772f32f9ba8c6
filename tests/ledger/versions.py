"""Versions of definitions, for tests of what a newer one changes."""

from .conftest import Ledger

VERSIONS = {
    "of events": ("acme", "rule", 1, "PolicyActivated"),
    "first": ("acme", "rule", 2, None),
    "second": ("acme", "rule", 3, None),
    "third": ("acme", "rule", 4, None),
    "another name": ("acme", "another", 1, None),
    "another tenant": ("another", "rule", 1, None),
}


async def define_versions(ledger: Ledger, document: str = "{}") -> dict[str, int]:
    """Make versions of the same document; return their numbers by name."""
    return {
        label: await ledger.connection.fetchval(
            "insert into ledger.definition (tenant, name, version, event_type, kind, document,"
            " effective_from, created_at, actor_no)"
            " values ($1, $2, $3, $4, $5, $6::text::jsonb, ledger.now(), ledger.now(), $7)"
            " returning definition_no",
            *version,
            ledger.kind,
            document,
            ledger.worker_no,
        )
        for label, version in VERSIONS.items()
    }
