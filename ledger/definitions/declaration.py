"""Declarations of kinds: definitions that owe nothing themselves. Services emit the items."""

from typing import Final

from dueledger.ledger.definitions.fields import DocumentPart, field_error
from dueledger.ledger.definitions.policies import CatchUpPolicy, Dispatch, SlaPolicy

OWING_FIELDS: Final = ("event", "when", "business_key")
"""A definition with none of these declares a kind."""

_OF_OWED_ITEMS: Final[dict[str, object]] = {
    **dict.fromkeys(("cycle", "effective_date", "calendar", "lane", "smear")),
    **dict.fromkeys(("cancel_on", "supersede_on"), ()),
    "labels": {},
    "payload": {},
    "reinstate": "always",
    "overlap": "allow",
    "catch_up": CatchUpPolicy(),
    "sla": SlaPolicy(),
}
"""Fields that say something of the items that a definition owes, and their defaults."""


def check_declaration(declaration: DocumentPart, dispatch: Dispatch) -> None:
    """Refuse fields of a schedule or event rule, with a refusal of pydantic's."""
    for field, default in _OF_OWED_ITEMS.items():
        if getattr(declaration, field) != default:
            raise field_error(
                field,
                "belongs to a schedule or an event rule, and neither `when` nor `event` is given",
                "nothing here: who emits an item gives it",
            )
    check_partition_key(dispatch, "an item that a service emits")


def check_partition_key(dispatch: Dispatch, of: str) -> None:
    """Refuse a partition key from an event, where there is none."""
    if dispatch.partition_key != "business_key":
        raise field_error(
            f"dispatch.{dispatch.method}.partition_key",
            f"{of} has no event to take it from",
            "business_key",
        )
