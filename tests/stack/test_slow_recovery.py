"""A server that recovers from a crash is waited for as long as it says so."""

from pathlib import Path

import pytest

from dueledger.stack import StackError, postgres
from dueledger.stack.postgres import Postgres
from dueledger.stack.start_progress import StartProgress

# It recovers until its user was informed, and is ready from then on.
SLOW = """
echo 'LOG:  {said}'
echo 'FATAL:  the database system is starting up'
until [ -e {reported} ]; do sleep 0.02; done
printf '%s\\n\\n\\n\\n\\n\\n\\nready\\n' $$ > {cluster}/postmaster.pid
exec sleep 600
"""


def started_slowly(tmp_path: Path, said: str) -> Postgres:
    reported = tmp_path / "reported"

    def report_step(step: str) -> None:
        if said in step:
            reported.touch()

    server = Postgres(tmp_path, steps=StartProgress(report_step))
    cluster = tmp_path / "postgres"
    cluster.mkdir()
    script = SLOW.format(said=said, reported=reported, cluster=cluster)
    server._child.start(["/bin/sh", "-c", script])  # pyright: ignore[reportPrivateUsage]
    return server


@pytest.mark.parametrize(
    "said",
    [
        "syncing data directory (fsync), elapsed time: 10.00 s, current path: ./base/5/1259",
        "redo in progress, elapsed time: 50.00 s, current LSN: 5/4F2A1B88",
    ],
)
def test_a_start_waits_on_while_the_log_tells_of_recovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(postgres, "_START_SECONDS", 2.0)
    server = started_slowly(tmp_path, said)
    try:
        assert server._wait_until_ready()  # pyright: ignore[reportPrivateUsage]
        assert (tmp_path / "reported").exists()
    finally:
        server.kill()


def test_a_start_that_says_nothing_of_recovery_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_START_SECONDS", 0.5)
    server = started_slowly(tmp_path, "starting PostgreSQL 18")
    try:
        with pytest.raises(StackError, match="was not ready"):
            server._wait_until_ready()  # pyright: ignore[reportPrivateUsage]
    finally:
        server.kill()
