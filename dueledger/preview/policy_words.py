"""What a definition does with missed occurrences, and with items of one key that meet."""

from typing import Final

from dueledger.ledger.definitions.parsing import Definition
from dueledger.preview.word_lists import elapsed_words

_OVERLAPS: Final = {
    "allow": "Several items of one key may run at the same time.",
    "skip": "An item is skipped while another of its key is handed out.",
    "buffer_one": "One item waits while another of its key is handed out; others are skipped.",
    "buffer_all": "Items wait while another of their key is handed out.",
    "cancel_other": "The newest due item of a key runs: older ones are skipped, and the end of the "
    "one that is handed out is requested.",
}


def policy_words(definition: Definition) -> list[str]:
    """Return a sentence about missed occurrences, and one about items of one key that meet."""
    return [_catch_up_words(definition), _OVERLAPS[definition.overlap]]


def _catch_up_words(definition: Definition) -> str:
    policy = definition.catch_up
    window = None if policy.window is None else elapsed_words(policy.window)
    if definition.event is not None:
        if window is None:
            return "An event owes its item however late it arrives."
        return f"An event owes its item if it arrives within {window} after the due time."
    if policy.policy == "skip":
        return "Occurrences that were missed get no item."
    within = "" if window is None else f" that were due within the last {window}"
    if policy.policy == "latest" or policy.max_items == 1:
        return f"Of occurrences that were missed{within}, only the latest gets an item."
    most = "" if policy.max_items is None else f", at most the latest {policy.max_items:,}"
    return f"Occurrences that were missed{within} get their items later{most}."
