"""The page of five curls does what it says, word for word."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from dueledger.ledger.store.api_keys import Scope
from tests.document_blocks import blocks_of
from tests.service.conftest import Api

PRINTED = re.compile(r'\{.*?\n\}|^"[^"\n]*"$|^\d+$', re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("curl", "jq")), reason="needs curl and jq"
)
async def test_the_five_curls_register_run_receive_report_and_show(
    api: Api, tmp_path: Path
) -> None:
    key = await api.make_key("curls", Scope.READ, Scope.OPERATE, Scope.WORK)
    name = "test_the_five_curls_register_run_receive_report_and_show"
    blocks = [block.text for block in blocks_of("docs/five-curls.md", run_by=name)]
    assert len(blocks) == 7
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-e", "-c", "".join(blocks)),
        cwd=tmp_path,
        env={**os.environ, "URL": api.service.url, "KEY": key.text},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await shell.communicate()
    assert shell.returncode == 0, said.decode()
    defined, state, claimed, result, execution, counts, version, *pauses = [
        json.loads(each) for each in PRINTED.findall(said.decode())
    ]
    assert defined["version"] == 1
    assert "09:00:00" in defined["next"]
    assert state == "Scheduled"
    assert (claimed["business_key"], claimed["attempt"]) == ("statements", 1)
    assert result == "recorded"
    assert (execution["state"], execution["attempt"]) == ("Completed", 1)
    assert execution["duration_seconds"] > 0
    assert execution["evidence"] == {"pages": 12}
    assert counts["added"] > 0
    assert (version, pauses) == (2, ["INC-1234", "INC-1234"])
