"""Rows of evidence: which item each is the effect of, by the columns that its source has."""

import hashlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Final
from uuid import UUID

from dueledger.reconciler.sources import EvidenceQuery, ListedEffect, SourceFailed

EVIDENCE_KEYS: Final = ("business_key", "cycle", "effective_date")

EvidenceKey = bytes | tuple[str, ...]
"""An item's id, or the texts of business key, cycle and effective date, as far as given."""


def naming_columns(name: str, columns: AbstractSet[str]) -> tuple[str, ...]:
    """Return the columns that name an item. Raises SourceFailed if some are lacking."""
    if "reference" not in columns or not columns & {"item_id", "business_key"}:
        raise SourceFailed(name, "its rows lack reference, or both item_id and business_key")
    if "item_id" in columns:
        return ("item_id",)
    return tuple(column for column in EVIDENCE_KEYS if column in columns)


def effect_of(values: Mapping[str, object], count: int, reference: str) -> ListedEffect | None:
    """Return the effect, or None if the values of the naming columns do not name an item."""
    if "item_id" in values:
        try:
            identity = UUID(str(values["item_id"]))
        except ValueError:
            return None
        return ListedEffect(identity, None, None, None, count, reference)
    key, cycle, day = (values.get(name) for name in EVIDENCE_KEYS)
    if key is None or None in values.values() or not isinstance(day, date | None):
        return None
    text = None if cycle is None else str(cycle)
    return ListedEffect(None, str(key), text, day, count, reference)


def key_of_effect(effect: ListedEffect) -> EvidenceKey:
    """Return the key of an effect; that of its item is the same."""
    if effect.id is not None:
        return effect.id.bytes
    parts = (effect.business_key, effect.cycle, effect.effective_date)
    return tuple(str(part) for part in parts if part is not None)


def key_of_item(item: EvidenceQuery, naming: tuple[str, ...]) -> EvidenceKey:
    """Return the key that an effect of the item has, given the columns that name items."""
    if naming == ("item_id",):
        return item.id
    texts = {
        "business_key": item.business_key,
        "cycle": item.cycle,
        "effective_date": item.effective_date.isoformat(),
    }
    return tuple(texts[name] for name in naming)


def short_hash(key: tuple[str, ...]) -> bytes:
    """Return what a control total adds of a key."""
    return hashlib.sha256("\x1f".join(key).encode()).digest()[:8]
