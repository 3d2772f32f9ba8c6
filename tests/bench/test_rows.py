"""Each row of the table runs with tiny counts and reports its figures."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bench import peer_systems as peers
from bench.backlog import BacklogOptions, bench_backlog
from bench.compare import CompareOptions, bench_compare
from bench.emit import EmitOptions, bench_emit
from bench.flood import FloodOptions, bench_flood
from bench.flows import FlowsOptions, bench_flows
from bench.idle import ROLES, IdleOptions, bench_idle
from bench.lag import LagOptions, bench_lag
from bench.materialise import MaterialiseOptions, bench_materialise
from bench.pipeline import DirectOptions, PipelineOptions, bench_direct, bench_pipeline
from bench.reconcile import ReconcileOptions, bench_reconcile
from bench.rig import Rig
from bench.service import ServiceOptions, bench_service
from bench.soak import SoakOptions, bench_soak
from bench.workers import WorkersOptions, bench_workers

pytestmark = pytest.mark.long

Take = Callable[..., Awaitable[dict[str, Any]]]

ITEMS = 2000


async def test_the_pipeline_says_how_long_each_step_took_and_that_it_balanced(taken: Take) -> None:
    document = await taken(bench_pipeline, PipelineOptions(ITEMS, warm_items=ITEMS))
    assert document["balanced"]
    assert document["items_per_second"] > 0
    assert {"claim_to_publish", "claim_to_start", "start_to_complete"} <= set(
        document["steps_milliseconds"]
    )
    assert {"allocator", "worker", "bench"} <= set(document["cpu_microseconds_an_item"])


@pytest.mark.full
async def test_emission_is_measured_from_each_number_of_connections_and_once_more_as_a_repeat(
    taken: Take,
) -> None:
    document = await taken(bench_emit, EmitOptions(ITEMS * 4, (1, 2)))
    assert set(document["connections"]) == {"1", "2"}
    assert all(one["repeat_per_second"] > 0 for one in document["connections"].values())
    doors = document["backend_microseconds_an_item"]
    assert len(doors) == 4
    assert all(0 < door["median"] <= door["most"] for door in doors.values())


@pytest.mark.full
async def test_the_backlog_is_claimed_from_at_each_level_and_with_a_snapshot_held(
    taken: Take,
) -> None:
    options = BacklogOptions(
        pending=(4000, 12_000), items=8000, hold_seconds=0.1, hold_items=16_000
    )
    document = await taken(bench_backlog, options)
    assert set(document["items_per_second_by_pending"]) == {"4000", "12000"}
    assert set(document["with_a_snapshot_held"]) == {"at 4000", "at 100"}
    assert len(document["goals"]) == 4


@pytest.mark.full
async def test_workers_that_claim_for_themselves_publish_nothing(taken: Take) -> None:
    document = await taken(bench_direct, DirectOptions(ITEMS))
    assert document["balanced"]
    assert "claim_to_publish" not in document["steps_milliseconds"]


@pytest.mark.full
async def test_lag_is_measured_each_way_at_each_rate(taken: Take) -> None:
    document = await taken(bench_lag, LagOptions(1.0, 1.0, (1000, 2000), rates_for_now=(100,)))
    measured = [(one["way"], one["items_per_second"]) for one in document["lags"]]
    ahead = [("kafka", 1000), ("kafka", 2000), ("direct", 1000), ("direct", 2000)]
    assert measured == [*ahead, ("kafka", 100), ("direct", 100)]
    assert all(one["p50_milliseconds"] >= 0 for one in document["lags"])
    assert all(one["claims"] > 0 for one in document["lags"])


@pytest.mark.full
async def test_a_flood_is_measured_in_both_kinds_and_beside_a_lag_target(
    taken: Take,
) -> None:
    options = FloodOptions(ITEMS * 2, flows=5, seconds=4.0, pipeline_items=ITEMS, warm_items=ITEMS)
    document = await taken(bench_flood, options)
    assert len(document["floods"]) == 3
    assert all(one["others"]["items"] > 0 for one in document["floods"].values())
    assert document["lag_target_milliseconds"] > 0
    assert len(document["goals"]) == 6


@pytest.mark.full
async def test_flows_that_are_held_back_keep_what_waits_behind_them(taken: Take) -> None:
    options = FlowsOptions(20, 20, items=ITEMS, blocked_items=400, warm_items=ITEMS)
    document = await taken(bench_flows, options)
    assert document["many_flows"]["items_per_second"] > 0


@pytest.mark.full
async def test_more_workers_are_measured_against_one(taken: Take) -> None:
    document = await taken(bench_workers, WorkersOptions((1, 2), 0.5, transactional_items=100))
    assert document["workers"]["1"]["of_linear"] == 1.0
    for chunk_max in 1, 25:
        assert document[f"transactional, chunk_max={chunk_max}"]["items_per_second"] > 0


@pytest.mark.full
async def test_every_process_is_watched_while_it_is_idle(taken: Take) -> None:
    document = await taken(bench_idle, IdleOptions(1000, 2.0))
    assert set(ROLES) <= set(document["cpu_share_of_core"])


@pytest.mark.full
async def test_a_soak_says_how_memory_dead_rows_and_lag_went_on(taken: Take) -> None:
    document = await taken(bench_soak, SoakOptions(0.1, rate=200))
    assert document["items_per_second"] == 200
    assert {"allocator", "worker"} <= set(document["memory_bytes"][0])
    assert len(document["lags"]) > 4


async def test_a_peer_whose_program_is_missing_says_so(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "SOURCES", tmp_path / "nowhere")
    with pytest.raises(peers.PeerUnavailable, match="source checkout"):
        await peers.install(peers.PEERS[0], rig)


@pytest.mark.full
async def test_a_peer_that_cannot_run_is_an_entry_that_says_why(
    taken: Take, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peers, "SOURCES", tmp_path / "nowhere")
    document = await taken(bench_compare, CompareOptions(ITEMS, rounds=1, warm_items=ITEMS))
    assert {peer.name for peer in peers.PEERS} <= set(document["errors"])
    assert document["medians"]["dueledger pipeline"] > 0
    assert [goal["reached"] for goal in document["goals"]] == [False] * 5


@pytest.mark.full
async def test_passes_are_measured_whole_unchanged_and_after_changes(taken: Take) -> None:
    document = await taken(
        bench_reconcile, ReconcileOptions(30_000)
    )  # more than a day of schedules
    assert len(document["goals"]) == 7
    assert document["records_of_kafka"]["records"] > document["pipeline"]["items"] == 3_000
    assert all(rate > 0 for rate in document["pipeline"]["items_per_second"].values())
    assert 0 <= document["longest_snapshot_seconds"] < document["seconds"]["everything_read"]
    again = document["items_read_again"]
    assert again["nothing_changed"] == 0
    assert 0 < again["after_1000_changes"] < 30_000
    assert all(seconds > 0 for seconds in document["seconds"].values())
    assert document["evidence"]["items"] == 15_000


@pytest.mark.full
async def test_materialising_is_measured_against_croniter_a_day_ahead_and_in_memory(
    taken: Take,
) -> None:
    document = await taken(bench_materialise, MaterialiseOptions(60, 200, 0.03, days=60))
    assert len(document["goals"]) == 3
    rates = document["occurrences_per_second"]
    assert all(one["set_based"] > 0 and one["croniter"] > 0 for one in rates.values())
    assert document["ratio_least"] == min(one["ratio"] for one in rates.values())
    assert document["a_day_ahead"]["items"] > 60
    assert document["many_definitions"]["memory_bytes_at_most"] > 0


@pytest.mark.full
async def test_each_route_of_the_service_is_measured_quiet_and_beside_a_flood(taken: Take) -> None:
    options = ServiceOptions(
        30_000, 20_000, requests=2, emissions=1, seconds=0.1, polls=20, streams=20
    )
    document = await taken(bench_service, options)
    assert len(document["goals"]) == 11
    assert set(document["pages_beside_a_flood"]["most_milliseconds"]) == set(document["pages"])
    assert all(page["compressed_bytes"] > 0 for page in document["pages"].values())
    assert document["open_streams"]["events"] >= 20
    assert all(one["cpu_milliseconds"] >= 0 for one in document["routes"].values())
    assert set(document["beside_a_flood"]["most_milliseconds"]) == set(document["routes"])
    assert document["emission"]["seconds"]["least"] > 0
