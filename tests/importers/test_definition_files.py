"""A definition written as YAML reads back the same, with any text in it."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dueledger.importers.definition_yaml import definition_text, definitions_text, write_definitions
from dueledger.importers.import_result import ImportResult, JobInventory
from dueledger.ledger.definitions.fields import NAME_CHARS_MAX
from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.errors import InvalidInput

WHEN = {"cron": "0 1 * * *", "timezone": "UTC"}
CHARACTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\x00\x1f")
PECULIAR = st.sampled_from(
    ["yes", "1.5e10", "17:00", "~", "0o7", "1_000", "2026-12-25", "- a", "#x", "<<"]
)
TEXTS = PECULIAR | st.text(CHARACTERS, min_size=1)
SEEN = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp"))
NAMES = PECULIAR | st.text(SEEN, min_size=1, max_size=NAME_CHARS_MAX)


@settings(max_examples=60)
@given(name=NAMES, command=TEXTS, description=st.none() | TEXTS)
@example(name="0" * NAME_CHARS_MAX, command="yes", description=None)
def test_a_definition_reads_back_as_the_same(
    name: str, command: str, description: str | None
) -> None:
    found = ImportResult()
    document: dict[str, object] = {
        "definition": name,
        "tenant": "acme",
        "kind": "X",
        "business_key": name,
        "when": WHEN,
        "payload": {"command": command, "description": description},
    }
    found.add_job("here", document, JobInventory(description=description))
    [job] = found.jobs
    [read] = load_definitions(definition_text(job), source="written")
    assert read == job.definition
    assert len(load_definitions(definitions_text([job]) * 1, source="stream")) == 1


@pytest.mark.parametrize("folder", ["taken", "taken/below", "folder", "pipes"])
def test_where_the_files_cannot_be_written_is_said_by_name(tmp_path: Path, folder: str) -> None:
    (tmp_path / "taken").write_text("somebody's")
    (tmp_path / "folder" / "daily.yaml").mkdir(parents=True)
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "daily.yaml")
    found = ImportResult()
    document: dict[str, object] = {"definition": "daily", "tenant": "acme", "kind": "X"}
    found.add_job("here", document | {"business_key": "daily", "when": WHEN}, JobInventory())
    with pytest.raises(InvalidInput, match=str(tmp_path / folder)):
        write_definitions(found.jobs, tmp_path / folder)
    assert (tmp_path / "taken").read_text() == "somebody's"
