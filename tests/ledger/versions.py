"""Versions of definitions, for tests of what a newer one changes."""

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.items import emit_items

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


async def emit_for_version(
    ledger: Ledger, draft: ItemDraft, definition_no: int, done: str = ""
) -> int:
    """Emit an item, execute what was `done` to it, and ask to withdraw it; return its number."""
    connection = ledger.connection
    await emit_items(connection, [draft], actor_no=ledger.worker_no, definition_no=definition_no)
    number = await connection.fetchval(
        "select item_no from ledger.due_item where id = $1", draft.id
    )
    if done:
        await connection.execute(done, number)
    await connection.execute(
        "insert into ledger.withdrawal"
        " (item_no, effective_date, event, reason, actor_no, requested_at)"
        " values ($1, $2, 11, 'test', 1, now())",
        number,
        draft.effective_date,
    )
    return number
