"""What the demo shows of its progress, on a terminal and into a pipe."""

import io
from datetime import UTC, datetime, timedelta

from rich.console import Console

from dueledger.demo.progress_view import KindProgress, Progress, open_view

NOW = datetime(2027, 3, 1, 23, 4, tzinfo=UTC)
PROGRESS = Progress(
    NOW,
    [
        KindProgress("a", "PolicyRenewalDue", 7_857, NOW - timedelta(hours=9), 10, 2, 1, 2_345, 3),
        KindProgress("a", "PeriodicJobDue", 0, None, 12_345, 0, 0, 12_345, 0),
    ],
)


def shown(*, terminal: bool) -> str:
    text = io.StringIO()
    with open_view(
        Console(file=text, force_terminal=terminal, width=80, color_system=None)
    ) as view:
        view.show(PROGRESS)
    return text.getvalue()


def test_a_line_says_how_long_the_oldest_due_item_has_been_due_and_what_is_past_its_sla() -> None:
    renewals, jobs = shown(terminal=False).splitlines()
    assert "PolicyRenewalDue: due 7,857 (the oldest for 9 h), claimed 2" in renewals
    assert renewals.endswith("completed 2,345, past its SLA 3")
    assert "PeriodicJobDue: due 0, claimed 0" in jobs


def test_the_table_fits_eighty_columns() -> None:
    lines = shown(terminal=True).splitlines()
    header = next(line for line in lines if "oldest for" in line)
    renewals = next(line for line in lines if "PolicyRenewalDue" in line)
    assert "past SLA" in header
    assert renewals.split() == ["PolicyRenewalDue", "10", "7,857", "9", "h", "2", "1", "2,345", "3"]
