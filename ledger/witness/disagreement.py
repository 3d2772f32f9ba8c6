"""The refusal of schedules about which the witness disagrees."""

from collections.abc import Sequence

from dueledger.ledger.errors import Problem, WitnessDisagrees
from dueledger.ledger.witness.witness import WitnessedTimes

_ACCEPTED = "another expression, or --accept-disagreement REASON"


def disagreement(found: Sequence[tuple[str, WitnessedTimes]]) -> WitnessDisagrees:
    """Return the error that names each definition, both lists and the place where they part."""
    problems = [
        Problem(
            f"{name}.when",
            "",
            f"{times}; here: {_listed(times.ours)}; there: {_listed(times.theirs)}",
            _ACCEPTED,
        )
        for name, times in found
    ]
    return WitnessDisagrees(
        "The second opinion disagrees:",
        problems,
        disagreements=[
            {
                "definition": name,
                "package": times.package,
                "parts_after": times.parts_after,
                "ours": [each.isoformat() for each in times.ours],
                "theirs": [each.isoformat() for each in times.theirs],
            }
            for name, times in found
        ],
    )


def _listed(times: Sequence[object]) -> str:
    return ", ".join(str(each) for each in times) or "nothing"
