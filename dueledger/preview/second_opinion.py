"""The second opinion on a definition that is previewed."""

from datetime import datetime
from typing import NotRequired, TypedDict

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.witness import Agreement, Witness, WitnessedTimes, is_witnessed
from dueledger.ledger.witness.disagreement import disagreement


class PreviewWitness(TypedDict):
    """What the witness says: `agreement` is agrees, disagrees or not_witnessed."""

    agreement: str
    package: str | None
    reason: NotRequired[str]
    ours: NotRequired[list[str]]
    theirs: NotRequired[list[str]]


def ask_about_preview(definition: Definition, since: datetime) -> WitnessedTimes | None:
    """Return what the witness says from `since` on; None if no library has this kind of `when`."""
    if not is_witnessed(definition.when) or definition.ended:
        return None
    with Witness() as witness:
        return witness.ask(definition.when, since)


def check_preview(definition: Definition, witnessed: WitnessedTimes) -> None:
    """Raise WitnessDisagrees where the witness disagrees."""
    if witnessed.agreement is Agreement.DISAGREES:
        raise disagreement([(f"{definition.tenant}/{definition.definition}", witnessed)])


def witness_document(witnessed: WitnessedTimes) -> PreviewWitness:
    """Return the part of the document that `preview --json` prints."""
    document = PreviewWitness(agreement=witnessed.agreement.value, package=witnessed.package)
    if witnessed.reason is not None:
        document["reason"] = witnessed.reason
    if witnessed.agreement is Agreement.DISAGREES:
        document["ours"] = [each.isoformat() for each in witnessed.ours]
        document["theirs"] = [each.isoformat() for each in witnessed.theirs]
    return document
