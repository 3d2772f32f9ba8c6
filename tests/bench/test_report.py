"""The sentence about a benchmark's figures follows from the figures alone."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import every
from bench.backlog import pending_levels
from bench.report import Goal
from bench.soak import growth
from bench.usage import Meter, Usage, bound_by


def usage(cpu: dict[str, float], *, busy: float, waiting: float = 0.0) -> Usage:
    return Usage(10.0, cpu, cores=2, cores_busy=busy, cores_waiting=waiting)


def test_a_goal_is_reached_on_its_own_side_of_the_bound() -> None:
    assert Goal("at least", 70_000, 70_000, "items/s").reached
    assert not Goal("at least", 69_999, 70_000, "items/s").reached
    assert Goal("at most", 20.0, 20.0, "ms", ceiling=True).reached
    assert not Goal("at most", 20.1, 20.0, "ms", ceiling=True).reached
    assert not Goal("not measured", None, 1.0, "ms", ceiling=True).reached


@pytest.mark.parametrize(
    ("used", "says"),
    [
        (
            usage({"worker-1": 6.0, "worker-2": 5.0, "postgres": 8.5}, busy=2.0),
            "the CPU: 2 cores 98% busy, of which worker 56%, postgres 44%",
        ),
        (
            usage({"worker": 2.0, "postgres": 2.0}, busy=2.0),
            (
                "the CPU: 2 cores full, 20% of them with worker 50%, postgres 50%; "
                "other programs took 80%"
            ),
        ),
        (
            usage({"worker": 9.5, "postgres": 0.5}, busy=1.0),
            "worker, 95% of a core; 2 cores 50% busy, of which worker 95%, postgres 5%",
        ),
        (
            usage({"worker": 1.0}, busy=0.1, waiting=1.0),
            "the disk: a core waited for it 50% of the time; worker 100%",
        ),
        (
            usage({"worker": 1.0, "kafka": 0.0}, busy=0.1),
            "not the CPU: 2 cores 5% busy, of which worker 100%",
        ),
    ],
)
def test_what_bounds_a_figure_is_said_in_one_line(used: Usage, says: str) -> None:
    assert bound_by(used) == says


def test_a_process_that_has_gone_is_left_out_of_the_usage() -> None:
    assert Meter({"gone": 2**22 + 1}).read().cpu_seconds == {}


def test_growth_compares_the_last_quarter_with_the_second_and_forgives_the_slack() -> None:
    assert growth([1, 100, 50, 120], slack=0) == 1.2
    assert growth([1, 100, 50, 120], slack=20) == 1.0
    assert growth([1, 100, 50, 80], slack=0) == 0.8
    assert growth([0, 0, 0, 0], slack=0) == 0.0
    assert growth([1, 2, 3], slack=0) is None


def test_backlog_levels_end_at_what_may_wait_at_most() -> None:
    assert pending_levels(10_000_000) == (10_000, 1_000_000, 10_000_000)
    assert pending_levels(100_000_000) == (10_000, 1_000_000, 10_000_000, 100_000_000)
    assert pending_levels(20_000) == (10_000, 20_000)


def test_a_scale_shrinks_sizes_to_their_least_and_keeps_whole_what_counts_whole_things() -> None:
    soak = next(planned for planned in every.PLAN if planned.name == "soak")
    assert soak.arguments(1.0) == [
        *("bench", "soak", "--minutes", "20.0", "--peak-items", "300000", "--json")
    ]
    assert soak.arguments(0.0001) == [
        *("bench", "soak", "--minutes", "0.2", "--peak-items", "5000", "--json")
    ]
    assert soak.values(0.5, quick=True) == {"--minutes": 1.0, "--peak-items": 100_000}


@pytest.mark.parametrize(
    ("figures", "middle", "is_reached"),
    [
        ([3, 1, 2], 2, True),
        ([1, 1, 3], 1, False),
        ([3, 1], 1, False),
        ([3, None, 2], 2, False),
        ([None], None, False),
    ],
)
def test_a_goal_over_rounds_is_its_median_with_least_and_most(
    figures: list[float | None], middle: float | None, *, is_reached: bool
) -> None:
    _check_spread(figures, middle, is_reached=is_reached, is_ceiling=False)


@pytest.mark.parametrize(
    ("figures", "middle", "is_reached"),
    [([1, 3], 3, False), ([1, 2], 2, True), ([2, 2], 2, True), ([4, 3], 4, False)],
)
def test_of_two_figures_the_larger_counts_where_less_is_better(
    figures: list[float | None], middle: float, *, is_reached: bool
) -> None:
    _check_spread(figures, middle, is_reached=is_reached, is_ceiling=True)


def _check_spread(
    figures: list[float | None], middle: float | None, *, is_reached: bool, is_ceiling: bool
) -> None:
    goals = [Goal("two", figure, 2, "s", ceiling=is_ceiling).document() for figure in figures]
    known = [figure for figure in figures if figure is not None]
    assert every.spread(goals) == {
        "goal": "two",
        "figure": middle,
        "unit": "s",
        "bound": 2,
        "reached": is_reached,
        "least": min(known, default=None),
        "most": max(known, default=None),
        "rounds": len(figures),
    }


async def test_a_benchmark_that_fails_is_a_row_with_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(every, "PLAN", (every.Planned("nonesuch"),))
    run = every.BenchmarkRun(rounds=2, folder=tmp_path, say=lambda _line: None)
    document = await run.run()
    assert "nonesuch" in document["errors"]["nonesuch"]
    assert [row["reached"] for row in document["rows"]] == [False]
    assert json.loads((tmp_path / "all.json").read_text())["rows"] == document["rows"]


async def test_rounds_go_on_from_those_of_the_same_sizes_and_some_run_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def measured(arguments: Sequence[str], _say: object) -> every.Document:
        asked.append(arguments[1])
        goals = [Goal("fast", len(asked), 2, "s").document()]
        if len(asked) == 1:
            goals.append(Goal("older", 1, 2, "s").document())
        return {
            "options": {"items": int(arguments[3])},
            "goals": goals,
            "bound_by": "the CPU",
            "measured_at": str(len(asked)),
        }

    sizes = (every.Size("--items", 10, 5, 1),)
    plan = (every.Planned("one", sizes), every.Planned("once", sizes, rounds_max=1))
    monkeypatch.setattr(every, "PLAN", plan)
    monkeypatch.setattr(every, "_run", measured)

    last: list[every.Document] = []

    async def rows(rounds: int, *, quick: bool = False) -> list[tuple[str, float, int]]:
        run = every.BenchmarkRun(
            quick=quick, rounds=rounds, folder=tmp_path, say=lambda _line: None
        )
        last[:] = (await run.run())["rows"]
        return [(row["benchmark"], row["figure"], row["rounds"]) for row in last]

    assert await rows(1) == [("one", 1, 1), ("one", 1, 1), ("once", 2, 1)]
    # Goals of an older version have no row.
    assert await rows(3) == [("one", 3, 3), ("once", 2, 1)]
    assert asked == ["one", "once", "one", "one"]
    assert await rows(1, quick=True) == [("one", 5, 1), ("once", 6, 1)]
    # Rounds of other sizes stay in the folder, and so do those that were run by hand.
    file = tmp_path / "one.json"
    kept = json.loads(file.read_text())
    unplanned = {key: value for key, value in kept["rounds"][0].items() if key != "arguments"}
    file.write_text(json.dumps(kept | {"rounds": [*kept["rounds"], unplanned]}))
    assert await rows(4) == [("one", 3, 4), ("once", 2, 1)]
    assert asked == ["one", "once", "one", "one", "one", "once", "one"]
    assert (last[0]["first_at"], last[0]["last_at"]) == ("1", "7")
    rounds = json.loads(file.read_text())["rounds"]
    assert [one["options"]["items"] for one in rounds] == [10, 10, 10, 5, 10, 10]


@pytest.mark.full
async def test_all_gives_a_row_a_goal_and_the_documents_they_come_from() -> None:
    run = every.BenchmarkRun(("emit",), scale=0.0001, say=lambda _line: None)
    document = await run.run()
    assert document["errors"] == {}
    (measured,) = document["documents"]["emit"]
    assert measured["fsync"] == "on"
    assert measured["took_seconds"] > 0
    assert [row["goal"] for row in document["rows"]] == [one["goal"] for one in measured["goals"]]
    for row in document["rows"]:
        assert (row["benchmark"], row["rounds"]) == ("emit", 1)
        assert row["least"] == row["figure"] == row["most"] > 0
        assert row["unit"]
        assert row["bound_by"]
